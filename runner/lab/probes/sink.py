"""Far host: a program that reads datagrams from a socket with a buffer of a given length, trial after trial.

usage: sink.py BUFFER_BYTES
Prints "ready". A trial is two lines on standard input: "begin PORT", which it answers by "counting", and "end SENT
WAY_S", which it answers, as soon as SENT datagrams have come, and GRACE_S and WAY_S later at the latest, by a JSON
object: "received", the datagrams that it has read, and "dropped", those that its socket had no room for. What comes
later finds no socket: give each trial a port of its own. It ends with its standard input.
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

LOOK_S, GRACE_S = 0.01, 0.02
SO_MEMINFO, COUNTERS, DROPS = 55, struct.Struct("=9I"), 8  # socket(7); linux/sock_diag.h, SK_MEMINFO_DROPS
AT_ONCE = 1024
datagram = bytearray(65536)


def drop_count(sock: socket.socket) -> int:
    """How many datagrams the socket has dropped so far."""
    counters: tuple[int, ...] = COUNTERS.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, COUNTERS.size))
    return counters[DROPS]


def read(sock: socket.socket) -> int:
    """Read what is there, but no more than AT_ONCE. Returns how many datagrams."""
    count = 0
    with suppress(BlockingIOError):
        while count < AT_ONCE:
            sock.recv_into(datagram)
            count += 1
    return count


def trial(sock: socket.socket) -> dict[str, int]:
    """Count until told to end, and until the last datagram has come."""
    received, end, sent = 0, 0.0, -1
    asked = select.poll()
    asked.register(sys.stdin, select.POLLIN)
    asked.register(sock, select.POLLIN)
    print("counting", flush=True)
    while True:
        ready = asked.poll(LOOK_S * 1000)
        now = time.monotonic()
        received += read(sock)
        if sent < 0 and any(number == sys.stdin.fileno() for number, _ in ready):
            words = sys.stdin.readline().split()
            sent, end = (int(words[1]), now + float(words[2])) if words else (0, now)
            asked.unregister(sys.stdin)
        if sent >= 0 and (received + drop_count(sock) >= sent or now > end + GRACE_S):
            return {"received": received, "dropped": drop_count(sock)}


if __name__ == "__main__":
    gc.disable()
    with suppress(PermissionError):
        os.nice(-15)  # as generate.py
    print("ready", flush=True)
    while words := sys.stdin.readline().split():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
            receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
            receiving.bind(("0.0.0.0", int(words[1])))
            receiving.setblocking(False)
            print(json.dumps(trial(receiving)), flush=True)
