"""The inventory of a site lab: two machines, how to reach them, and what their addresses are; and perhaps two hosts.

max_rate_bps = 200e6             # optional: no test sends faster
between = "01:00-05:00"          # optional: tests run in these hours only, this machine's time, or "01:00-05:00 UTC"
keepalive_s = 15                 # optional: how often a tunnel sends something, so that no NAT forgets it

[gw1]
address = "198.51.100.7"         # where ssh reaches it: a name, an address, or an alias of ~/.ssh/config
wan = "eth0"                     # default: the port with the route to the other gateway
public_address = "198.51.100.7"  # where the other gateway reaches it, if a NAT stands before it; or its name
dials = true                     # of gw1, optional: its address changes, and it has no name
lan = "198.18.1.0/24"            # the network that the test host is in
network = "10.1.0.0/16"          # the site's real network, or several in [ ], and the gateway's address in one of
                                 # them: for `vpneval recipe`
network_address = "10.1.0.1"
network_seen_as = "10.3.0.0/16"  # optional: what the other site has in its place, as large; the gateways translate
network_ipv6 = "2001:db8:a::/56" # optional: the same in IPv6, and the gateway's address in it; recipes then carry both
address_ipv6 = "2001:db8:a::1"

[gw2]
address = "203.0.113.9"
public_address = "203.0.113.9"   # if a NAT stands before gw2, with the ports that it forwards to it
forwards = ["udp/51820"]

[uplink.lte]                     # optional: one of several lines between the gateways, with what it has of its own
gw1 = { wan = "ens9", public_address = "198.51.100.8" }

[host1]                          # optional, with [host2]: a host of its own, instead of a namespace on the gateway
address = "10.1.0.5"
lan_port = "eth0"                # its port on the network of [gw1] lan_port, which is then needed, too
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import combinations
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from runner.data.errors import UsageError, require_known
from runner.lab.places import hours
from runner.lab.places.inventory import MachineEntry, Port, read_model, resolve_files
from runner.lab.places.translation import as_seen, wrong_translations
from runner.lab.shape.site import HOST_NAME, Site

# For measuring, RFC 2544 §C.2.2 and RFC 5735: no network of a user's is there.
LANS = {"gw1": IPv4Network("198.18.1.0/24"), "gw2": IPv4Network("198.18.2.0/24")}
LANS_IPV6 = {"gw1": "2001:2:0:1::/64", "gw2": "2001:2:0:2::/64"}  # RFC 5180
NO_LANS_IPV6 = tuple(map(IPv6Network, ("::/8", "fe80::/10", "ff00::/8")))  # RFC 4291
# The tunnels' own addresses.
INNER = tuple(map(IPv4Network, ("10.8.0.0/16", "10.9.0.0/16", "10.53.0.0/16", "10.54.0.0/15", "10.56.0.0/15")))
NO_LANS = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))  # RFC 6890


Family = TypeVar("Family", IPv4Network, IPv6Network)


def _port(forward: str) -> str:
    if int(forward.partition("/")[2]) > 65535:
        raise ValueError(f"cannot be {forward!r}: the highest port is 65535")
    return forward


Forward = Annotated[str, StringConstraints(pattern=r"^(udp|tcp)/[1-9][0-9]{0,4}$"), AfterValidator(_port)]
CABLE = "vpneval0"  # the gateway's end of the cable to a host that is a namespace on it
Hours = Annotated[str, AfterValidator(hours.validate_hours)]
PathMtu = Annotated[int, Field(ge=576, le=9000)]
MaxRate = Annotated[float, Field(ge=1e5, le=1e12)]
Keepalive = Annotated[int, Field(ge=1, le=600)]
MOST_NETWORKS = 32  # of a site; a recipe has a line for each pair
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,30}$")]  # of a folder, too


def _address(value: object, needed: str = "an IPv4 or IPv6 address is needed") -> IPv4Address | IPv6Address:
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
OnPath = Annotated[IPv4Address | IPv6Address, PlainValidator(_address)]


def _address_or_name(value: object) -> IPv4Address | IPv6Address | str:
    if HOST_NAME.fullmatch(str(value)):
        return str(value)
    return _address(value, "an IPv4 or IPv6 address, or a name as branch.dyn.example.org, is needed")


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


class Host(MachineEntry):
    """A test host of its own: a machine that has a port on the same Ethernet as its gateway's ``lan_port``."""

    lan_port: Port

    def ports(self) -> dict[str, str]:
        """No port: the test host is a macvlan on the port, which the machine keeps."""
        return {}


