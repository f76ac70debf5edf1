"""A site of the lab: its gateway, the network behind it, and the numbers that a pair of sites shares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network

ENCAPSULATION_BYTES = {4: 120, 6: 140}  # the longest overhead of a tunnel here, by the path's IP version
BESIDE = 254  # the number of the node on the WAN that a VPN needs beside its gateways
# RFC 1123 §2.1, with a dot; the last label is no number, as it is in an address (RFC 3696 §2).
LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{LABEL}\.)+(?=[a-z]){LABEL}", re.ASCII | re.IGNORECASE)
TCP_PORTS = (5201, 5202, 5203)  # what a VPN that forwards ports must forward: iperf3, the answering probe, HTTP


@dataclass(frozen=True)
class Site:
    """One site: its gateway, the network behind it, and the host in that network. Addresses are IPv4 text; that of the
    path may be IPv6, if the VPN says that its plugin can (``outer_ipv6``).

    ``wan_address`` is the gateway's own. Where a NAT stands before it, others reach it at ``public_address``, which may
    be a name. ``dials``: nobody knows where it is to be reached, since that changes and has no name.
    ``login``: USER@ADDRESS by which a person's ssh reaches the gateway; empty: root at the address of the path.
    ``reached_with``: the options that ssh and scp need for that.
    ``keepalive_s``: how often its tunnels send something where nothing else is sent; 0: as often as each VPN's default.
    ``network_ipv6``: the IPv6 network behind the gateway, and the gateway's address in it; empty: those of the lab.
    ``more_lans``, ``more_lans_ipv6``: what else is behind the gateway, for a recipe.
    ``hub``: the other sites, its spokes, dial this one, and have a tunnel to nobody else; its number is the highest.
    ``joins``: what spokes send each other goes by this hub.
    ``real_lans``: the addresses that ``lans`` have at the site itself, where the other sites have others for them, one
    for one; empty: the same.
    """

    number: int
    name: str
    wan_address: str
    wan_interface: str
    lan: str
    lan_address: str
    host_address: str
    public_address: str = ""
    keepalive_s: int = 0
    login: str = ""
    reached_with: tuple[str, ...] = ()
    network_ipv6: str = ""
    address_ipv6: str = ""
    dials: bool = False
    more_lans: tuple[str, ...] = ()
    more_lans_ipv6: tuple[str, ...] = ()
    hub: bool = False
    joins: bool = False
    real_lans: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """May its address on the path change?"""
        return self.dials or bool(self.public_address and not is_address(self.public_address))

    @property
    def path_version(self) -> int:
        """The IP version of the path: 4 or 6."""
        return ip_version(self.wan_address)

    @property
    def lan_prefix(self) -> int:
        """The length of the LAN's prefix, bits."""
        return ip_network(self.lan).prefixlen

    @property
    def lan_ipv6(self) -> str:
        """The LAN's IPv6 network, for what is sent in IPv6; in the lab unique local addresses (RFC 4193)."""
        return self.network_ipv6 or f"fd{self.number:02x}::/64"

    @property
    def lans(self) -> tuple[str, ...]:
        """All IPv4 networks behind the gateway, the LAN first."""
        return self.lan, *self.more_lans

    @property
    def at_home(self) -> Site:
        """The site with the addresses that it has itself."""
        if not self.real_lans:
            return self
        lan, *more = self.real_lans
        own, host = (counterpart(address, self.lan, lan) for address in (self.lan_address, self.host_address))
        return replace(self, lan=lan, lan_address=own, host_address=host, more_lans=tuple(more), real_lans=())

    @property
    def lans_ipv6(self) -> tuple[str, ...]:
        """The same of IPv6."""
        return self.lan_ipv6, *self.more_lans_ipv6

    def networks(self, *, ipv6: bool) -> tuple[str, ...]:
        """All networks behind the gateway, with those of IPv6 where it has to pass, too."""
        return (*self.lans, *self.lans_ipv6) if ipv6 else self.lans

    @property
    def lan_address_ipv6(self) -> str:
        """The gateway's address in it."""
        return self.address_ipv6 or str(ip_network(self.lan_ipv6)[1])

    @property
    def host_ipv6(self) -> str:
        """The host's address in it."""
        first, second = (str(ip_network(self.lan_ipv6)[number]) for number in (1, 2))
        return second if self.lan_address_ipv6 != second else first

    @property
    def lan_netmask(self) -> tuple[str, str]:
        """The LAN as network address and netmask, as older daemons want it."""
        return self.lans_netmask[0]

    @property
    def lans_netmask(self) -> list[tuple[str, str]]:
        """All networks so."""
        return [(str(lan.network_address), str(lan.netmask)) for lan in map(ip_network, self.lans)]


