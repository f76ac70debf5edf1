"""What is on the WAN: packets and bytes as a cable would carry them, and probes that count them."""

from __future__ import annotations

from dataclasses import dataclass

from runner.data.errors import MeasurementError
from runner.lab.node import LabNode
from runner.lab.node.iproute import root_discipline
from runner.lab.shape.site_to_site import Lab

ETHERNET_BYTES = 14  # the frame's header; a queueing discipline counts it, and the frame check sequence not
QUEUE_PACKETS, HANDLE = "10000", "7e5:"  # by which ours is told from one that somebody else puts there meanwhile


@dataclass(frozen=True)
class Outer:
    """Packets and bytes of IP that went over the WAN one way; Ethernet headers are not in it."""

    packets: int
    ip_bytes: int

    def __sub__(self, before: Outer) -> Outer:
        return Outer(self.packets - before.packets, self.ip_bytes - before.ip_bytes)


def outer(lab: Lab, direction: str = "forward") -> Outer:
    """The packets and bytes that have gone over the WAN so far: ``forward`` from the first gateway to the last, or
    ``reverse``.

    The queueing discipline of the port by which they leave the WAN node counts them (without a WAN node: the gateway's
    port). An interface's own counters take a segment that offloading has not cut yet for one packet; a queueing
    discipline counts what it will be cut into, each with its headers (tc(8), kernel: qdisc_pkt_len_init). A port
    without a queue gets a plain one for that, which an idle port passes by.
    """
    node, port = leaving(lab, direction)
    kind, packets, sent_bytes = _root(node, port)
    if kind == "noqueue":
        node.defer("tc", "qdisc", "del", "dev", port, "root", "handle", HANDLE)
        node.run("tc", "qdisc", "add", "dev", port, "root", "handle", HANDLE, "pfifo", "limit", QUEUE_PACKETS)
        _, packets, sent_bytes = _root(node, port)
    return Outer(packets, sent_bytes - ETHERNET_BYTES * packets)


def leaving(lab: Lab, direction: str) -> tuple[LabNode, str]:
    """The node and port by which packets of that direction leave the WAN."""
    here, there = (lab.sites[0], lab.sites[-1]) if direction == "forward" else (lab.sites[-1], lab.sites[0])
    return (lab.wan, there.name) if lab.has_wan else (lab.gateway(here), here.wan_interface)


def _root(node: LabNode, port: str) -> tuple[str, int, int]:
    shown = node.run("tc", "-statistics", "qdisc", "show", "dev", port).stdout
    if (discipline := root_discipline(shown)) is None:
        raise MeasurementError(f"{node.name} shows no queueing discipline on {port}: {shown.strip()[:200]}")
    return discipline
