"""A site of the lab: its gateway, the network behind it, and the numbers that a pair of sites shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

TCP_PORTS = (5201, 5202, 5203)  # what a VPN that forwards ports must forward: iperf3, the answering probe, HTTP


@dataclass(frozen=True)
class Site:
    """One site: its gateway, the network behind it, and the host in that network. Addresses are IPv4 text."""

    number: int
    name: str
    wan_address: str
    wan_interface: str
    lan: str
    lan_address: str
    host_address: str

    @property
    def lan_netmask(self) -> tuple[str, str]:
        """The LAN as network address and netmask, as older daemons want it."""
        network = ip_network(self.lan)
        return str(network.network_address), str(network.netmask)


def pair_number(me: Site, peer: Site) -> int:
    """A number for each pair of sites, 0 for the first two: for ports, interfaces and tunnel networks."""
    low, high = sorted((me.number, peer.number))
    return (high - 1) * (high - 2) // 2 + low - 1


def lower_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that dial ``me``."""
    return [peer for peer in peers if peer.number < me.number]


def higher_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that ``me`` dials."""
    return [peer for peer in peers if peer.number > me.number]