class End(BaseModel):
    """A gateway's end of one uplink: what takes the place of its own keys."""

    model_config = ConfigDict(extra="forbid")

    wan: Port | None = None
    wan_address: OnPath | None = None
    public_address: Reached | None = None
    forwards: list[Forward] = []


class Uplink(BaseModel):
    """One of several lines between the gateways: what takes the place of the inventory's own keys."""

    model_config = ConfigDict(extra="forbid")

    gw1: End = End()
    gw2: End = End()
    path_mtu: PathMtu | None = None
    max_rate_bps: MaxRate | None = None
    keepalive_s: Keepalive | None = None


class Wrong(NamedTuple):
    """A line that contradicts others. ``rests_on``: the lines that it was compared with, or that were looked for, as
    "gw1.network"."""

    table: str
    key: str
    said: str
    rests_on: tuple[str, ...] = ()


class Sites(BaseModel):
    """Both gateways, perhaps a host behind each, and what protects the path's other traffic.

    ``path_mtu``: bytes, for a path that lets no ping through. ``keep_image``: the lab image stays there for the next
    run. ``keepalive_s``: for VPNs that have such a setting. ``uplink``: by name, the lines that are there beside.
    """

    model_config = ConfigDict(extra="forbid")

    gw1: Gateway
    gw2: Gateway
    path_mtu: PathMtu | None = None
    max_rate_bps: MaxRate | None = None
    between: Hours | None = None
    keep_image: bool = True
    keepalive_s: Keepalive | None = None
    uplink: dict[Name, Uplink] = {}
    host1: Host | None = None
    host2: Host | None = None

    @property
    def machines(self) -> dict[str, Gateway]:
        """The gateways by name."""
        return {"gw1": self.gw1, "gw2": self.gw2}

    @property
    def hosts(self) -> dict[str, Host]:
        """The hosts of their own by name: both or none."""
        named = {"host1": self.host1, "host2": self.host2}
        return {name: host for name, host in named.items() if host is not None}

    @property
    def all_machines(self) -> dict[str, MachineEntry]:
        """All machines by name."""
        return {**self.machines, **self.hosts}

    @property
    def lans(self) -> dict[str, IPv4Network]:
        """The network behind each gateway."""
        return {name: machine.lan or LANS[name] for name, machine in self.machines.items()}

    def for_uplink(self, uplink: str) -> Sites:
        """The inventory for this uplink; empty: as it is without one. Raises UsageError for one that it lacks."""
        if not uplink:
            return self
        if not self.uplink:
            raise UsageError(f"the inventory names no uplink. Add a table [uplink.{uplink}] (docs/labs.md, Two lines)")
        require_known("uplink", uplink, [*self.uplink], where="in the inventory")
        line = self.uplink[uplink]
        ends = {name: _override(machine, getattr(line, name)) for name, machine in self.machines.items()}
        return _override(self, line).model_copy(update=ends)

    @model_validator(mode="after")
    def _two_sites(self, info: ValidationInfo) -> Sites:
        """Raise with every line that contradicts others. The context has the lines that are wrong by themselves; what
        rests on one of them is not reported."""
        unknown = info.context or set()
        checks = (
            *(self._same_machines, self._test_networks, self._networks, self._networks_ipv6, self._addresses),
            *(self._hosts, self._nats, self._uplinks),
        )
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
                        loc=(mistake.table, mistake.key) if mistake.key else (mistake.table,),
                        input="",
                    )
                    for mistake in wrong
                ],
            )
        return self

    def _same_machines(self) -> Iterator[Wrong]:
        seen: dict[str, str] = {}
        for name, machine in self.all_machines.items():
            first = seen.setdefault(f"{machine.address} {machine.port} {sorted(machine.options.items())}", name)
            if first != name:
                rest = tuple(
                    f"{machine_name}.{key}" for machine_name in (first, name) for key in ("address", "port", "options")
                )
                yield Wrong(name, "address", f"{first} and {name} are the same machine ({machine.address})", rest)

    def _test_networks(self) -> Iterator[Wrong]:
        if self.lans["gw1"].overlaps(self.lans["gw2"]):
            near, far = self.lans.values()
            where, rest = "gw2" if self.gw2.lan else "gw1", ("gw1.lan", "gw2.lan")
            yield Wrong(where, "lan", f"the networks of the sites overlap: {near} and {far}", rest)
        for name, lan in self.lans.items():
            if lan.prefixlen > 29:
                yield Wrong(name, "lan", f"{lan} is too small for a gateway and a host: give a /29 or larger")
            if inner := [str(reserved) for reserved in INNER if lan.overlaps(reserved)]:
                yield Wrong(name, "lan", f"{lan} overlaps {inner[0]}, where the tunnels have their own addresses")
            if any(lan.overlaps(reserved) for reserved in NO_LANS):
                yield Wrong(name, "lan", f"{lan} is no network that hosts can be in")

    def _networks(self) -> Iterator[Wrong]:
        for table, key, sentence, rest in wrong_translations(self.machines, (*INNER, *NO_LANS)):
            yield Wrong(table, key, sentence, tuple(rest))
        for name, machine in self.machines.items():
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

    def _networks_ipv6(self) -> Iterator[Wrong]:
        if both := _overlap(self.gw1.network_ipv6, self.gw2.network_ipv6):
            sentence = (
                f"the sites' IPv6 networks overlap: {both[0]} and {both[1]}. The gateways translate IPv4 alone: give "
                "one site another network (RFC 4193), or leave network_ipv6 out"
            )
            yield Wrong("gw2", "network_ipv6", sentence, ("gw1.network_ipv6",))
        for name, other in (("gw1", "gw2"), ("gw2", "gw1")):
            networks, own = self.machines[name].network_ipv6, self.machines[name].address_ipv6
            yield from _twice(name, "network_ipv6", networks)
            if networks and not self.machines[other].network_ipv6:
                sentence = f"is missing, and [{name}] has one: name the IPv6 networks of both sites, or none"
                yield Wrong(other, "network_ipv6", sentence, (f"{name}.network_ipv6",))
            for network in networks:
                if network.prefixlen > 126 or any(network.overlaps(no) for no in NO_LANS_IPV6):
                    yield Wrong(name, "network_ipv6", f"{network} is no network that hosts can be in")
            if own and not any(own in network and own != network[0] for network in networks):
                known = " or ".join(map(str, networks)) or "network_ipv6, which is missing"
                sentence = f"{own} is no address of a host in the network {known}"
                yield Wrong(name, "address_ipv6", sentence, (f"{name}.network_ipv6",))

    def _addresses(self) -> Iterator[Wrong]:
        own = [machine.wan_address for machine in self.machines.values() if machine.wan_address]
        if len({address.version for address in own}) > 1:
            sentence = f"the path has IPv4 or IPv6 addresses, not both ({own[0]} and {own[1]})"
            yield Wrong("gw2", "wan_address", sentence, ("gw1.wan_address",))
        for name, machine in self.machines.items():
            seen, has = machine.public_address, machine.wan_address
            if seen and has and not isinstance(seen, str) and seen.version != has.version:
                sentence = (
                    f"{seen} is IPv{seen.version}, and wan_address IPv{has.version}: a NAT here changes addresses only"
                )
                yield Wrong(name, "public_address", sentence, (f"{name}.wan_address",))

    def _hosts(self) -> Iterator[Wrong]:
        for number, (name, machine) in enumerate(self.machines.items(), 1):
            host, other = f"host{number}", f"host{3 - number}"
            if self.hosts and host not in self.hosts:
                yield Wrong(other, "", f"[{host}] is missing: name both hosts, or none", (host,))
            if host in self.hosts and machine.lan_port is None:
                sentence = f"is missing: the port of {name} on the same network as {host}"
                yield Wrong(name, "lan_port", sentence)
            if machine.lan_port is not None and host not in self.hosts:
                yield Wrong(name, "lan_port", f"is for a host of its own, and [{host}] is not there", (host,))

    def _nats(self) -> Iterator[Wrong]:
        for name, machine in self.machines.items():
            if machine.forwards and not machine.public_address:
                sentence = "is what a NAT forwards, and no NAT is named: add the address at which others reach it: "
                yield Wrong(name, "forwards", f"{sentence}public_address = …", (f"{name}.public_address",))
        if self.gw2.dials:
            sentence = "gw1 dials gw2, so gw2 needs an address or a name: name the gateway that has none gw1"
            yield Wrong("gw2", "dials", sentence)
        if isinstance(self.gw2.public_address, IPv4Address | IPv6Address) and not self.gw2.forwards:
            sentence = (
                "gw2 is behind a NAT that forwards nothing to it, so gw1 cannot dial it. Name that gateway gw1, which "
                "dials, or forward ports and list them in forwards"
            )
            yield Wrong("gw2", "public_address", sentence, ("gw2.forwards",))

    def _uplinks(self) -> Iterator[Wrong]:
        """What contradicts on one of the uplinks, and not without them."""
        known = {wrong.said for wrong in (*self._addresses(), *self._nats())}
        for name in self.uplink:
            line = self.for_uplink(name)
            for wrong in (*line._addresses(), *line._nats()):
                if wrong.said not in known:
                    yield Wrong("uplink", name, f"[{wrong.table}] {wrong.key} {wrong.said}", wrong.rests_on)


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


