"""Interfaces of the kernel, by ip-link(8)."""

from runner.data.errors import Unsupported
from runner.lab.node import Node

PROBE = "vpneval-probe"


def kernel_link(node: Node, title: str, *words: str) -> Unsupported | None:
    """Ask the kernel for an interface of the type ``words``, which is called ``title``; None where it makes one."""
    node.defer("ip", "link", "del", PROBE)
    probe = node.run("ip", "link", "add", PROBE, "type", *words, check=False)
    if probe.code != 0:
        return Unsupported.kernel(f"{title}: {probe.stderr.strip()}")
    node.run("ip", "link", "del", PROBE)
    return None


def exists(node: Node, device: str) -> bool:
    """Has the node an interface of this name?"""
    return node.run("ip", "link", "show", device, check=False).code == 0
