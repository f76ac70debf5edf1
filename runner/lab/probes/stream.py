"""A host: numbered datagrams to the other host at an even rate, and which of the other's datagrams came, and when.

usage: stream.py ADDRESS PORT PACKETS_PER_SECOND LATE_S LIMIT_S RTT_S
Prints "streaming", and from then on, every 100 ms, "SECONDS SENT FRESH": since the start, what was sent and what came
in time in these 100 ms. On a line on standard input, or after LIMIT_S, it stops sending, waits for what is on its way,
a round trip RTT_S and a moment, and prints a JSON object: "sent" datagrams; "pause_ms", the longest pause between two
of them; "ended_s"; and of the other host's datagrams those that came in time, as "runs" of consecutive numbers [first,
last, sent_s of the first, sent_s of the last], on the sender's clock; "late", "again" and how many "came" in all.

In time is what takes at most LATE_S longer than the fastest datagram: one that a tunnel has kept while it was broken is
of no use to a call (RFC 6412, forwarding delay threshold). The fastest one also tells the difference of the clocks.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time
from array import array
from contextlib import suppress

HEADER = struct.Struct("!8sQd")  # whose it is, its number, when it was sent
MAGIC = b"vpnevalS"
LENGTH = 64
STATUS_S, LINGER_S = 0.1, 0.5 + float(sys.argv[6])
BEHIND = 50  # datagrams: who falls behind further catches up with these, and counts the rest as never offered

peer = (sys.argv[1], int(sys.argv[2]))
interval_s, late_s, limit_s = 1 / float(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
with suppress(PermissionError):
    os.nice(-15)  # where CPU is short, it should be short for what is measured, and not for the instrument
sock = socket.socket(socket.AF_INET6 if ":" in peer[0] else socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
sock.bind(("", peer[1]))
sock.setblocking(False)
padding = bytes(LENGTH - HEADER.size)
numbers, times, delays = array("Q"), array("d"), array("d")
fastest = float("inf")
sent = fresh = sent_before = 0
pause_s = 0.0

ready = (
    selectors.SelectSelector()
)  # poll(2) and epoll(7) wait for whole milliseconds; this process has five descriptors
ready.register(sock, selectors.EVENT_READ)
ready.register(sys.stdin, selectors.EVENT_READ)

print("streaming", flush=True)
start = last_send = time.monotonic()
due_s, status_s, end_s = 0.0, STATUS_S, limit_s
sending = True
while True:
    now = time.monotonic() - start
    if sending and now >= due_s:
        if now - due_s > BEHIND * interval_s:
            due_s = now - BEHIND * interval_s
        while due_s <= now:
            with suppress(OSError):  # no route, a full queue: sent in vain, and counted as sent
                sock.sendto(HEADER.pack(MAGIC, sent, time.monotonic() - start) + padding, peer)
            sent += 1
            due_s += interval_s
        pause_s = max(pause_s, time.monotonic() - last_send)
        last_send = time.monotonic()
    with suppress(OSError):
        while True:
            magic, number, when = HEADER.unpack_from(sock.recv(2048))
            delay = time.monotonic() - start - when
            if magic == MAGIC:
                numbers.append(number)
                times.append(when)
                delays.append(delay)
                fastest = min(fastest, delay)
                fresh += delay <= fastest + late_s
    if now >= status_s and sending:
        print(f"{now:.3f} {sent - sent_before} {fresh}", flush=True)
        fresh, sent_before, status_s = 0, sent, now + STATUS_S
    if sending and now >= end_s:
        ready.unregister(sys.stdin)
        sending, end_s = False, now + LINGER_S
    elif now >= end_s:
        break
    wait_s = (min(due_s, status_s) if sending else end_s) - (time.monotonic() - start)
    for key, _ in ready.select(max(0.0, wait_s)):
        if key.fileobj is sys.stdin and sending:
            ready.unregister(sys.stdin)
            sending, end_s = False, time.monotonic() - start + LINGER_S

seen: dict[int, float] = {}
late = again = 0
for number, when, delay in zip(numbers, times, delays, strict=True):
    if number in seen:
        again += 1
    elif delay > fastest + late_s:
        late += 1
    else:
        seen[number] = when
runs: list[list[float]] = []
for number in sorted(seen):
    if runs and runs[-1][1] == number - 1:
        runs[-1][1], runs[-1][3] = number, round(seen[number], 4)
    else:
        runs.append([number, number, round(seen[number], 4), round(seen[number], 4)])
totals = {"sent": sent, "pause_ms": round(pause_s * 1e3, 2), "ended_s": round(last_send - start, 3)}
print(json.dumps({**totals, "runs": runs, "late": late, "again": again, "came": len(numbers)}), flush=True)