Changed = TypeVar("Changed", bound=BaseModel)


def _override(entry: Changed, own: BaseModel) -> Changed:
    """The entry with the keys that ``own`` gives in the place of its own, but for the gateways' tables."""
    given = {key: getattr(own, key) for key in own.model_fields_set - {"gw1", "gw2"}}
    return entry.model_copy(update=given)


def read_sites(path: Path, uplink: str = "") -> Sites:
    """The inventory in ``path``, for this uplink if one is named. Raises UsageError with every mistake: file, line, and
    what is valid there."""
    sites = read_model(path, Sites, "site")
    resolve_files(path, sites.all_machines.values())
    return sites.for_uplink(uplink)


def with_addresses(sites: Sites) -> Sites:
    """The inventory with the address that each name has now. Raises UsageError for a name without one."""
    return sites.model_copy(update={name: _with_address(machine) for name, machine in sites.machines.items()})


def _with_address(machine: Gateway) -> Gateway:
    name, own = machine.public_address, machine.wan_address
    if not isinstance(name, str):
        return machine
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except OSError as wrong:
        raise UsageError(f"public_address: {name} has no address now ({wrong.args[-1]})") from None
    family = socket.AF_INET6 if own and own.version == 6 else socket.AF_INET
    address = next((at for version, *_, at in found if version == family), None if own else found[0][-1])
    if address is None:
        raise UsageError(f"public_address: {name} has no address of IPv{own.version if own else 4}, as wan_address has")
    try:
        return machine.model_copy(update={"public_address": _address(address[0])})
    except ValueError as wrong:
        raise UsageError(f"public_address: {name} is at an address that {wrong}") from None


