"""What the gateways' kernels have counted while a probe ran: evidence beside its packets and log lines."""

from __future__ import annotations

from collections.abc import Mapping

from runner.lab.node import LabNode

# Packets and errors of IP, UDP and TCP, refusals of IPsec (Documentation/networking/xfrm_proc.rst), and of interfaces.
FILES = ("/proc/net/snmp", "/proc/net/snmp6", "/proc/net/xfrm_stat", "/proc/net/dev")
OF_INTERFACES = (
    *("rx_bytes", "rx_packets", "rx_errors", "rx_dropped"),  # the first of each half of /proc/net/dev
    *("tx_bytes", "tx_packets", "tx_errors", "tx_dropped"),
)
Counters = dict[str, int]


def counters(node: LabNode) -> Counters:
    """Every counter of the node's kernel by its name: ``UdpInErrors``, ``XfrmInStateSeqError``, ``wan0 rx_packets``.
    A kernel without IPsec has none of its."""
    return parsed(node.run("cat", *FILES, check=False).stdout)


def parsed(text: str) -> Counters:
    """The files' lines: pairs of names and values (snmp), a name and a value (snmp6, xfrm_stat), interfaces (dev)."""
    values: Counters = {}
    names: list[str] = []
    for line in text.splitlines():
        first, *rest = line.replace(":", ": ", 1).split()
        if first.startswith(("Xfrm", "Ip6", "Udp6")):
            values[first] = int(rest[0])
        elif first.endswith(":") and rest and not rest[0].lstrip("-").isdigit():
            names = rest
        elif first.endswith(":") and len(rest) == 16:
            halves = zip(OF_INTERFACES, (*rest[:4], *rest[8:12]), strict=True)
            values |= {f"{first[:-1]} {name}": int(value) for name, value in halves}
        elif first.endswith(":") and len(rest) == len(names):
            values |= {first[:-1] + name: int(value) for name, value in zip(names, rest, strict=True)}
    return values


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> Counters:
    """By how much each has risen, of those that have."""
    return {name: value - before.get(name, 0) for name, value in after.items() if value > before.get(name, 0)}
