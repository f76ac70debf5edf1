"""A gateway of an inventory: how it is reached, its address on the path and its networks; and in what the gateways of
one inventory contradict each other, however many they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import combinations
from typing import Annotated, NamedTuple, TypeVar

from pydantic import AfterValidator, PlainValidator, StringConstraints, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from runner.lab.places.inventory import MachineEntry, Port
from runner.lab.shape.site import HOST_NAME

NO_LANS_IPV6 = tuple(map(IPv6Network, ("::/8", "fe80::/10", "ff00::/8")))  # RFC 4291
# The tunnels' own addresses.
INNER = tuple(map(IPv4Network, ("10.8.0.0/16", "10.9.0.0/16", "10.53.0.0/16", "10.54.0.0/15", "10.56.0.0/15")))
NO_LANS = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))  # RFC 6890

NO_TRANSLATION = {
    "network": "A tunnel cannot connect them",
    "network_ipv6": "The gateways translate IPv4 alone: give one site another network (RFC 4193), or leave "
    "network_ipv6 out",
}
MOST_NETWORKS = 32  # of a site; a recipe has a line for each pair


Family = TypeVar("Family", IPv4Network, IPv6Network)


def _port(forward: str) -> str:
    if int(forward.partition("/")[2]) > 65535:
        raise ValueError(f"cannot be {forward!r}: the highest port is 65535")
    return forward


Forward = Annotated[str, StringConstraints(pattern=r"^(udp|tcp)/[1-9][0-9]{0,4}$"), AfterValidator(_port)]


def path_address(value: object, needed: str = "an IPv4 or IPv6 address is needed") -> IPv4Address | IPv6Address:
    """The address of a gateway on the path. Raises ValueError for what is none."""
    try:
        address = ip_address(str(value))
    except ValueError:
        raise ValueError(f"cannot be {value!r:.60}: {needed}") from None
    if "%" in str(address):
        raise ValueError(f"cannot be {value!r:.60}: the other gateway must reach it, so it has no scope (RFC 4007)")
    return address


def _network(value: object) -> list[IPv4Network]:
    """One network, or several."""
    return _read_networks(value, IPv4Network, "Input is not a valid IPv4 network")


def _network_ipv6(value: object) -> list[IPv6Network]:
    return _read_networks(value, IPv6Network, "Input is not a valid IPv6 network")


def _read_networks(value: object, kind: Callable[[str], Family], wrong: str) -> list[Family]:
    several = value if isinstance(value, list) else [value]
    if len(several) > MOST_NETWORKS:
        raise ValueError(f"names {len(several)} networks: at most {MOST_NETWORKS}. Name larger ones that contain them")
    try:
        return [kind(str(one)) for one in several]
    except ValueError:
        raise ValueError(wrong) from None


Networks = Annotated[list[IPv4Network], PlainValidator(_network)]
NetworksIpv6 = Annotated[list[IPv6Network], PlainValidator(_network_ipv6)]
OnPath = Annotated[IPv4Address | IPv6Address, PlainValidator(path_address)]


def _address_or_name(value: object) -> IPv4Address | IPv6Address | str:
    if HOST_NAME.fullmatch(str(value)):
        return str(value)
    return path_address(value, "an IPv4 or IPv6 address, or a name as branch.dyn.example.org, is needed")


Reached = Annotated[IPv4Address | IPv6Address | str, PlainValidator(_address_or_name)]


class Gateway(MachineEntry):
    """One site's gateway. What is not given is found on the machine.

    ``lan`` is the network that the test host gets. ``network`` is the site's real one, or several: recipes are for
    these. In one of them the gateway has ``network_address``. ``network_seen_as`` is what the other site has in their
    place. ``network_ipv6`` and ``address_ipv6`` are the same in IPv6.
    ``lan_port``: the port to a host of its own. ``dials``: the address at which others reach it changes, and has no
    name.
    """

    wan: Port | None = None
    wan_address: OnPath | None = None
    public_address: Reached | None = None
    dials: bool = False
    forwards: list[Forward] = []
    lan: IPv4Network | None = None
    network: Networks = []
    network_address: IPv4Address | None = None
    network_seen_as: Networks = []
    network_ipv6: NetworksIpv6 = []
    address_ipv6: IPv6Address | None = None
    lan_port: Port | None = None

    def ports(self) -> dict[str, str]:
        """No port: the machine keeps its ports."""
        return {}


class Wrong(NamedTuple):
    """A line that contradicts others. ``rests_on``: the lines that it was compared with, or that were looked for, as
    "gw1.network"."""

    table: str
    key: str
    said: str
    rests_on: tuple[str, ...] = ()


def raise_contradictions(checks: Iterable[Callable[[], Iterator[Wrong]]], info: ValidationInfo) -> None:
    """Raise ValidationError with every line that contradicts others. The context of ``info`` has the lines that are
    wrong by themselves; what rests on one of them is not reported."""
    unknown = info.context or set()
    wrong = [
        mistake
        for check in checks
        for mistake in check()
        if not unknown & {*mistake.rests_on, f"{mistake.table}.{mistake.key}"}
    ]
    if wrong:
        raise ValidationError.from_exception_data(
            "sites",
            [
                InitErrorDetails(
                    type=PydanticCustomError("site", "{said}", {"said": mistake.said}),
                    loc=(*mistake.table.split("."), *([mistake.key] if mistake.key else [])),
                    input="",
                )
                for mistake in wrong
            ],
        )


def same_machines(machines: Mapping[str, MachineEntry]) -> Iterator[Wrong]:
    """Two names of one machine. ``machines``: table of the inventory -> what it says."""
    seen: dict[str, str] = {}
    for name, machine in machines.items():
        first = seen.setdefault(f"{machine.address} {machine.port} {sorted(machine.options.items())}", name)
        if first != name:
            rest = tuple(
                f"{machine_name}.{key}" for machine_name in (first, name) for key in ("address", "port", "options")
            )
            yield Wrong(name, "address", f"{first} and {name} are the same machine ({machine.address})", rest)


def wrong_overlaps(machines: Mapping[str, Gateway]) -> Iterator[Wrong]:
    """Networks that no tunnel can connect, where no gateway translates them."""
    for name, machine in machines.items():
        if machine.network_seen_as:
            sentence = (
                "is for two gateways alone: a hub and its spokes do not translate. Give each site another network"
            )
            yield Wrong(name, "network_seen_as", sentence)
    yield from _overlaps("network", "real", {name: machine.network for name, machine in machines.items()})


def wrong_networks(machines: Mapping[str, Gateway]) -> Iterator[Wrong]:
    """Networks that no host can be in."""
    for name, machine in machines.items():
        yield from _twice(name, "network", machine.network)
        for network in machine.network:
            if network.prefixlen > 30:
                sentence = f"{network} is too small for a gateway and a host: give a /30 or larger"
                yield Wrong(name, "network", sentence)
            if any(network.overlaps(reserved) for reserved in NO_LANS):
                yield Wrong(name, "network", f"{network} is no network that hosts can be in")
            if inner := [str(reserved) for reserved in INNER if network.subnet_of(reserved)]:
                sentence = f"{network} is in {inner[0]}, where the tunnels have their own addresses"
                yield Wrong(name, "network", sentence)
        own, (near, _) = machine.network_address, primary(machine.network, machine.network_address)
        if own and not machine.network:
            sentence = f"is the gateway's address in network, which is missing. Add the site's network to [{name}]"
            yield Wrong(name, "network_address", sentence, (f"{name}.network",))
        elif own and near and (own not in near or own in (near[0], near[-1])):
            sentence = f"{own} is no address of a host in the network {' or '.join(map(str, machine.network))}"
            yield Wrong(name, "network_address", sentence, (f"{name}.network",))


def wrong_networks_ipv6(machines: Mapping[str, Gateway]) -> Iterator[Wrong]:
    """The same of IPv6, which all sites have or none."""
    yield from _overlaps("network_ipv6", "IPv6", {name: machine.network_ipv6 for name, machine in machines.items()})
    having = next((name for name, machine in machines.items() if machine.network_ipv6), "")
    for name, machine in machines.items():
        networks, own = machine.network_ipv6, machine.address_ipv6
        yield from _twice(name, "network_ipv6", networks)
        if having and not networks:
            sentence = f"is missing, and [{having}] has one: name the IPv6 networks of all sites, or none"
            yield Wrong(name, "network_ipv6", sentence, (f"{having}.network_ipv6",))
        for network in networks:
            if network.prefixlen > 126 or any(network.overlaps(no) for no in NO_LANS_IPV6):
                yield Wrong(name, "network_ipv6", f"{network} is no network that hosts can be in")
        if own and not any(own in network and own != network[0] for network in networks):
            known = " or ".join(map(str, networks)) or "network_ipv6, which is missing"
            sentence = f"{own} is no address of a host in the network {known}"
            yield Wrong(name, "address_ipv6", sentence, (f"{name}.network_ipv6",))


def wrong_addresses(machines: Mapping[str, Gateway]) -> Iterator[Wrong]:
    """Addresses on the path of two families."""
    own = {name: machine.wan_address for name, machine in machines.items() if machine.wan_address}
    first = next(iter(own), "")
    for name, address in own.items():
        if address.version != own[first].version:
            sentence = f"the path has IPv4 or IPv6 addresses, not both ({own[first]} and {address})"
            yield Wrong(name, "wan_address", sentence, (f"{first}.wan_address",))
    for name, machine in machines.items():
        seen, has = machine.public_address, machine.wan_address
        if seen and has and not isinstance(seen, str) and seen.version != has.version:
            sentence = (
                f"{seen} is IPv{seen.version}, and wan_address IPv{has.version}: a NAT here changes addresses only"
            )
            yield Wrong(name, "public_address", sentence, (f"{name}.wan_address",))


def wrong_forwards(machines: Mapping[str, Gateway]) -> Iterator[Wrong]:
    """What a NAT forwards, where none is named."""
    for name, machine in machines.items():
        if machine.forwards and not machine.public_address:
            sentence = "is what a NAT forwards, and no NAT is named: add the address at which others reach it: "
            yield Wrong(name, "forwards", f"{sentence}public_address = …", (f"{name}.public_address",))


def _overlaps(key: str, kind: str, networks: Mapping[str, list[Family]]) -> Iterator[Wrong]:
    """For each site, the first one before it whose networks overlap its own."""
    before: dict[str, list[Family]] = {}
    for name, mine in networks.items():
        for other, theirs in before.items():
            if both := _overlap(theirs, mine):
                sentence = f"the sites' {kind} networks overlap: {both[0]} of {other} and {both[1]} of {name}"
                yield Wrong(name, key, f"{sentence}. {NO_TRANSLATION[key]}", (f"{other}.{key}",))
                break
        before[name] = mine


def _overlap(near: Iterable[Family], far: Iterable[Family]) -> tuple[Family, Family] | None:
    """The first two networks that overlap, one of each site."""
    return next(((mine, other) for mine in near for other in far if mine.overlaps(other)), None)


def _twice(name: str, key: str, networks: list[Family]) -> Iterator[Wrong]:
    """The networks of a site that overlap each other."""
    for one, other in combinations(networks, 2):
        if one.overlaps(other):
            yield Wrong(name, key, f"{one} and {other} of this site overlap: name the larger one alone")


def primary(networks: list[Family], own: IPv4Address | IPv6Address | None) -> tuple[Family | None, list[Family]]:
    """The network that the gateway's ``own`` address is in, or the first one; and the others."""
    first = next((network for network in networks if own and own in network), networks[0] if networks else None)
    return first, [network for network in networks if network != first]
