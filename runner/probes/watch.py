"""WAN: capture everything on one interface until a line of hex arrives, then say whether it was seen.

usage: watch.py [--sent] INTERFACE [FILE]
With --sent, only what leaves by the interface: a gateway with kernel IPsec shows what it has decrypted as received.
Prints "watching" when the socket is open. Reads one line "HEX HEX …" of markers. Prints a JSON object with
the frames and bytes captured and, for each marker, whether any 32-byte part of it was on the wire, and the first frame
that had one: at which byte, and its beginning as hex.
With FILE, the frames are also written there as a pcap, for evidence.
"""

import json
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
PART, HEAD = 32, 64
MAXIMUM = 64 * 2**20  # bytes; proof traffic is a few kilobytes

sent_only = sys.argv[1] == "--sent"
if sent_only:
    del sys.argv[1]
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
packets.bind((sys.argv[1], 0))
print("watching", flush=True)

frames = []
captured = 0
while captured < MAXIMUM:
    ready, _, _ = select.select([packets, sys.stdin], [], [])
    if packets in ready:
        frame, origin = packets.recvfrom(70000)
        if sent_only and origin[2] != socket.PACKET_OUTGOING:
            continue
        frames.append((time.time(), frame))
        captured += len(frame)
    elif sys.stdin in ready:
        break

markers = [bytes.fromhex(word) for word in sys.stdin.readline().split()]
where = [
    next(
        (
            [frame.index(part), frame[:HEAD].hex()]
            for _, frame in frames
            for part in (marker[start : start + PART] for start in range(0, len(marker) - PART + 1, PART))
            if part in frame
        ),
        None,
    )
    for marker in markers
]
if len(sys.argv) > 2:
    with open(sys.argv[2], "wb") as file:  # https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 70000, 1))
        for when, frame in frames:
            second, fraction = divmod(when, 1)
            file.write(struct.pack("<IIII", int(second), int(fraction * 1e6), len(frame), len(frame)) + frame)
seen = [found is not None for found in where]
print(json.dumps({"frames": len(frames), "bytes": captured, "seen": seen, "where": where}))
