"""The lab on machines that exist: everything is checked before anything is changed, and every change undone.

    host1 ──── gw1 ════ (wan) ════ gw2 ──── host2

Each machine lends the ports that the inventory names; they are moved into a node (see ssh.py), under the names
that they have in the namespace lab. The machines' own addresses, routes and services stay out of it.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runner.data.errors import LEFT_BEHIND, CannotRunHere, LabError, UsageError
from runner.lab.node import LabNode, wait_until
from runner.lab.node.answers import Link, links, not_understood, own_words, sections
from runner.lab.places.connection import Connection
from runner.lab.places.inventory import BY_ITSELF, Inventory, MachineEntry
from runner.lab.places.private import private_folder
from runner.lab.places.ssh import Lent, SshNode
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import HOST_TOOLS, SITES, Lab, address
from runner.lab.software.image import DEFAULT, NODE_TOOLS, Image

CABLES_WITHIN_S = 15.0  # a link of 1000BASE-T takes about 3 s to come up
TOOLS = {**HOST_TOOLS, **NODE_TOOLS, "bridge": "iproute2", "ping": "iputils-ping", "setsid": "util-linux"}
PACKAGE = re.compile(
    r"[a-z0-9][a-z0-9+.-]* ([A-Za-z0-9][A-Za-z0-9.+~:-]*)?"
)  # with its version: Debian policy 5.6.1, 5.6.12
# Kinds of devices that stay in their network namespace (NETIF_F_NETNS_LOCAL).
STAYING = ("bridge", "bond", "team", "vrf", "openvswitch", "batadv", "hsr")
# One command each, because in an emulated VM every process takes its time. Their sections end with a separator.
# $1: the ssh client's address; the rest: tools.
LOOK_AT_MACHINE = r"""
client=$1; shift
for t; do command -v "$t" > /dev/null || echo "$t"; done; printf '\036'
unshare --net --mount --uts --ipc --pid --fork true 2>&1; printf '\036'
ip -d -j addr show; printf '\036'
{ ip route show default; ip -o route get "$client"; } 2> /dev/null
"""
# $@: ports.
LOOK_AT_PORTS = r"""
for port; do
    tc qdisc show dev "$port" root; printf '\036'
    ip -4 -o route show table all dev "$port"; printf '\036'
    ip -6 -o route show table all dev "$port"; printf '\036'
    ip -o neigh show dev "$port" nud permanent; printf '\036'
