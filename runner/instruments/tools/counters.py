"""Counters of the nodes' kernels, RFC 1213 names."""

from __future__ import annotations

from collections.abc import Mapping

from runner.lab.node import LabNode, proc
from runner.lab.shape.site_to_site import Lab

Counters = dict[str, int]


def counters(node: LabNode) -> Counters:
    """Every counter of the node's kernel by its name. A kernel without IPsec or IPv6 has none of theirs."""
    return proc.counters(node.run("cat", *proc.NETWORK, check=False).stdout)


def counter_increases(before: Mapping[str, int], after: Mapping[str, int]) -> Counters:
    """By how much each has risen, of those that have."""
    return {name: value - before.get(name, 0) for name, value in after.items() if value > before.get(name, 0)}


def receive_buffer_errors(lab: Lab) -> int:
    """UdpRcvbufErrors of host2: datagrams that arrived and found the socket's buffer full."""
    return counters(lab.host2)["UdpRcvbufErrors"]


def arrived_bytes(node: LabNode) -> int:
    """Bytes of IP packets that the node has received so far (RFC 4293 ipSystemStatsInOctets)."""
    return proc.counters(node.run("cat", "/proc/net/netstat").stdout)["IpExtInOctets"]


def fragments_created(lab: Lab) -> int:
    """IP fragments that the near host and its gateway have made so far."""
    return sum(fragments_by_node(lab).values())


def fragments_by_node(lab: Lab) -> dict[str, int]:
    """IP fragments that the near host has made so far, and those that its gateway has: node -> fragments."""
    nodes = {"host": lab.host1, "gateway": lab.gateway(lab.sites[0])}
    return {name: read_counter(node, "Ip", "FragCreates") for name, node in nodes.items()}


def read_counter(node: LabNode, protocol: str, counter: str) -> int:
    """One counter of the node's kernel so far, of IPv4 and of IPv6 together."""
    found = counters(node)
    return found[f"{protocol}{counter}"] + found.get(f"{protocol}6{counter}", 0)
