"""What a user names in a request: traffics, musts, the kernel and the image that are the default. It imports little, so
that ``--help`` answers at once."""

from __future__ import annotations

from typing import Literal, get_args

IMAGE = "trixie"
HOST = "host"  # this machine's own kernel

Traffic = Literal["files", "mixed", "calls", "transactions"]
TRAFFICS: tuple[Traffic, ...] = get_args(Traffic)
Connections = Literal[1, 8]  # of TCP, that the line's traffic is
CONNECTIONS: tuple[Connections, ...] = get_args(Connections)
# What a VPN can be asked to do beside carrying the line. runner/choice/musts.py says what shows each of them.
Must = Literal[
    "networks",
    "ipv6-inside",
    "ipv6-path",
    "udp-blocked",
    "nat",
    "no-fixed-address",
    "kernel",
    "post-quantum",
    "certificates",
    "approved",
    "forward-secrecy",
    "fail-closed",
    "ethernet",
    "multicast",
    "mesh",
    "standard",
    "tried",
    "maintained",
]
MUSTS: tuple[Must, ...] = get_args(Must)
USUAL: tuple[Must, ...] = ("networks", "tried", "maintained")  # in force unless a user takes them out
LATER: tuple[Must, ...] = ("tried",)  # of these, what older runs lack although nobody has taken it out
