"""A lab of two machines and the path that is between them (decision 0038).

    host1 ── gw1 ════ whatever there is ════ gw2 ── host2

The gateways' daemons run in the machines' own networks; ``runner/lab/probes/undo.py`` takes back what they and vpneval
have made there (decision 0073). The hosts are network namespaces on the gateways, or on
machines behind them (``runner/lab/places/hosts.py``).
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from runner.data.errors import CannotRunHere, LabError, MeasurementError
from runner.data.named import HOST
from runner.lab.node.answers import links, number, own_words, routes, sections
from runner.lab.places import hosts, machines
from runner.lab.places.addresses import collisions
from runner.lab.places.conflicts import PORTS, in_use, listeners
from runner.lab.places.connection import Connection
from runner.lab.places.ends import Looked, Own, both_ends, of_family
from runner.lab.places.firewall import SAYS, UNTRANSLATED, forwarding_problems, translates, unread
from runner.lab.places.hours import Hours
from runner.lab.places.inventory import BY_ITSELF
from runner.lab.places.others import in_words
from runner.lab.places.private import private_folder
from runner.lab.places.sent import PAYLOAD_SHARE, forget, send_image
from runner.lab.places.sites import CABLE, Sites, describe_sites, with_addresses
from runner.lab.places.ssh import Lent, SshNode
from runner.lab.readings.path import RATE_S, look, nats_in_words, path_mtu, port_mtu
from runner.lab.shape import congestion
from runner.lab.shape.site import ENCAPSULATION_BYTES, BarePath, Site, peers_of
from runner.lab.shape.site_to_site import HOST_TOOLS, Lab, batch
from runner.lab.software.image import Image, open_image

ETHERNET_MTU = 1500
BURST_S = 0.005
TABLE = "vpneval_site"  # of nftables, on a gateway that is a NAT
TOOLS = {
    **HOST_TOOLS,
    "python3": "python3",
    "ss": "iproute2",
    "tar": "tar",
}  # before any image
LOOKS_WITH = {"ip": "iproute2", "ss": "iproute2"}
# Sections end with a separator. $1: the ssh client's address.
LOOK = (
    r"""
ip -d -j addr show; printf '\036'
ip -4 -j route show table all; printf '\036'
ip -6 -j route show table all; printf '\036'
ip -j route get "$1" 2> /dev/null; printf '\036'
ip xfrm policy list nosock 2> /dev/null; printf '\036'
ip xfrm state count 2> /dev/null; printf '\036'
ss -Hlntup; printf '\036'
"""
    + SAYS
    + r"""
