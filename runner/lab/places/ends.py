"""Where the path leaves each gateway: the port of its route to the other one, or the port that the inventory names.

A named port is not always that of the route. Then the gateway's own packets to the other one are turned to it while a
lab is there: by two rules for what has this port's address, or none yet, so that no other connection moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network

from runner.data.errors import CannotRunHere
from runner.lab.node import LabNode
from runner.lab.node.answers import Link, Route, routes
from runner.lab.places.connection import Connection
from runner.lab.places.gateways import Gateway
from runner.lab.places.sites import CABLE, Sites
from runner.lab.shape.site import ip_version

FIRST_TABLE = 5213  # of routing tables: the first from here on that the machine does not use
PRIORITY = "5"  # of the rules: before those of the machine, but for its own addresses
ANY = ("0.0.0.0/0", "::/0")
UNSET = "0.0.0.0/32"  # the address of a socket that has none yet


TUNNELS = ("wireguard", "tun", "ipip", "gre", "gretap", "vti", "xfrm", "sit", "ip6tnl", "l2tp", "ppp", "ovpn")


@dataclass(frozen=True)
class Turned:
    """How a gateway's packets to the other one come to a port that its routes do not choose: by the router ``via``,
    empty where there is none."""

    to: str
    port: str
    address: str
    via: str
    table: str

    def apply(self, gateway: LabNode) -> None:
        """Turn them, as long as the node is there."""
        via = ("via", self.via) if self.via else ()
        gateway.defer("ip", "route", "flush", "table", self.table)
        gateway.run("ip", "route", "add", self.to, *via, "dev", self.port, "src", self.address, "table", self.table)
        gateway.defer("ip", "rule", "flush", "table", self.table)
        for source in (self.address, UNSET):
            rule = ("pref", PRIORITY, "from", source, "to", self.to, "iif", "lo", "lookup", self.table)
            gateway.run("ip", "rule", "add", *rule)


@dataclass(frozen=True)
class Own:
    """What a gateway has of its own: its port and address on the path, the program that listens on each port
    (``taken``), its port to the host, whether it is a NAT (``translates``), the devices of tunnels that are there
    (``links``), and what is said of them (``notes``)."""

    port: str
    address: str
    taken: Mapping[str, str]
    lan_port: str = CABLE
    translates: bool = False
    turned: Turned | None = None
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Looked:
    """What a gateway says, by a ``connection``, of its links, its routes of both families, its way to the ssh client,
    and its listeners."""

    connection: Connection | None
    there: Sequence[Link]
    ways: Sequence[Route]
    to_client: Sequence[Route]
    taken: Mapping[str, str]
    policies: str = ""
    states: str = ""
    firewall: str = ""
    managers: str = ""

    @property
    def client(self) -> str:
        """The ssh client's address; empty where nobody knows."""
        return self.connection.client if self.connection else ""

    @property
    def tunnels(self) -> list[str]:
        """The devices of tunnels, up or down."""
        return [link["ifname"] for link in self.there if link.get("linkinfo", {}).get("info_kind") in TUNNELS]

    @property
    def carriers(self) -> dict[str, str]:
        """The ports without which nobody reaches the machine, or it reaches nobody -> what they carry."""
        server = self.connection.server if self.connection else ""
        ours = [link["ifname"] for link in self.there if server in [entry["local"] for entry in link["addr_info"]]]
        found = dict.fromkeys(ports_of(defaults(self.ways)), "the default route")
        ssh = f"the ssh connection from {self.client}"
        return found | dict.fromkeys([*ours, *ports_of(self.to_client)], ssh)


def ports_of(ways: Sequence[Route]) -> list[str]:
    """The ports of these routes, those with several ways included."""
    each = [[way.get("dev", ""), *(hop.get("dev", "") for hop in way.get("nexthops", []))] for way in ways]
    return [port for ports in each for port in ports if port]


def of_family(version: int, ways: Sequence[Route]) -> list[Route]:
    """The routes, which are of this IP version, with a default route as the network that it is."""
    return [{**way, "dst": ANY[version == 6]} if way["dst"] == "default" else way for way in ways]


def defaults(ways: Sequence[Route]) -> list[Route]:
    """The default routes, the one that the kernel takes first: of the table main, then by metric."""
    return sorted(
        (way for way in ways if way["dst"] in ANY),
        key=lambda way: (way.get("table", "main") != "main", way.get("metric", 0)),
    )


def both_ends(looked: Mapping[str, Looked], inventory: Sites) -> dict[str, Own | CannotRunHere]:
    """Each gateway's end of the path, or the reason why it has none. Where one is reached follows from its own end,
    which follows from where the other is reached: so the ends are sought again until they agree."""
    machines = inventory.machines
    ends = {name: _end(machines[name], seen, "") for name, seen in looked.items()}
    for _ in range(2):
        before = ends
        ends = {
            name: _end(machines[name], seen, _peer_address(name, machines, before)) for name, seen in looked.items()
        }
        if ends == before:
            break
    return ends


def usual_end(machine: Gateway, there: Sequence[Link], ways: Sequence[Route]) -> str:
    """The gateway's address on the path, by its default route of IPv4 or what the inventory names. Raises
    CannotRunHere."""
    return own_end(machine, Looked(None, there, of_family(4, ways), [], {})).address


