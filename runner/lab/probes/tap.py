"""WAN or gateway: every frame that passes an interface, on demand.

usage: tap.py INTERFACE
Prints "tapping" when it does. Each line of standard input is answered by a JSON object: "frames" since the last line,
each as [seconds since the epoch, "in" or "out", hex]. "lost" counts those beyond what it keeps. The time is the
kernel's, so that the frames of several taps have an order.
"""

import json
import selectors
import socket
import struct
import sys
from contextlib import suppress

ETH_P_ALL, PACKET_OUTGOING = 3, 4
MOST = 5000
SO_TIMESTAMPNS = 35  # socket(7); asm-generic/socket.h
TIME = struct.Struct("@ll")  # seconds, nanoseconds

packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
packets.bind((sys.argv[1], 0))
packets.setblocking(False)
frames: list[tuple[float, str, str]] = []
lost = 0


def drain() -> None:
    """Take in the frames that wait; beyond MOST they are only counted as lost."""
    global lost
    with suppress(BlockingIOError):
        while True:
            frame, told, _, origin = packets.recvmsg(70000, socket.CMSG_SPACE(TIME.size))
            second, nanosecond = TIME.unpack(told[0][2])
            if len(frames) < MOST:
                frames.append((second + nanosecond / 1e9, "out" if origin[2] == PACKET_OUTGOING else "in", frame.hex()))
            else:
                lost += 1


ends = selectors.PollSelector()
for end in (packets, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("tapping", flush=True)
while True:
    ready = [key.fileobj for key, _ in ends.select()]
    drain()
    if sys.stdin in ready:
        if not sys.stdin.readline():
            break
        print(json.dumps({"frames": frames, "lost": lost}), flush=True)
        frames, lost = [], 0