done
files=()
for port in "$@" default; do files+=(/proc/sys/net/ipv[46]/{conf,neigh}/"$port"/*); done
grep -s . "${files[@]}"
"""


@dataclass
class SshRig:
    """Machines that were found to be fit for a lab. ``lab`` sets one up on them, again and again."""

    connections: Mapping[str, Connection]
    lent: Mapping[str, Lent]
    kind: str = "ssh"
    stands: int = 1
    sites: tuple[Site, ...] = SITES
    _worked: bool = field(default=False, init=False)

    def image(self, name: str, say: Callable[[str], None] | None = None) -> Image:
        """The machines' own software. Raises UsageError for any other."""
        return own_image(self.connections, self.kind, name)

    @contextmanager
    def alone(self, image: Image, log: Callable[[str], object]) -> Iterator[LabNode]:
        """A node on the first gateway, without a network: to make keys on."""
        with node_alone(self.connections[SITES[0].name], log) as node:
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

        Raises CannotRunHere where the cables are not as the inventory says, LabError where a machine fails, or
        does not confirm that all is undone.
        """
        started = time.monotonic()
        commands: list[str] = []
        nodes: dict[str, SshNode] = {}
        with given_back(nodes):
            for name, connection in self.connections.items():
                nodes[name] = SshNode(name, connection, self.lent[name], log or commands.append)
            for node in nodes.values():
                node.companions = nodes
                node.wait_ready()
                if logs is not None:
                    node.log_to(logs)
            address({**nodes})
            lab = Lab({**nodes}, SITES, 0.0, commands, self.kind, shared_kernel=False)
            try:
                check_cables(lab, self.lent)
            except TimeoutError as dead:
                raise (LabError if self._worked else CannotRunHere)(str(dead)) from dead
            self._worked = True
            lab.bring_up_s = time.monotonic() - started
            yield lab


def own_image(connections: Mapping[str, Connection], kind: str, name: str) -> Image:
    """The gateways' own software as an image. Raises UsageError for any other image."""
    if name not in (DEFAULT, "host"):
        raise UsageError(
            f"the machines of --lab {kind} have their own software, so vpneval cannot use the image {name!r}"
        )
    results = [connections[site.name].run("dpkg-query", "-W", "-f", "${Package} ${Version}\\n") for site in SITES]
    each = [_packages(site.name, done.stdout) for site, done in zip(SITES, results, strict=True)]
    packages = {name: _on_both(name, *each) for name in sorted({*each[0], *each[1]})}
    digest = hashlib.sha256("".join(sorted(done.stdout for done in results)).encode()).hexdigest()
    return Image("host", Path("/"), digest[:12], packages)


def _packages(machine: str, listed: str) -> dict[str, str]:
    """Package -> version, as dpkg-query lists them on the machine. Raises CannotRunHere."""
    packages = {}
    for line in listed.splitlines():
        if " " in line:
            if not PACKAGE.fullmatch(line):
                raise not_understood(machine, f"dpkg-query lists {line[:80]!r}, which is no package and version")
            name, _, packages[name] = line.partition(" ")
    return packages


def _on_both(package: str, near: Mapping[str, str], far: Mapping[str, str]) -> str:
    """The version of a package on both gateways; where they differ, the version on each."""
    versions = [there.get(package, "not installed") for there in (near, far)]
    both = (f"{version} on {site.name}" for version, site in zip(versions, SITES, strict=True))
    return versions[0] if versions[0] == versions[1] else ", ".join(both)


@contextmanager
def node_alone(connection: Connection, log: Callable[[str], object], root: Path = Path("/")) -> Iterator[SshNode]:
    """A node on that machine without a network, to make keys on."""
    node = SshNode("ca", connection, Lent({}), log, root)
    node.makes_keys = True
    with given_back({"ca": node}):
        node.wait_ready()
        yield node


@contextmanager
def given_back(nodes: Mapping[str, SshNode]) -> Iterator[None]:
    """End the nodes that are in ``nodes`` when the block ends. Raises LabError where a machine does not confirm that it
    is as before."""
    whole = False
    try:
        yield
        whole = True
    finally:
        if trouble := _give_back(nodes):
            error = None if whole else sys.exception()
            if not isinstance(error, KeyboardInterrupt):
                raise LabError(trouble if error is None else f"{error}; afterwards {trouble}") from error
            setattr(error, LEFT_BEHIND, trouble)  # it stays an interruption, which nobody takes for a broken lab


def _give_back(nodes: Mapping[str, SshNode]) -> str:
    """End all nodes, whatever happens to one of them. Returns what went wrong, in words; empty where nothing did."""
    troubles = []
    for node in nodes.values():
        node.release()
    for node in nodes.values():
        try:
            node.stop()
        except LabError as error:
            troubles.append(str(error))
    return "; ".join(troubles)


@contextmanager
def ssh_rig(
    inventory: Inventory, kind: str = "ssh", say: Callable[[str], object] = lambda text: None
) -> Iterator[SshRig]:
    """Connect to the machines and check all that a lab needs of them, changing nothing; ``say`` is told which is slow.

    Raises CannotRunHere with everything that was found wrong, machine by machine.
    """
    with private_folder() as folder:
        connections = {name: Connection(name, m, folder, say) for name, m in inventory.machines.items()}
        try:
            with ThreadPoolExecutor() as threads:
                answers = list(threads.map(_fit, connections.values(), inventory.machines.values()))
            if problems := [str(answer) for answer in answers if not isinstance(answer, Lent)]:
                raise CannotRunHere("\n".join(problems))
            lent = {name: answer for name, answer in zip(connections, answers, strict=True) if isinstance(answer, Lent)}
            yield SshRig(connections, lent, kind)
        finally:
            for connection in connections.values():
                connection.close()


def _fit(connection: Connection, machine: MachineEntry) -> Lent | CannotRunHere | LabError:
    """What the machine will lend, or the error that says why it cannot."""
    try:
        connection.wait_ready()
        return examine(connection, machine)
    except (CannotRunHere, LabError) as problem:
        return problem


def examine(connection: Connection, machine: MachineEntry, tools: Mapping[str, str] = TOOLS) -> Lent:
    """The ports that ``machine`` will lend, and their present state. Raises CannotRunHere with every reason against
    it."""
    name = connection.name
    looked = connection.run("sh", "-c", LOOK_AT_MACHINE, "sh", connection.client, *tools).stdout
    absent, refused, addresses, routes = sections(name, looked, 4)
    if unknown := {*absent.split()} - {*tools}:
        raise not_understood(name, f"it says {sorted(unknown)[0]!r:.80} of its tools")
    if missing := absent.split():
        packages = " ".join(sorted({tools[tool] for tool in missing}))
        other = f". {BY_ITSELF}" if "python3" in missing else ""
        raise CannotRunHere(f"{name} has no {', '.join(missing)}; get it there with: apt-get install {packages}{other}")
    there = {link["ifname"]: link for link in links(connection, addresses)}
    problems = [f"no namespaces: {own_words(refused)}"] if refused.strip() else []
    by_mac = {link.get("address", "").lower(): link["ifname"] for link in there.values()}
    has = {name: [entry.get("local") for entry in link["addr_info"]] for name, link in there.items()}
    ours = [name for name in has if connection.server in has[name]]
    reserved = {"lo": "is the loopback interface"}
    reserved |= dict.fromkeys(re.findall(r"^default .*dev (\S+)", routes, re.MULTILINE), "is the default route")
    to_client = re.findall(rf"^{re.escape(connection.client)} .*dev (\S+)", routes, re.MULTILINE)
    reserved |= dict.fromkeys([*to_client, *ours], "carries the ssh connection")
    ports = {lab_name: by_mac.get(wanted.lower(), wanted) for lab_name, wanted in machine.ports().items()}
    for wanted in [wanted for lab_name, wanted in machine.ports().items() if ports[lab_name] not in there]:
        have = ", ".join(f"{link} ({details.get('address', '')})" for link, details in there.items() if link != "lo")
        problems.append(f"no interface {wanted}; it has: {have or 'none'} (or does another run hold it?)")
    owns = [own for own in ports.values() if own in there]
    looked = connection.run("bash", "-c", LOOK_AT_PORTS, "bash", *owns).stdout
    *shown, settings = sections(name, looked, 4 * len(owns) + 1)
    restore, restore6 = [], []
    for nth, own in enumerate(owns):
        qdisc, routes4, routes6, neighbours = shown[4 * nth : 4 * nth + 4]
        if why := _not_to_lend(there[own], reserved, qdisc, routes4 + routes6):
            problems.append(f"{own} {why}")
        restore += link_lines(there[own]) + route_lines(own, routes4) + neighbour_lines(own, neighbours)
        restore6 += route_lines(own, routes6)
    if problems:
        raise CannotRunHere("\n".join(f"{name}: {problem}" for problem in problems))
    return Lent(ports, "\n".join(restore), "\n".join(restore6), "\n".join(sysctl_lines(settings)))


def _not_to_lend(link: Link, reserved: Mapping[str, str], qdisc: str, routes: str) -> str:
    """Why a port cannot be moved into a node and back, as words after its name; empty where it can."""
    own = link["ifname"]
    if own in reserved:
        return f"{reserved[own]}: the lab would cut the machine off"
    if (kind := link.get("linkinfo", {}).get("info_kind", "")) in STAYING:
        cable = f"ip link add lab0 type veth peer name lab1; ip link set lab1 master {own} up"
        instead = f"a cable to it ({cable}), and lab0 in the inventory" if kind == "bridge" else "another port"
        return f"is a {kind}, which cannot be lent to a lab: it stays where it is. Use {instead}"
    if "master" in link:
        return f"is a part of {link['master']}: take it out of it"
    if len(words := qdisc.split()) > 2 and words[2] != "0:":
        return f"has a queueing discipline of its own ({shlex.quote(words[1])}), which the lab could not restore"
    if re.search(r"\b(nexthop|nhid)\b", routes):
        return "has multipath routes, which the lab could not restore"
    return ""


def link_lines(link: Link) -> list[str]:
    """Lines for ip -batch that make an interface what it is now: up or down, MTU, addresses."""
    device = f"dev {link['ifname']}"
    mode = f" addrgenmode {link['inet6_addr_gen_mode']}" if "inet6_addr_gen_mode" in link else ""
    up = "UP" in link["flags"]
    lines = [f"link set {device} mtu {link['mtu']}{mode}", f"link set {device} {'up' if up else 'down'}"]
    for entry in link["addr_info"]:
        if entry.get("protocol") == "kernel_ll":
            continue  # the kernel makes it again
        peer = f" peer {entry['address']}" if "address" in entry else ""
        line = f"addr replace {entry['local']}{peer}/{entry['prefixlen']} {device} scope {entry['scope']}"
        line += f" brd {entry['broadcast']}" if "broadcast" in entry else ""
        line += f" label {entry['label']}" if entry.get("label", link["ifname"]) != link["ifname"] else ""
        if entry.get("dynamic") and {"valid_life_time", "preferred_life_time"} <= entry.keys():
            line += f" valid_lft {entry['valid_life_time']} preferred_lft {entry['preferred_life_time']}"
        lines.append(line + "".join(f" {flag}" for flag in ("noprefixroute", "nodad") if entry.get(flag)))
    return lines


def route_lines(device: str, shown: str) -> list[str]:
    """Lines for ip -batch from the output of ``ip -o route show table all dev DEVICE``, on-link routes first.

    Routes that the kernel (or a router's advertisement) makes by itself are left out: ip-route(8) RTPROTO.
    """
    routes = [line.strip() for line in shown.splitlines() if line.strip()]
    routes = [route for route in routes if not re.search(r"\bproto (kernel|ra)\b", route)]
    routes = [re.sub(r" (linkdown|dead|offload|trap|expires \S+|error \S+)\b", "", route) for route in routes]
    return [f"route replace {route} dev {device}" for route in sorted(routes, key=lambda route: " via " in route)]


def neighbour_lines(device: str, shown: str) -> list[str]:
    """Lines for ip -batch from the output of ``ip -o neigh show dev DEVICE nud permanent``."""
    matches = [re.match(r"(\S+) lladdr (\S+)", line) for line in shown.splitlines()]
    return [f"neigh replace {match[1]} lladdr {match[2]} nud permanent dev {device}" for match in matches if match]


def sysctl_lines(shown: str) -> list[str]:
    """Lines "path value" from grep's output of the ports' sysctls and of the default ones, which a port has after a
    move.

    Only those that differ from the default ones; the kernel derives ``mtu``, and does not show ``stable_secret``.
    """
    values = dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)
    lines = []
    for path, value in values.items():
        folder, _, name = path.rpartition("/")
        usual = values.get(f"{folder.rpartition('/')[0]}/default/{name}", value)
        if value != usual and name not in ("mtu", "stable_secret"):
            lines.append(f"{path} {value}")
    return lines


def check_cables(lab: Lab, lent: Mapping[str, Lent]) -> None:
    """Does each cable go where the inventory says? Raises TimeoutError that names the two ports that do not meet."""

    def port(name: str, lab_name: str) -> str:
        return f"{name}'s {lent[name].ports[lab_name]}"

    first, last = lab.sites
    for node, to, here, there in (
        (lab.host1, first.lan_address, port("host1", "eth0"), port("gw1", "lan0")),
        (lab.host2, last.lan_address, port("host2", "eth0"), port("gw2", "lan0")),
        (lab.gateway(first), last.wan_address, port("gw1", "wan0"), port("gw2", "wan0")),
    ):
        through = " (through the WAN machine)" if lab.has_wan and "gw" in node.name else ""
        try:
            wait_until(partial(_answers, node, to), "an answer", CABLES_WITHIN_S, 0.2)
        except TimeoutError as silent:
            seen = f"{silent}, {_carriers(lab, lent)}"
            raise TimeoutError(
                f"{here} and {there} cannot reach each other{through}: {seen}. Are both ports on the same cable?"
            ) from silent
    if not lab.has_wan:
        return
    for site in lab.sites:
        mac = lab.gateway(site).run("cat", f"/sys/class/net/{site.wan_interface}/address").stdout.strip()
        learnt = lab.wan.run("bridge", "fdb", "show", "br", "br0").stdout
        if f"{mac} dev {site.name} " not in learnt:
            raise TimeoutError(
                f"the WAN machine does not see {site.name} on its port {port('wan', site.name)}. "
                "Are its two ports swapped?"
            )


def _answers(node: LabNode, to: str) -> bool:
    return node.run("ping", "-c", "1", "-W", "1", to, check=False).code == 0


def _carriers(lab: Lab, lent: Mapping[str, Lent]) -> str:
    dead = []
    for name, machine in lent.items():
        shown = lab.nodes[name].run("ip", "-o", "link", "show").stdout.splitlines()
        dead += [
            f"{own} of {name}"
            for lab_name, own in machine.ports.items()
            if any(f" {lab_name}" in line and "LOWER_UP" not in line for line in shown)
        ]
    return f"no carrier on {', '.join(dead)}" if dead else "every port has a carrier"
