"""What a user's machine does already, and a lab would disturb."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network

from runner.lab.node.answers import Link, Route
from runner.lab.places.sites import CABLE, INNER, Sites

# The plugins' ports, but for those that other servers have as well.
VPN_PORTS = ("udp/500", "udp/4500", "udp/1194", "tcp/1194", "udp/1701", "tcp/655", "udp/655", "udp/4242", "udp/51820")
TUNNELS = ("wireguard", "tun", "ipip", "gre", "gretap", "vti", "xfrm", "sit", "ip6tnl", "l2tp", "ppp", "ovpn")


def listeners(shown: str) -> dict[str, str]:
    """Port -> program, from the output of ``ss -Hlntup``, without those that listen on a loopback address."""
    programs = {}
    for line in shown.splitlines():
        words = line.split()
        address, _, port = words[4].rpartition(":") if len(words) > 4 else ("", "", "")
        if port and not address.startswith(("127.", "[::1]")):
            programs[f"{words[0]}/{port}"] = line.partition('(("')[2].partition('"')[0] or "somebody"
    return programs


def in_use(there: Sequence[Link], ways: Sequence[Route], xfrm: tuple[str, str], inventory: Sites) -> list[str]:
    """Sentences about what the machine does already and a lab would disturb, each with what to do. ``xfrm``: the
    policies that ip-xfrm(8) lists, and its count of states."""
    (policies, states), problems = xfrm, []
    if policies.strip():
        problems.append("it has XFRM policies, so IPsec is at work: end it first (ip xfrm policy shows them)")
    elif re.search(r"[1-9]", states):
        problems.append("it has XFRM states, so IPsec is at work: end it first (ip xfrm state shows them)")
    tunnels = [link["ifname"] for link in there if link.get("linkinfo", {}).get("info_kind") in TUNNELS]
    if up := [link["ifname"] for link in there if link["ifname"] in tunnels and "UP" in link["flags"]]:
        problems.append(f"a tunnel is at work ({', '.join(up)}): end it first, for example: ip link set {up[0]} down")
    if any(link["ifname"] == CABLE for link in there):
        problems.append(f"{CABLE} is there: another run of vpneval holds this machine, or: ip link del {CABLE}")
    networks = [IPv4Network(route["dst"], strict=False) for route in ways if re.match(r"[\d.]+(/|$)", route["dst"])]
    for network in networks:
        if any(network.subnet_of(inner) for inner in INNER):
            problems.append(
                f"its route to {network} is where the VPNs have addresses ({', '.join(map(str, INNER))}): remove it"
            )
        if any(network.subnet_of(lan) for lan in inventory.lans.values()):
            problems.append(f"its route to {network} is within the network of a test host. Give another one: lan = …")
    return problems
