"""What this kernel asks for a system call, a packet and a kilobyte of AES: whether a guest is one scale for data planes
in the kernel and in user space.

Of two kernels, the ratio of the calls' costs over that of the packets' is by how much the one favours the kernel's data
plane. The cost of AES in user space is among the facts (``openssl_bps``).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

HOST = "VPNEVAL_HOST_CALIBRATION"  # set inside a guest: what its host asks, as JSON
SOL_UDP, UDP_SEGMENT = 17, 103  # linux/udp.h: the kernel cuts what one call sends into packets (udp(7))
PACKETS, PACKET_BYTES = 40, 1400
PROTOCOLS = Path("/proc/net/protocols")
LONG_KB = 16  # an AF_ALG socket takes it at once
TIMES, TRIES = 500, 7


def calibration() -> dict[str, dict[str, float]]:
    """Kernel ("here", and in a guest "host") -> costs in µs: ``system_call_us``; ``packet_us``, of a datagram on the
    loopback without a call of its own; ``aes_kb_us``, of 1024 bytes of AES-128-CBC by the kernel's own driver. Takes
    some hundredths of a second; what a kernel lacks is left out."""
    costs = {"here": {"system_call_us": round(_each(os.getppid) - _each(int), 3)}}
    for name, measured in {"packet_us": _packet_us, "aes_kb_us": _aes_kb_us}.items():
        with suppress(OSError):
            costs["here"][name] = round(measured(), 3)
    if told := os.environ.get(HOST):
        costs["host"] = json.loads(told)
    return costs


def _each(call: Callable[[], object], times: int = TIMES) -> float:
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
        longer, shorter = (_each(partial(near.send, sent), TIMES // 10) for sent in (many, one))
    return (longer - shorter) / (PACKETS - 1)


def _aes_kb_us() -> float:
    """One request of many kilobytes, less one of one, for each kilobyte more (AF_ALG). Raises OSError where the kernel
    does not offer it. Outside of a guest it is not asked unless it is there: the question would load a module."""
    if HOST not in os.environ and "\nALG " not in PROTOCOLS.read_text():
        raise OSError("AF_ALG is not loaded")
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) as cipher:
        cipher.bind(("skcipher", "cbc(aes)"))
        cipher.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, bytes(16))
        with cipher.accept()[0] as requests:
            longer, shorter = (_each(partial(_encrypt, requests, kb), TIMES // 10) for kb in (LONG_KB, 1))
    return (longer - shorter) / (LONG_KB - 1)


def _encrypt(requests: socket.socket, kb: int) -> None:
    requests.sendmsg_afalg([bytes(1024 * kb)], op=socket.ALG_OP_ENCRYPT, iv=bytes(16))
    if len(requests.recv(1024 * kb)) < 1024 * kb:
        raise OSError("the kernel encrypted less than was asked for")
