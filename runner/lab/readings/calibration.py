"""What a kernel asks for a system call, a packet and a kilobyte of AES: whether it is one scale for data planes in the
kernel and in user space (runner/data/scale.py).

Of two kernels, the ratio of the calls' costs over that of the packets' is by how much the one favours the kernel's data
plane. The cost of AES in user space is among the facts (``openssl_bps``).
"""

from __future__ import annotations

import json
import math
import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from runner.data.errors import CommandError
from runner.lab import probes
from runner.lab.node import Node
from runner.lab.probes.costs import TIMES, call_us, costs

HOST = "VPNEVAL_HOST_CALIBRATION"  # set inside a guest: what its host asks, as JSON
PROTOCOLS = Path("/proc/net/protocols")
LONG_KB = 16  # an AF_ALG socket takes it at once
WITHIN_S = 30.0  # in an emulated machine, a probe's start takes seconds


def calibration() -> dict[str, dict[str, float]]:
    """Kernel ("here", and in a guest "host") -> costs in µs: ``system_call_us``; ``packet_us``, of a datagram on the
    loopback without a call of its own; ``aes_kb_us``, of 1024 bytes of AES-128-CBC by the kernel's own driver. Takes
    some hundredths of a second; what a kernel lacks is left out."""
    kernels = {"here": costs()}
    with suppress(OSError):
        kernels["here"]["aes_kb_us"] = round(_aes_kb_us(), 3)
    if told := os.environ.get(HOST):
        kernels["host"] = json.loads(told)
    return kernels


def costs_of(node: Node) -> dict[str, float]:
    """``system_call_us`` and ``packet_us`` of a node with a kernel of its own; empty where it does not tell them."""
    said: Any = None
    with suppress(CommandError, ValueError, RecursionError):
        done = node.run("python3", "-IS", "-", check=False, timeout=WITHIN_S, input=probes.source("costs"))
        said = json.loads(done.stdout)
    known = said if isinstance(said, dict) else {}
    return {
        name: float(cost)
        for name in ("system_call_us", "packet_us")
        if isinstance(cost := known.get(name), int | float) and math.isfinite(cost)
    }


def _aes_kb_us() -> float:
    """One request of many kilobytes, less one of one, for each kilobyte more (AF_ALG). Raises OSError where the kernel
    does not offer it. Outside of a guest it is not asked unless it is there: the question would load a module."""
    if HOST not in os.environ and "\nALG " not in PROTOCOLS.read_text():
        raise OSError("AF_ALG is not loaded")
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) as cipher:
        cipher.bind(("skcipher", "cbc(aes)"))
        cipher.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, bytes(16))
        with cipher.accept()[0] as requests:
            longer, shorter = (call_us(partial(_encrypt, requests, kb), TIMES // 10) for kb in (LONG_KB, 1))
    return (longer - shorter) / (LONG_KB - 1)


def _encrypt(requests: socket.socket, kb: int) -> None:
    requests.sendmsg_afalg([bytes(1024 * kb)], op=socket.ALG_OP_ENCRYPT, iv=bytes(16))
    if len(requests.recv(1024 * kb)) < 1024 * kb:
        raise OSError("the kernel encrypted less than was asked for")
