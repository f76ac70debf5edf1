"""The congestion control of a node's TCP: a new network namespace begins with the machine's, whatever that is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from runner.data.errors import Unsupported
from runner.lab.node import LabNode

CUBIC = "cubic"  # RFC 9438, and Linux's own default
SYSCTL = "net.ipv4.tcp_congestion_control"
TRY = "import socket, sys; socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())"


def use(node: LabNode, name: str = CUBIC) -> bool:
    """Make it the default of the node's TCP, once its ports are up. False where the kernel does not have it.

    A kernel gives a namespace none as its default that the machine's ``tcp_allowed_congestion_control`` leaves out
    (ip-sysctl.rst). Then the routes that the node has get it, ip-route(8), ``congctl``.
    """
    if node.run("sysctl", "-qw", f"{SYSCTL}={name}", check=False).code == 0:
        return True
    routes = node.run("ip", "route", "show").stdout.replace(" linkdown", "").splitlines()
    lines = "".join(f"route replace {route} congctl {name}\n" for route in routes)
    node.log(f"[{node.name}] ip route replace … congctl {name}")
    return node.run("ip", "-batch", "-", input=lines, check=False).code == 0


def default(node: LabNode) -> str:
    """What a TCP connection of the node begins with, by its default route or its kernel."""
    by_route = re.search(r"congctl (?:lock )?(\S+)", node.run("ip", "route", "show", "default").stdout)
    return by_route[1] if by_route else node.run("sysctl", "-n", SYSCTL, check=False).stdout.strip()


def control_refusal(hosts: Iterable[LabNode], name: str) -> Unsupported | None:
    """Why a connection between the hosts cannot have it, None where it can. A live probe, which loads its module."""
    for host in hosts:
        there = host.run("sysctl", "-n", "net.ipv4.tcp_available_congestion_control", check=False).stdout.split()
        if name not in there and host.run("python3", "-IS", "-c", TRY, name, check=False).code != 0:
            return Unsupported(f"the kernel of {host.name} has no congestion control {name}. It has {', '.join(there)}")
    return None
