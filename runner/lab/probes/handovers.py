"""WAN of redundant gateways: pulls the cable of the first gateway, again and again, and times each handover.

usage: handovers.py FAR_ADDRESS FIRST SECOND CALM_S PHASE_S LIMIT_S SEED
FIRST and SECOND are the ports of the WAN node that lead to the two gateways; a steady stream goes to FAR_ADDRESS.
Prints "watching". Then, for each line on standard input: sets FIRST up; waits until the stream has come by FIRST alone
for CALM_S, and for a random time of up to PHASE_S; sets FIRST down; waits for the stream by SECOND; and prints a JSON
object: "handover_s", from the last packet by FIRST to the first by SECOND, and "interval_s", the mean time between two
packets before. Where something of it does not happen within LIMIT_S it prints "lost", which says what, and ends.

Only IPv4 packets to FAR_ADDRESS of the commonest length count, so that a tunnel's negotiation does not. No command is
run: setting a port down is one system call (netdevice(7)), and the packets meanwhile are seen when they come.
"""

import fcntl
import json
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

ETH_P_ALL, PACKET_OUTGOING = 3, 4  # packet(7)
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

far, first, second = socket.inet_aton(sys.argv[1]), sys.argv[2], sys.argv[3]
calm_s, phase_s, limit_s = map(float, sys.argv[4:7])
rng = random.Random(sys.argv[7])
lengths: Counter[int] = Counter()
seen: dict[str, list[float]] = {first: [], second: []}  # of this turn: when, by port
captures = {}
ends = selectors.PollSelector()
for name in (first, second):
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
    capture.bind((name, 0))
    capture.setblocking(False)
    captures[capture] = name
for capture in captures:
    ends.register(capture, selectors.EVENT_READ)
with suppress(PermissionError):
    os.nice(-15)


def take() -> None:
    """Note the stream's packets that have come by now."""
    for capture, name in captures.items():
        with suppress(OSError):  # nothing more; or the port is down
            while True:
                frame, origin = capture.recvfrom(64)
                if origin[2] != PACKET_OUTGOING and frame[12:14] == b"\x08\x00" and frame[30:34] == far:
                    length = int.from_bytes(frame[16:18], "big")
                    lengths[length] += 1
                    if length == max(lengths, key=lambda size: lengths[size]):
                        seen[name].append(time.monotonic())


def watch_until(happened: Callable[[], bool], within_s: float) -> bool:
    """Watch until ``happened`` is true. Returns False where that takes longer than ``within_s``."""
    give_up = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > give_up:
            return False
        ends.select(0.02)
        take()
    return True


def set_port(up: bool) -> None:
    """Set the first gateway's port up or down, as if its cable were put in or pulled."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh", first.encode(), 0).ljust(40, b"\0")
        flags = struct.unpack_from("h", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked), 16)[0]
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", first.encode(), flags).ljust(40, b"\0"))


def calm() -> bool:
    """Has the stream come by the first port alone, and without a longer pause, for ``calm_s``?"""
    now = time.monotonic()
    since = max([began, *seen[second][-1:]])
    pauses = [b for a, b in zip(seen[first], seen[first][1:], strict=False) if b - a > calm_s / 2]
    since = max([since, *seen[first][:1], *pauses])
    return bool(seen[first]) and now - seen[first][-1] < calm_s / 2 and now - since >= calm_s


def turn() -> dict[str, object]:
    """Run one handover. Returns its times, or why there was none."""
    for times in seen.values():
        times.clear()
    set_port(True)
    if not watch_until(calm, limit_s):
        return {"lost": f"within {limit_s:g} s the stream did not come steadily by {first} alone"}
    watch_until(lambda: False, rng.uniform(0, phase_s))
    set_port(False)
    take()
    seen[second].clear()
    took_over = watch_until(lambda: bool(seen[second]), limit_s)
    before = seen[first]
    if not took_over:
        return {"lost": f"within {limit_s:g} s after the failure nothing came by {second}"}
    interval_s = (before[-1] - before[0]) / max(1, len(before) - 1)
    return {"handover_s": round(seen[second][0] - before[-1], 5), "interval_s": round(interval_s, 5)}


print("watching", flush=True)
for _ in sys.stdin:
    began = time.monotonic()
    result = turn()
    print(json.dumps(result), flush=True)
    if "lost" in result:
        break
