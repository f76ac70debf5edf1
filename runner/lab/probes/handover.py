"""WAN of redundant gateways: which gateway's packets went to the far one, and from when to when.

usage: handover.py FAR_ADDRESS PORT PORT…   the ports of the WAN node that lead to the gateways
Prints "watching", then waits for the line "end" on standard input. Prints a JSON object: "length", that of the probe
stream's packets in the tunnel; "spells": [port, first_s, last_s, packets] of packets of that length which came by one
port without one by another between them, in seconds since "watching"; the first 100 of them, and "left_off", how many
more there were.

The length is the commonest of IPv4 packets to FAR_ADDRESS until the line "mixed" came, before the end: from then on
a download's acknowledgements, which may be commoner, are among them.
"""

import json
import os
import selectors
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

ETH_P_ALL, PACKET_OUTGOING = 3, 4  # packet(7); a bridge takes frames before a socket for IPv4 alone could see them
MOST = 100

far, ports = socket.inet_aton(sys.argv[1]), sys.argv[2:]
captures = {}
for name in ports:
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
    capture.bind((name, 0))
    capture.setblocking(False)
    captures[capture] = name
with suppress(PermissionError):
    os.nice(-15)
seen: list[tuple[float, str, int]] = []
alone = None  # how many were seen when the stream was the only one
ends = selectors.PollSelector()
for end in (*captures, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("watching", flush=True)
start = time.monotonic()
while True:
    ready = [key.fileobj for key, _ in ends.select()]
    for capture, name in captures.items():
        with suppress(OSError):  # nothing more; or the port is down
            while True:
                frame, origin = capture.recvfrom(64)
                if origin[2] != PACKET_OUTGOING and frame[12:14] == b"\x08\x00" and frame[30:34] == far:
                    seen.append((time.monotonic() - start, name, int.from_bytes(frame[16:18], "big")))
    if sys.stdin in ready:
        command = os.read(0, 64)
        if b"mixed" in command:
            alone = len(seen)
        if command != b"mixed\n":
            break

sizes = Counter(size for _, _, size in seen[:alone])
wanted = max(sizes, key=lambda size: sizes[size], default=0)
spells: list[list[Any]] = []
for when, name, size in sorted(seen):
    if size != wanted:
        continue
    if spells and spells[-1][0] == name:
        spells[-1][2] = round(when, 4)
        spells[-1][3] += 1
    else:
        spells.append([name, round(when, 4), round(when, 4), 1])
print(json.dumps({"length": wanted, "spells": spells[:MOST], "left_off": max(0, len(spells) - MOST)}))
