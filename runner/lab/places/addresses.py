"""The plan of all addresses: what the gateways have already, against the networks to which only a tunnel may lead."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network
from typing import NamedTuple

from runner.lab.node.answers import Link
from runner.lab.places.ends import ANY, Looked, ports_of
from runner.lab.places.gateways import INNER
from runner.lab.places.sites import CABLE, Sites
from runner.lab.places.translation import seen_networks

Network = IPv4Network | IPv6Network


class There(NamedTuple):
    """A network that a gateway uses already: in words, and what to do where it is in the way."""

    network: Network
    what: str
    remedy: str


def collisions(name: str, seen: Looked, inventory: Sites) -> list[str]:
    """Sentences on what gateway ``name`` uses already and a tunnel would cut off: of the other site's real networks,
    and what has the tunnels' own addresses or a test network in it. A network within these two refuses the gateway
    (``in_use``)."""
    (other,) = (site for site in inventory.machines if site != name)
    far = inventory.machines[other]
    real: list[Network] = [*seen_networks(far), *far.network_ipv6]
    found = [
        f"{there.what} overlaps {network}, a network of {other}, and only a recipe's tunnel may lead there: "
        f"{there.remedy}, or name a smaller network of {other}"
        for network in real
        for there in (*_networks_there(seen), *_routes(seen, network))
        if _overlap(there.network, network)
    ]
    ours = {
        **dict.fromkeys(INNER, "tunnels have their own addresses"),
        inventory.lans[other]: f"the test host of {other} is",
    }
    return found + [
        f"{there.what} has {network} in it, where {what}: while one is up, {name} reaches nobody else there"
        for network, what in ours.items()
        for there in _networks_there(seen)
        if there.network != network and there.network.prefixlen < network.prefixlen and _overlap(there.network, network)
    ]


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _networks_there(seen: Looked) -> Iterator[There]:
    """What stays on the gateway's ports whatever a tunnel does: their networks, the routers in them, the ssh client."""
    for link in seen.there:
        for entry in link["addr_info"] if link["ifname"] != CABLE else []:
            own = ip_interface(f"{entry['local']}/{entry['prefixlen']}")
            if not own.is_link_local and not own.is_loopback:
                yield There(own.network, f"the network {own.network} of its port {link['ifname']}", _renumber(link))
    routers = [hop.get("gateway", "") for way in seen.ways for hop in (way, *way.get("nexthops", []))]
    for router in dict.fromkeys(filter(None, routers)):
        yield There(ip_network(router), f"its router {router}", "give the router another address")
    if seen.client:
        yield There(ip_network(seen.client), f"the ssh client {seen.client}", "log in from elsewhere")


def _renumber(link: Link) -> str:
    if link["ifname"].startswith(("docker", "br-")):
        return "give Docker other networks (bip and default-address-pools in /etc/docker/daemon.json)"
    return f"give {link['ifname']} another one"


def _routes(seen: Looked, network: Network) -> Iterator[There]:
    """Routes to the network or a part of it, but for those of the ports. A route to more than that is passed over: the
    tunnel's is longer."""
    of_ports = {there.network for there in _networks_there(seen)}
    for way in seen.ways:
        to = ip_network(way["dst"], strict=False)
        leads = way["dst"] not in ANY and way.get("table") != "local" and way.get("type", "unicast") == "unicast"
        if leads and to not in of_ports and to.prefixlen >= network.prefixlen:
            ports = ports_of([way])
            remedy = "take that tunnel down when you deploy" if {*ports} & {*seen.tunnels} else "remove the route"
            yield There(to, f"its route to {to} by {' and '.join(ports)}", remedy)