@dataclass(frozen=True)
class BarePath:
    """What is between the gateways of a site lab, without a VPN. ``on_link``: one network, without a router or a NAT?

    ``tried``, ``open``: ports of the last gateway, "udp/51820". ``nat``: in words, empty where there is none.
    ``rtt_ms``: shortest, median, 95th percentile. Pairs are forward and reverse. ``tcp_bps``: what one TCP connection
    carries of ``rates_bps``; ``most_bps``: no faster was it allowed to measure these. ``taken``: gateway -> port ->
    program. ``links``: gateway -> the devices of tunnels that are there.
    """

    mtu_bytes: int
    on_link: bool
    nat: str = ""
    tried: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    rtt_ms: tuple[float, ...] = ()
    loss_ratio: float | None = None
    dscp_kept: tuple[bool, ...] = ()
    ecn_kept: tuple[bool, ...] = ()
    clock_ahead_s: float | None = None
    rates_bps: tuple[float, ...] = ()
    tcp_bps: tuple[float, ...] = ()
    most_bps: float | None = None
    seen_as: str = ""
    taken: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    answers_pings: bool = True
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def helper_site(me: Site, name: str) -> Site:
    """The node ``name`` that a VPN needs beside its gateways (``Vpn.beside``), at its address on the WAN of ``me``. No
    network is behind it."""
    address = f"2001:db8::{BESIDE}" if me.path_version == 6 else f"192.168.0.{BESIDE}"
    return Site(BESIDE, name, address, "wan0", "", "", "")


def counterpart(address: str, network: str, other: str) -> str:
    """The address at the same place in the ``other`` network."""
    return str(ip_network(other)[int(ip_address(address)) - int(ip_network(network).network_address)])


def ip_version(address: str) -> int:
    """4 or 6."""
    return 6 if ":" in address else 4


def is_address(text: str) -> bool:
    """Is it an IP address? If not, it is a name."""
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


def bracket_address(address: str) -> str:
    """An address as it stands before ":PORT": IPv6 in brackets (RFC 3986 §3.2.2)."""
    return f"[{address}]" if ":" in address else address


def hop(address: str) -> tuple[str, ...]:
    """A next hop as a route of IPv4 names it behind ``via``: one of IPv6 with its family (ip-route(8))."""
    return ("inet6", address) if ip_version(address) == 6 else (address,)


def peers_of(me: Site, sites: Sequence[Site]) -> list[Site]:
    """The sites that ``me`` has a tunnel to, each with the ``wan_address`` at which ``me`` reaches it: a name, or empty
    where it dials."""
    others = [site for site in sites if site.number != me.number]
    return [
        replace(site, wan_address="" if site.dials else site.public_address or site.wan_address)
        for site in (_hub_of(others) or others)
    ]


def _hub_of(others: Sequence[Site]) -> list[Site]:
    """The hub among the ``others`` of a spoke, with the other spokes' networks behind it where it joins them."""
    spokes = [site for site in others if not site.hub]
    return [with_behind(hub, spokes) if hub.joins else hub for hub in others if hub.hub]


def spokes_apart(me: Site, sites: Sequence[Site]) -> list[Site]:
    """The other spokes, where ``me`` is one and the hub does not join them: nothing leads there."""
    alone = any(site.hub and not site.joins for site in sites) and not me.hub
    return [site for site in sites if alone and not site.hub and site.number != me.number]


def with_behind(hub: Site, spokes: Sequence[Site]) -> Site:
    """The hub with the networks of these spokes behind it."""
    four = tuple(lan for spoke in spokes for lan in spoke.lans)
    six = tuple(lan for spoke in spokes if spoke.network_ipv6 for lan in spoke.lans_ipv6)
    return replace(hub, more_lans=hub.more_lans + four, more_lans_ipv6=hub.more_lans_ipv6 + six)


def pair_number(me: Site, peer: Site) -> int:
    """A number for each pair of sites that a tunnel joins, 0 for the first two: for ports, interfaces and tunnel
    networks."""
    low, high = sorted((me.number, peer.number))
    if me.hub or peer.hub:
        return low - 1
    return (high - 1) * (high - 2) // 2 + low - 1


def lower_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that dial ``me``."""
    return [peer for peer in peers if peer.number < me.number]


def higher_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that ``me`` dials."""
    return [peer for peer in peers if peer.number > me.number]
