"""Far host: a program that reads datagrams from a socket with a buffer of a given length, trial after trial.

usage: sink.py PORT BUFFER_BYTES
Prints "ready". A trial is two lines on standard input: "begin", which it answers by "counting" once nothing of a trial
before comes any more, and "end SENT", which it answers, as soon as SENT datagrams have come, and GRACE_S later at the
latest, by a JSON object: "received", the datagrams that it has read, and "dropped", those that
its socket had no room for. It ends with its standard input.
"""

import gc
import json
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress

STILL_S, GRACE_S, LEFT_S = 0.03, 0.02, 2.0
SO_MEMINFO, COUNTERS, DROPS = 55, struct.Struct("=9I"), 8  # socket(7); linux/sock_diag.h, SK_MEMINFO_DROPS
AT_ONCE = 1024
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[2]))
sock.bind(("0.0.0.0", int(sys.argv[1])))
sock.setblocking(False)
datagram = bytearray(65536)


def dropped() -> int:
    """How many datagrams the socket has dropped so far."""
    counters: tuple[int, ...] = COUNTERS.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, COUNTERS.size))
    return counters[DROPS]


def read() -> int:
    """Read what is there, but no more than AT_ONCE. Returns how many datagrams."""
    count = 0
    with suppress(BlockingIOError):
        while count < AT_ONCE:
            sock.recv_into(datagram)
            count += 1
    return count


def left_over() -> None:
    """Read what a trial before has left on its way, until nothing comes for STILL_S."""
    last = start = time.monotonic()
    while (now := time.monotonic()) < last + STILL_S and now < start + LEFT_S:
        last = now if read() else last
        time.sleep(STILL_S / 10)


def trial() -> dict[str, int]:
    """Count until told to end, and until the last datagram has come."""
    left_over()
    received, before = 0, dropped()
    end, sent = 0.0, -1
    asked = select.poll()
    asked.register(sys.stdin, select.POLLIN)
    asked.register(sock, select.POLLIN)
    print("counting", flush=True)
    while True:
        ready = asked.poll(STILL_S * 1000)
        now = time.monotonic()
        received += read()
        if sent < 0 and any(number == sys.stdin.fileno() for number, _ in ready):
            words = sys.stdin.readline().split()
            sent, end = (int(words[1]) if words else 0), now
            asked.unregister(sys.stdin)
        if sent >= 0 and (received + dropped() - before >= sent or now > end + GRACE_S):
            return {"received": received, "dropped": dropped() - before}


if __name__ == "__main__":
    gc.disable()
    with suppress(PermissionError):
        os.nice(-15)  # as generate.py
    print("ready", flush=True)
    while sys.stdin.readline():
        print(json.dumps(trial()), flush=True)