def describe_sites(sites: Sites, ports: Mapping[str, str], addresses: Mapping[str, str]) -> tuple[Site, ...]:
    """The sites as plugins see them; ``ports`` and ``addresses`` are the gateways' own, on the path."""
    described_sites = []
    for number, (name, machine) in enumerate(sites.machines.items(), 1):
        gateway, host = sites.lans[name][1], sites.lans[name][2]
        public = str(machine.public_address or "")
        own = addresses[name]
        lan = str(sites.lans[name])
        public, alive_s = public if public != own else "", sites.keepalive_s or 0
        site = Site(number, name, own, ports[name], lan, str(gateway), str(host), public, alive_s)
        described_sites.append(replace(site, network_ipv6=LANS_IPV6[name]))
    return tuple(described_sites)


def real(sites: Iterable[Site], inventory: Sites) -> tuple[Site, ...]:
    """The sites as a reader has them: with the logins of the inventory, and the real networks in place of those of the
    test hosts, where it names them, or what the other site has for them."""
    real_sites = []
    for site in sites:
        machine = inventory.machines[site.name]
        login, options = f"{machine.user or 'root'}@{machine.address}", tuple(machine.options_of_both())
        site = replace(site, login=login, reached_with=options, dials=machine.dials)
        if isinstance(machine.public_address, str):
            site = replace(site, public_address=machine.public_address)
        network, others = primary(machine.network, machine.network_address)
        if network is not None:
            own = machine.network_address or network[1]
            host = network[2] if own != network[2] else network[1]
            site = replace(site, lan=str(network), lan_address=str(own), host_address=str(host))
        network6, others6 = primary(machine.network_ipv6, machine.address_ipv6)
        site = replace(site, more_lans=tuple(map(str, others)), more_lans_ipv6=tuple(map(str, others6)))
        in_ipv6 = str(network6 or ""), str(machine.address_ipv6 or "")
        site = replace(site, network_ipv6=in_ipv6[0], address_ipv6=in_ipv6[1])
        chosen = dict(zip(map(str, machine.network), map(str, machine.network_seen_as), strict=False))
        real_sites.append(as_seen(site, chosen))
    return tuple(real_sites)
