"""What a user's machine does already, and a lab would disturb."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, ip_address, ip_network

from runner.lab.places.ends import Looked
from runner.lab.places.gateways import INNER
from runner.lab.places.sites import CABLE, Sites

# Where the plugins listen: each is tried on the path. A VPN whose port is taken on a gateway is unsupported there.
PORTS = (
    *("udp/500", "udp/4500", "udp/1194", "tcp/1194", "udp/1701", "tcp/655", "udp/655", "udp/4242", "udp/51820"),
    *("tcp/443", "udp/443", "tcp/1723", "tcp/2222", "tcp/4430", "udp/9999", "udp/10000", "udp/17010"),
    *("udp/3210", "udp/41641", "udp/11010"),
    *("tcp/52010", "tcp/52020", "tcp/52030"),
)


def listeners(shown: str) -> dict[str, str]:
    """Port -> program, from the output of ``ss -Hlntup``, without those that listen on a loopback address."""
    programs = {}
    for line in shown.splitlines():
        words = line.split()
        address, _, port = words[4].rpartition(":") if len(words) > 4 else ("", "", "")
        if port and not address.startswith(("127.", "[::1]")):
            programs[f"{words[0]}/{port}"] = line.partition('(("')[2].partition('"')[0] or "somebody"
    return programs


def in_use(seen: Looked, carriers: Mapping[str, str], inventory: Sites) -> tuple[list[str], list[str]]:
    """Sentences about what the machine does already and a lab would disturb, and about what a lab works beside.
    ``carriers``: the ports that nobody may do without -> what they carry. No sentence advises to end one of these."""
    problems = _ipsec(seen)
    up = [link["ifname"] for link in seen.there if link["ifname"] in seen.tunnels and "UP" in link["flags"]]
    beside = [port for port in up if port not in carriers]
    if any(link["ifname"] == CABLE for link in seen.there):
        problems.append(f"{CABLE} is there: another run of vpneval holds this machine, or: ip link del {CABLE}")
    for way in seen.ways:
        network, port = ip_network(way["dst"], strict=False), way.get("dev", "")
        if not isinstance(network, IPv4Network) or way.get("table") == "local":
            continue
        if any(network.subnet_of(inner) for inner in INNER):
            of = f"{port}, which carries {carriers[port]}" if port in carriers else port
            reserved = ", ".join(map(str, INNER))
            sentence = f"its route to {network}{f' ({of})' if of else ''} is where the VPNs have addresses ({reserved})"
            movable = port not in (*carriers, *up)
            problems.append(sentence + (": remove it" if movable else ", so vpneval cannot measure beside it"))
        if any(network.subnet_of(lan) for lan in inventory.lans.values()):
            problems.append(f"its route to {network} is within the network of a test host. Give another one: lan = …")
    notes = [
        f"a tunnel is at work ({', '.join(beside)}). It stays as it is; what it sends takes from the path and the CPU"
    ]
    return problems, notes if beside else []


def _ipsec(seen: Looked) -> list[str]:
    """Whether IPsec in the kernel is at work, and how to end it, unless it carries the ssh connection."""
    what = "policies" if seen.policies.strip() else "states" if re.search(r"[1-9]", seen.states) else ""
    if not what:
        return []
    sentence = f"it has XFRM {what}, so IPsec is at work"
    to = re.findall(r"^src \S+ dst (\S+)", seen.policies, re.MULTILINE)
    if any(_holds(network, seen.client) for network in to):
        return [f"{sentence}, and it carries the ssh connection: reach the machine by another way, and end it first"]
    return [f"{sentence}: end it first (ip xfrm {'policy' if what == 'policies' else 'state'} shows them)"]


def _holds(network: str, address: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False
