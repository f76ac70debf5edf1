"""What a system call and a packet cost in this machine's kernel. Prints one JSON object.

usage: costs.py       takes some hundredths of a second, and sends datagrams to itself on the loopback
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

SOL_UDP, UDP_SEGMENT = 17, 103  # linux/udp.h: the kernel cuts what one call sends into packets (udp(7))
PACKETS, PACKET_BYTES = 40, 1400
TIMES, TRIES = 500, 7


def costs() -> dict[str, float]:
    """In µs: ``system_call_us``; ``packet_us``, of a datagram on the loopback without a call of its own, where the
    kernel cuts datagrams."""
    found = {"system_call_us": round(call_us(os.getppid) - call_us(int), 3)}
    with suppress(OSError):
        found["packet_us"] = round(_packet_us(), 3)
    return found


def call_us(call: Callable[[], object], times: int = TIMES) -> float:
    """What one ``call`` takes in µs: the least of several means, which other work on the machine does not lengthen."""
    took = []
    for _ in range(TRIES):
        began = time.perf_counter()
        for _ in range(times):
            call()
        took.append((time.perf_counter() - began) / times)
    return 1e6 * min(took)


def _packet_us() -> float:
    """One call that sends many datagrams, less one that sends one, for each datagram more. They are dropped at a
    receiver without room. Raises OSError where the kernel does not cut them."""
    with socket.socket(type=socket.SOCK_DGRAM) as far, socket.socket(type=socket.SOCK_DGRAM) as near:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        far.bind(("127.0.0.1", 0))
        near.connect(far.getsockname())
        near.setsockopt(SOL_UDP, UDP_SEGMENT, PACKET_BYTES)
        many, one = (bytes(PACKET_BYTES * packets) for packets in (PACKETS, 1))
        longer, shorter = (call_us(partial(near.send, sent), TIMES // 10) for sent in (many, one))
    return (longer - shorter) / (PACKETS - 1)


if __name__ == "__main__":
    json.dump(costs(), sys.stdout)
