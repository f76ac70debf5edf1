"""Counters of the hosts' kernels, RFC 1213 names."""

from __future__ import annotations

from runner.lab.node import Completed, LabNode
from runner.lab.shape.site_to_site import Lab


def receive_buffer_errors(lab: Lab) -> int:
    """UdpRcvbufErrors of host2: datagrams that arrived and found the socket's buffer full."""
    return snmp(lab.host2.run("cat", "/proc/net/snmp"), "Udp", "RcvbufErrors")


def fragments_created(lab: Lab) -> int:
    """IP fragments that the near host and its gateway have made so far."""
    return sum(fragments_by_node(lab).values())


def fragments_by_node(lab: Lab) -> dict[str, int]:
    """IP fragments that the near host has made so far, and those that its gateway has: node -> fragments."""
    nodes = {"host": lab.host1, "gateway": lab.gateway(lab.sites[0])}
    return {name: counted(node, "Ip", "FragCreates") for name, node in nodes.items()}


def counted(node: LabNode, protocol: str, counter: str) -> int:
    """One counter of the node's kernel so far, of IPv4 and of IPv6 together."""
    shown = node.run("cat", "/proc/net/snmp6", check=False).stdout.split()  # not there: no IPv6
    of_ipv6 = dict(zip(shown[::2], shown[1::2], strict=True)).get(f"{protocol}6{counter}", "0")
    return snmp(node.run("cat", "/proc/net/snmp"), protocol, counter) + int(of_ipv6)


def snmp(shown: Completed, protocol: str, counter: str) -> int:
    """One counter of /proc/net/snmp (RFC 1213 names): a line of names, then a line of values."""
    names, values = (line.split() for line in shown.stdout.splitlines() if line.startswith(protocol + ":"))
    return int(values[names.index(counter)])
