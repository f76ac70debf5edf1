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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, model_validator

from runner.data.errors import UsageError, require_known
from runner.lab.places import hours
from runner.lab.places.gateways import (
    INNER,
    NO_LANS,
    Forward,
    Gateway,
    OnPath,
    Reached,
    Wrong,
    path_address,
    primary,
    raise_contradictions,
    same_machines,
    wrong_addresses,
    wrong_forwards,
    wrong_networks,
    wrong_networks_ipv6,
)
from runner.lab.places.inventory import MachineEntry, Port, read_model, resolve_files
from runner.lab.places.translation import as_seen, wrong_translations
from runner.lab.shape.site import Site

# For measuring, RFC 2544 §C.2.2 and RFC 5735: no network of a user's is there.
LANS = {"gw1": IPv4Network("198.18.1.0/24"), "gw2": IPv4Network("198.18.2.0/24")}
LANS_IPV6 = {"gw1": "2001:2:0:1::/64", "gw2": "2001:2:0:2::/64"}  # RFC 5180
CABLE = "vpneval0"  # the gateway's end of the cable to a host that is a namespace on it
Hours = Annotated[str, AfterValidator(hours.validate_hours)]
PathMtu = Annotated[int, Field(ge=576, le=9000)]
MaxRate = Annotated[float, Field(ge=1e5, le=1e12)]
Keepalive = Annotated[int, Field(ge=1, le=600)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,30}$")]  # of a folder, too


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
        """Raise with every line that contradicts others."""
        checks = (
            partial(same_machines, self.all_machines),
            self._test_networks,
            self._translations,
            partial(wrong_networks, self.machines),
            partial(wrong_networks_ipv6, self.machines),
            partial(wrong_addresses, self.machines),
            *(self._hosts, self._nats, self._uplinks),
        )
        raise_contradictions(checks, info)
        return self

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

    def _translations(self) -> Iterator[Wrong]:
        for table, key, sentence, rest in wrong_translations(self.machines, (*INNER, *NO_LANS)):
            yield Wrong(table, key, sentence, tuple(rest))

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
        yield from wrong_forwards(self.machines)
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
        known = {wrong.said for wrong in (*wrong_addresses(self.machines), *self._nats())}
        for name in self.uplink:
            line = self.for_uplink(name)
            for wrong in (*wrong_addresses(line.machines), *line._nats()):
                if wrong.said not in known:
                    yield Wrong("uplink", name, f"[{wrong.table}] {wrong.key} {wrong.said}", wrong.rests_on)


Changed = TypeVar("Changed", bound=BaseModel)


def _override(entry: Changed, own: BaseModel) -> Changed:
    """The entry with the keys that ``own`` gives in the place of its own, but for the gateways' tables."""
    given = {key: getattr(own, key) for key in own.model_fields_set - {"gw1", "gw2"}}
    return entry.model_copy(update=given)


def read_sites(path: Path, uplink: str = "") -> Sites:
    """The inventory in ``path``, for this uplink if one is named; of a hub's, ``FILE#SPOKE``, that spoke and the hub.
    Raises UsageError with every mistake: file, line, and what is valid there."""
    from runner.lab.places.hub import pair_of

    if pair := pair_of(path):
        return pair.for_uplink(uplink)
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
        return machine.model_copy(update={"public_address": path_address(address[0])})
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