def _peer_address(name: str, machines: Mapping[str, Gateway], ends: Mapping[str, Own | CannotRunHere]) -> str:
    """The address at which gateway ``name`` reaches the other one; empty where nobody knows."""
    other = next(each for each in machines if each != name)
    end = ends.get(other)
    return str(machines[other].public_address or (end.address if isinstance(end, Own) else ""))


def _end(machine: Gateway, seen: Looked, to: str) -> Own | CannotRunHere:
    try:
        return own_end(machine, seen, to)
    except CannotRunHere as lack:
        return lack


def own_end(machine: Gateway, seen: Looked, to: str = "") -> Own:
    """The gateway's port and address on the path to ``to``. Without ``to``: those of its default route. Raises
    CannotRunHere where the machine lacks what the inventory names, or has no way there."""
    answer: list[Route] = []
    if to and seen.connection:
        answer = routes(seen.connection, seen.connection.run("ip", "-j", "route", "get", to).stdout)
    way = next((way for way in answer if way.get("dev", "lo") != "lo"), None)
    wanted = machine.wan or _port_with(machine, seen.there) or _port_to(seen, to, way)
    link = next((link for link in seen.there if wanted in (link["ifname"], link.get("address"))), None)
    if link is None:
        have = ", ".join(link["ifname"] for link in seen.there if link["ifname"] != "lo")
        raise CannotRunHere(f"no interface {wanted}; it has: {have or 'none'}")
    has = _addresses(link, to)
    chosen = way.get("prefsrc", "") if way and way.get("dev") == link["ifname"] else ""
    address = str(machine.wan_address or "") or (chosen if chosen in has else (has or [""])[0])
    if address not in has:
        raise CannotRunHere(f"{wanted} has no address {address}; it has: {', '.join(has) or 'none'}")
    own = Own(link["ifname"], address, seen.taken, links=tuple(seen.tunnels))
    if way is None or (way.get("dev") == own.port and not _several(seen.ways, to)):
        return own
    return replace(own, turned=_route_by_port(own, seen.ways, to))


def _port_with(machine: Gateway, there: Sequence[Link]) -> str:
    """The port that has the address which the inventory names."""
    named = str(machine.wan_address)
    return next((link["ifname"] for link in there if named in [entry["local"] for entry in link["addr_info"]]), "")


def _port_to(seen: Looked, to: str, way: Route | None) -> str:
    """The port of the route to ``to``, or of the default route. Raises CannotRunHere where there is not one."""
    if way and (several := _several(seen.ways, to)):
        raise CannotRunHere(
            f'its route to {to} goes by {" and ".join(several)}: name one of them, wan = "{several[0]}", or each as an '
            "uplink (docs/labs.md, Two lines)"
        )
    if way:
        return way["dev"]
    if usual := ports_of(defaults(seen.ways)):
        return usual[0]
    lacks = f"route to {to}" if to else "default route"
    raise CannotRunHere(f'it has no {lacks}, so name the port of the path: wan = "eth0"')


def _addresses(link: Link, to: str) -> list[str]:
    """The addresses of the link that may be the path's: of the family of ``to``, where that is known; IPv4 first."""
    of_it = [entry for entry in link["addr_info"] if entry.get("scope", "global") == "global"]
    has = [
        entry["local"]
        for entry in sorted(of_it, key=lambda entry: entry["family"] != "inet")
        if not entry.get("temporary")
    ]
    return [address for address in has if not to or ip_version(address) == ip_version(to)] or has


def _covering(ways: Sequence[Route], to: str) -> list[Route]:
    """The routes that ``to`` could take, the most specific first, then by metric."""
    networks = [(ip_network(way["dst"], strict=False), way) for way in ways if way.get("type", "unicast") == "unicast"]
    fits = [(network, way) for network, way in networks if ip_address(to) in network]
    return [way for _, way in sorted(fits, key=lambda fit: (-fit[0].prefixlen, fit[1].get("metric", 0)))]


def _several(ways: Sequence[Route], to: str) -> list[str]:
    """The ports of the route of the table main to ``to``, where it has several ways (ECMP); else none."""
    main = [way for way in _covering(ways, to) if way.get("table", "main") == "main"]
    return ports_of(main[:1]) if main and main[0].get("nexthops") else []


def _route_by_port(own: Own, ways: Sequence[Route], to: str) -> Turned:
    """The way to ``to`` by the port that the inventory names. Raises CannotRunHere where there is none."""
    named = f"wan names {own.port}, and its route to {to} leaves by another port"
    if ip_version(to) == 6:
        raise CannotRunHere(f"{named}. vpneval can turn that for IPv4 only: give it a route to {to} by {own.port}")
    for way in _covering(ways, to):
        hops = [hop for hop in (way, *way.get("nexthops", [])) if hop.get("dev") == own.port]
        if hops:
            used = {way.get("table", "") for way in ways}
            table = next(str(number) for number in range(FIRST_TABLE, 2**16) if str(number) not in used)
            return Turned(to, own.port, own.address, hops[0].get("gateway", ""), table)
    raise CannotRunHere(f"{named}; no route there is by {own.port}: add one, in a table of its own (ip-rule(8))")
