"""Near host: UDP datagrams of one length at an even rate, by sendmmsg(2).

usage: send.py ADDRESS PORT IP_BYTES PACKETS_PER_SECOND SECONDS [fragment]
Prints a JSON object: "sent" datagrams in "seconds". IP_BYTES is the length of the IPv4 packet. DF is set, so that
nobody on the way may fragment it, unless "fragment" is given. A sender that falls behind catches up with 20 ms and
forgets the rest: it then sends less than asked, and says so by its count.
"""

import ctypes
import errno
import json
import os
import socket
import sys
import time
from contextlib import suppress

IP_UDP_BYTES = 28
IP_MTU_DISCOVER, DONT_SET_DF, PROBE = 10, 0, 3  # ip(7); PROBE sets DF and does not heed what PMTU was learnt
PR_SET_TIMERSLACK = 29  # prctl(2): a sleep ends when it should, not 50 us later
BATCH = 64
QUANTUM_S = 0.00025  # shorter pauses cost more CPU than they smooth
BEHIND_S = 0.02
RING_BYTES = 2**17  # different payloads, more than a compressor in the tunnel remembers


class Iovec(ctypes.Structure):
    """struct iovec (writev(2))."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    """struct msghdr (sendmsg(2))."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("iov", ctypes.POINTER(Iovec)),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):
    """struct mmsghdr (sendmmsg(2))."""

    _fields_ = [("header", Header), ("sent", ctypes.c_uint32)]


address, port, ip_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
per_second, seconds = float(sys.argv[4]), float(sys.argv[5])
length = ip_bytes - IP_UDP_BYTES
ring = max(BATCH, min(4096, RING_BYTES // max(1, length)))

with suppress(PermissionError):
    os.nice(-15)  # where CPU is short, it should be short for what is measured, and not for the instrument
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, DONT_SET_DF if "fragment" in sys.argv[6:] else PROBE)
sock.connect((address, port))
payload = ctypes.create_string_buffer(os.urandom(ring * length + 1))
parts = (Iovec * ring)()
messages = (Message * (ring + BATCH))()  # the first ones again at the end, so that a batch never wraps around
for i, message in enumerate(messages):
    parts[i % ring].base, parts[i % ring].length = ctypes.addressof(payload) + i % ring * length, length
    message.header.iov, message.header.iov_length = ctypes.pointer(parts[i % ring]), 1

total = max(1, round(per_second * seconds))
quantum = max(1.0, min(BATCH / 2, per_second * QUANTUM_S))
sent = forgotten = 0
start = time.monotonic()
while sent + forgotten < total:
    now = time.monotonic() - start
    due = min(total, int(now * per_second) + 1) - sent - forgotten
    if due > max(BATCH, per_second * BEHIND_S):
        behind = due - int(max(BATCH, per_second * BEHIND_S))
        forgotten, due = forgotten + behind, due - behind
        if now >= seconds:
            break
    if due <= 0:
        time.sleep(max(0.0, (sent + forgotten + quantum) / per_second - now))
        continue
    done = libc.sendmmsg(sock.fileno(), ctypes.byref(messages[sent % ring]), min(due, BATCH), 0)
    if done > 0:
        sent += done
    elif ctypes.get_errno() not in (errno.ECONNREFUSED, errno.ENOBUFS, errno.EAGAIN, errno.EINTR):
        sys.exit(f"sendmmsg: {os.strerror(ctypes.get_errno())}")
print(json.dumps({"sent": sent, "seconds": max(seconds, time.monotonic() - start)}))