printf '\036'; firewall-cmd --state 2> /dev/null && firewall-cmd --zone=trusted --list-sources
"""
)


@dataclass
class SiteRig:
    """Two machines that were found to be fit, with their hosts. ``lab`` sets one up on them, again and again.
    ``host_ports``: of hosts of their own, by name."""

    connections: Mapping[str, Connection]
    inventory: Sites
    owns: Mapping[str, Own]
    host_ports: Mapping[str, str] = field(default_factory=dict)
    kind: str = "site"
    stands: int = 1
    path: BarePath | None = field(default=None, init=False)
    changed: dict[str, Counter[str]] = field(default_factory=dict, init=False)  # by others: gateway -> kind -> how many

    @property
    def gateways(self) -> dict[str, Connection]:
        """The connections to the gateways."""
        return {name: self.connections[name] for name in self.owns}

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites, with the machines' own addresses."""
        ports = {name: own.port for name, own in self.owns.items()}
        return describe_sites(self.inventory, ports, {name: own.address for name, own in self.owns.items()})

    @property
    def notes(self) -> list[str]:
        """What the gateways do already, and a lab works beside."""
        return [note for own in self.owns.values() for note in own.notes]

    @property
    def hours(self) -> Hours:
        """When tests may run. A run waits for them before it begins; a lab by itself does not."""
        return Hours(self.inventory.between or "")

    def check_user(self, image: str) -> None:
        """Raise CannotRunHere for the lab image where this user cannot send it: its files are root's."""
        if image != HOST and os.geteuid() != 0:
            raise CannotRunHere(
                f"only root of this machine can send the lab image {image} to the gateways. Run vpneval as root (ssh "
                "then uses root's keys; name yours with identity), or use --image host, with the VPNs installed there"
            )

    def image(self, name: str, say: Callable[[str], None] | None = None) -> Image:
        """The lab image ``name``, sent to the machines where they lack it; ``host``: the machines' own software.

        Raises CannotRunHere where that lacks what a node needs, LabError where the image cannot be sent.
        """
        self.check_user(name)
        if name != HOST:
            for connection in self.connections.values():
                _same_machine_code(connection)
            image = open_image(name, say=say)
            for connection in self.connections.values():
                there = send_image(connection, image, say or (lambda text: None), self.inventory.max_rate_bps)
            return there
        for machine, connection in self.connections.items():
            machines.examine(connection, self.inventory.all_machines[machine])
        return machines.own_image(self.connections, self.kind, name)

    @contextmanager
    def alone(self, image: Image, log: Callable[[str], object]) -> Iterator[SshNode]:
        """A node on the first gateway, without a network: to make keys on."""
        with machines.node_alone(self.connections["gw1"], log, image.root) as node:
            yield node

    @contextmanager
    def lab(
        self,
        image: Image,
        gateway_image: Image | None = None,
        log: Callable[[str], object] | None = None,
        logs: Path | None = None,
    ) -> Iterator[Lab]:
        """The nodes, cabled and addressed; when the block ends the machines are as before.

        Raises CannotRunHere where the path is not as the inventory says, LabError where a machine fails, or does not
        confirm that all is undone.
        """
        started = time.monotonic()
        commands: list[str] = []
        say = log or commands.append
        nodes: dict[str, SshNode] = {}
        with self._note_changes(nodes), machines.given_back(nodes):
            for name, connection in self.gateways.items():
                nodes[name] = SshNode(name, connection, Lent({}, network="machine"), say, (gateway_image or image).root)
            self._ready(nodes, logs)
            for name, node in nodes.items():
                node.defer("ip", "link", "del", CABLE)
                if turned := self.owns[name].turned:
                    turned.apply(node)
            trouble = LabError if self.path else CannotRunHere
            self.path = self.path or self._look(nodes, 0.0)
            near = {}
            for site in self.sites:
                name = f"host{site.number}"
                connection = self.connections.get(name, self.connections[site.name])
                near[name] = SshNode(name, connection, hosts.lent(self.host_ports.get(name)), say, image.root)
            nodes.update(near)
            self._ready(near, logs)
            for node in nodes.values():
                node.companions = nodes
            self._address(nodes)
            try:
                hosts.check(nodes, self.sites, self.host_ports, {name: own.lan_port for name, own in self.owns.items()})
            except TimeoutError as apart:
                raise trouble(str(apart)) from apart
            order = ("host1", "gw1", "gw2", "host2")
            lab = Lab({name: nodes[name] for name in order}, self.sites, 0.0, commands, self.kind, shared_kernel=False)
            lab.path, lab.measure_path = self.path, partial(self.measure_path, lab)
            lab.rtt_s = max(self.path.rtt_ms, default=0.0) / 1e3
            lab.hosts_on_gateways = not self.host_ports
            lab.bring_up_s = time.monotonic() - started
            yield lab

    @contextmanager
    def _note_changes(self, nodes: Mapping[str, SshNode]) -> Iterator[None]:
        """Note what others have changed on the gateways, when the block has ended and with it the nodes."""
        try:
            yield
        finally:
            for name in self.owns.keys() & nodes.keys():
                self.changed.setdefault(name, Counter()).update(nodes[name].network_changes)

    def changed_by_others(self) -> list[str]:
        """A sentence for each gateway on which others have changed something while a lab was there."""
        said = (in_words(name, self.changed[name]) for name in sorted(self.changed))
        return [sentence for sentence in said if sentence]

    def measure_path(self, lab: Lab) -> BarePath:
        """The path with its rates each way, which take some seconds to measure. It is the lab's path from now on."""
        if self.path is None or not self.path.rates_bps:
            self.path = self._look({name: lab.nodes[name] for name in self.owns}, RATE_S)
        lab.path = self.path
        return self.path

    def _ready(self, nodes: Mapping[str, SshNode], logs: Path | None) -> None:
        for node in nodes.values():
            node.wait_ready()
            if logs is not None:
                node.log_to(logs)

    def _address(self, nodes: Mapping[str, SshNode]) -> None:
        """Address both ends of each host's cable, and limit the length and the rate of its packets."""
        assert self.path is not None
        fits = self.path.mtu_bytes - ENCAPSULATION_BYTES[self.sites[0].path_version]
        for site in self.sites:
            gateway, host = nodes[site.name], nodes[f"host{site.number}"]
            port = self.owns[site.name].lan_port
            longest = number(host.name, "an MTU", host.run("cat", "/sys/class/net/eth0/mtu").stdout)
            mtu = f" mtu {min(fits, longest)}" if self.path.mtu_bytes < ETHERNET_MTU else ""
            forwarding = ("net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
            gateway.run("sysctl", "-qw", *forwarding)
            if self.owns[site.name].translates:
                (other,) = (peer.lan for peer in peers_of(site, self.sites))
                gateway.defer("nft", "delete", "table", "ip", TABLE)
                gateway.run("nft", "-f", "-", input=UNTRANSLATED.format(TABLE, site.lan, other), check=False)
            gateway.defer("ip", "addr", "del", f"{site.lan_address}/{site.lan_prefix}", "dev", port)
            batch(gateway, f"addr add {site.lan_address}/{site.lan_prefix} dev {port}", f"link set {port} up")
            batch(
                host,
                f"addr add {site.host_address}/{site.lan_prefix} dev eth0",
                f"link set eth0{mtu} up",
                f"route add default via {site.lan_address}",
            )
            congestion.use(host)
            if rate_bps := self.inventory.max_rate_bps:
                # What a packet is on the path counts, inside of its tunnel; so each segment is a packet here already.
                host.run("ip", "link", "set", "eth0", "gso_max_segs", "1")
                burst = max(16000, int(rate_bps / 8 * BURST_S))
                on_path = ("stab", "overhead", str(ENCAPSULATION_BYTES[site.path_version]))
                shape = ("tbf", "rate", f"{int(rate_bps)}bit", "burst", str(burst), "latency", "50ms")
                host.run("tc", "qdisc", "add", "dev", "eth0", "root", *on_path, *shape)

    def _look(self, nodes: Mapping[str, Any], rate_s: float) -> BarePath:
        """The path as it is now, from the first gateway to the second. Raises CannotRunHere."""
        near, far = self.sites[0], self.sites[-1]
        (reached,) = peers_of(near, self.sites)
        ports = [port for port in PORTS if self._may_come_in(port)]
        by_ping = path_mtu(nodes[near.name], reached.wan_address, near.wan_interface)
        mtu = self.inventory.path_mtu or by_ping or (self.path.mtu_bytes if self.path else 0)
        try:
            facts: Mapping[str, Any] = look(
                *(nodes[near.name], nodes[far.name], reached.wan_address, ports, rate_s),
                PAYLOAD_SHARE * (self.inventory.max_rate_bps or 0.0),
                *(mtu, port_mtu(nodes[near.name], near.wan_interface)),
            )
        except MeasurementError as broken:
            raise CannotRunHere(str(broken)) from broken
        seen, expected = facts.get("seen_as", ""), near.public_address or near.wan_address
        if seen and seen != expected:
            raise CannotRunHere(
                f"gw1 is seen as {seen} by gw2, not as {expected}: a NAT stands before it. Add to [gw1] of the "
                f'inventory: public_address = "{seen}"'
            )
        mtu = mtu or facts.get("mtu_bytes", 0)
        if not mtu and not facts["open"]:
            raise CannotRunHere(
                f"gw1 does not reach gw2 at {reached.wan_address}: neither a ping nor any VPN's port comes through. "
                "Is that the address at which gw1 reaches it (public_address, wan_address), and do firewalls let it in?"
            )
        if not mtu:
            raise CannotRunHere(
                f"the longest packet that the path carries is not known: gw2 answers no ping at {reached.wan_address}, "
                "and none of its UDP ports comes through. Name it in the inventory, in bytes: path_mtu = 1400"
            )
        gateway = nodes[near.name].run("ip", "-o", "route", "get", reached.wan_address, check=False).stdout
        names = ("rtt_ms", "dscp_kept", "ecn_kept")
        return BarePath(
            mtu,
            " via " not in gateway and not near.public_address and not far.public_address,
            nats_in_words(facts, near, far, self.inventory.gw2.forwards),
            tuple(ports),
            tuple(facts["open"]),
            loss_ratio=facts.get("loss_ratio"),
            clock_ahead_s=facts.get("clock_ahead_s"),
            rates_bps=tuple(facts[name] for name in ("forward_bps", "reverse_bps") if name in facts),
            tcp_bps=tuple(facts[name] for name in ("forward_tcp_bps", "reverse_tcp_bps") if name in facts),
            most_bps=self.inventory.max_rate_bps if rate_s else None,
            seen_as=seen,
            answers_pings=by_ping is not None,
            taken={name: own.taken for name, own in self.owns.items()},
            links={name: own.links for name, own in self.owns.items()},
            **{name: tuple(facts.get(name, ())) for name in names},
        )

    def _may_come_in(self, port: str) -> bool:
        far = self.inventory.gw2
        return port not in self.owns["gw2"].taken and (not far.public_address or port in far.forwards)


def _same_machine_code(connection: Connection) -> None:
    """Raise CannotRunHere where the machine does not run the programs of this machine's images."""
    theirs, ours = own_words(connection.run("uname", "-m").stdout) or "unknown", platform.machine()
    if theirs != ours:
        raise CannotRunHere(
            f"{connection.name} is of the architecture {theirs!r:.40}, and the lab image of {ours}, so it cannot be "
            "sent there: use --image host, with the VPNs installed there, or run vpneval on a machine of that "
            f"architecture. {BY_ITSELF}"
        )


@contextmanager
def site_rig(
    inventory: Sites, *, only_look: bool = False, say: Callable[[str], object] = lambda text: None
) -> Iterator[SiteRig]:
    """Connect to both machines and check all that a lab needs of them, changing nothing. ``only_look``: for a caller
    who wants their addresses only; a machine may be in use then. ``say`` is told which machine is slow to answer.
    Raises CannotRunHere with everything that was found wrong, machine by machine."""
    inventory = with_addresses(inventory)
    wanted = inventory.machines if only_look else inventory.all_machines
    with private_folder() as folder:
        connections = {name: Connection(name, machine, folder, say) for name, machine in wanted.items()}
        try:
            with ThreadPoolExecutor() as threads:
                answers = threads.map(lambda name: _fit(connections[name], name, inventory, only_look), connections)
                answers_by_name: dict[str, Any] = dict(zip(connections, answers, strict=True))
            looked = {name: seen for name, seen in answers_by_name.items() if isinstance(seen, Looked)}
            for name, end in both_ends(looked, inventory).items():
                answers_by_name[name] = _usable(name, looked[name], end, inventory, only_look)
            if problems := [str(answer) for answer in answers_by_name.values() if isinstance(answer, Exception)]:
                raise CannotRunHere("\n".join(problems))
            owns = {name: own for name, own in answers_by_name.items() if isinstance(own, Own)}
            if len({":" in own.address for own in owns.values()}) > 1:
                ends = " and ".join(f"{name} {own.address}" for name, own in owns.items())
                raise CannotRunHere(f"the path has IPv4 or IPv6 addresses, not both ({ends}): name wan_address of each")
            yield SiteRig(
                connections, inventory, owns, {n: port for n, port in answers_by_name.items() if isinstance(port, str)}
            )
        finally:
            with ExitStack() as closing:  # each of them, whatever another one's end raises
                for connection in connections.values():
                    closing.callback(connection.close)
                    if not inventory.keep_image and not only_look:
                        closing.callback(forget, connection)


def _fit(
    connection: Connection, name: str, inventory: Sites, only_look: bool
) -> Looked | str | CannotRunHere | LabError:
    """What the gateway says of itself, or a host's port; or the error that says why the machine cannot be used."""
    try:
        connection.wait_ready()
        machines.examine(connection, inventory.all_machines[name], LOOKS_WITH if only_look else TOOLS)
        if name in inventory.hosts:
            return hosts.fit(connection, inventory.hosts[name].lan_port)
        return look_at(connection)
    except (CannotRunHere, LabError) as problem:
        return problem


def look_at(connection: Connection) -> Looked:
    """What the gateway says of itself. Raises CannotRunHere where it does not answer as it should."""
    looked = connection.run("sh", "-c", LOOK, "sh", connection.client).stdout
    addresses, ways4, ways6, to_client, policies, states, listening, firewall, managers = sections(
        connection.name, looked, 9
    )
    return Looked(
        connection,
        links(connection, addresses),
        [*of_family(4, routes(connection, ways4)), *of_family(6, routes(connection, ways6))],
        routes(connection, to_client),
        listeners(listening),
        policies,
        states,
        firewall,
        managers,
    )


def _usable(
    name: str, seen: Looked, end: Own | CannotRunHere, inventory: Sites, only_look: bool
) -> Own | CannotRunHere:
    """The gateway's end of the path; or, with every reason against the machine, the error. ``only_look``: it may be in
    use."""
    problems, carriers = [], seen.carriers
    if isinstance(end, CannotRunHere):
        problems.append(str(end))
    else:
        carriers = {end.port: "the path", **carriers}
    lan_port, notes = CABLE, list[str]()
    if not only_look:
        try:
            lan_port = hosts.lan_port(inventory.machines[name], seen.there, getattr(end, "port", ""))
        except CannotRunHere as lack:
            problems.append(str(lack))
        conflicts, notes = in_use(seen, carriers, inventory)
        lan, other = (str(inventory.lans[site]) for site in (name, *(inventory.machines.keys() - {name})))
        problems = [*conflicts, *forwarding_problems(seen.firewall, seen.managers, lan_port, (lan, other)), *problems]
    if isinstance(end, CannotRunHere) or problems:
        return CannotRunHere("\n".join(f"{name}: {problem}" for problem in problems))
    said = tuple(
        f"{name}: {note}" for note in (*notes, *collisions(name, seen, inventory), unread(seen.firewall)) if note
    )
    return replace(end, lan_port=lan_port, translates=translates(seen.firewall), notes=said)
