"""WAN: pass every frame between two ports on, after a delay, and lose some: what netem does where a kernel has it.

usage: distance.py NEAR FAR DELAY_MS JITTER_MS LOSS_RATIO
Prints "far apart" when it does. Each direction has the delay, normally distributed around it with the jitter as
standard deviation, in the order in which the frames came; and loses each frame with the same probability.
"""

import ctypes
import random
import selectors
import socket
import sys
import time
from collections import deque
from contextlib import suppress

ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING = 3, 263, 23  # packet(7)
SO_RCVBUFFORCE = 33  # socket(7)
BUFFER_BYTES = 64 * 2**20  # what comes while another process has the CPU
BATCH = 64  # frames that are read before those that are due leave
PR_SET_TIMERSLACK = 29  # prctl(2): a sleep ends when it should, not 50 us later


def open_socket(interface: str) -> socket.socket:
    """A packet(7) socket that gets every frame that comes in at the interface."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    with suppress(PermissionError):  # without root, as much as net.core.rmem_max
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    sock.bind((interface, 0))
    sock.setblocking(False)
    return sock


ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
near, far = open_socket(sys.argv[1]), open_socket(sys.argv[2])
delay_s, jitter_s, loss_ratio = float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3, float(sys.argv[5])
ways = [(near, far, deque[tuple[float, bytes]]()), (far, near, deque[tuple[float, bytes]]())]
ends = selectors.PollSelector()
for end in (near, far):
    ends.register(end, selectors.EVENT_READ)
print("far apart", flush=True)
while True:
    due = min((waiting[0][0] for _, _, waiting in ways if waiting), default=None)
    ends.select(None if due is None else max(0.0, due - time.monotonic()))
    for here, there, waiting in ways:
        with suppress(BlockingIOError):
            for _ in range(BATCH):
                frame = here.recv(70000)
                if random.random() >= loss_ratio:
                    at = time.monotonic() + max(0.0, random.gauss(delay_s, jitter_s) if jitter_s else delay_s)
                    waiting.append((max(at, waiting[-1][0]) if waiting else at, frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            with suppress(OSError):  # the port is down, or its queue is full: lost, as on any cable
                there.send(waiting.popleft()[1])
