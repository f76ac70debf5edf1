"""Labs of another shape than site-to-site, as data: cables, addresses, and what runs on the routers.

ospf: five routers (the paper's Fig. 4). R1 is gw1, R4 is gw2; the link that dies goes through a node of its own, wan.

    host1 ── gw1 ══ wan ══ r2 ── r3 ── gw2 ── host2        cost 1 each: this path first
              └───────── r5 ───────────┘                   cost 10 each: this one when gw1–r2 is dead

    In the paper's Fig. 3c, r2 and r5 are routers of two providers. In Fig. 3b, both links of gw1 end at one router, r2.

redundant: two gateways behind one address (the ClusterIP paper's Fig. 2a, and VRRP). gw1 is active, gw1b stands by.

               ┌── gw1 ───┐
    host1 ── lan   │sync  wan ══ gw2 ── host2
               └── gw1b ──┘
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.data.errors import MeasurementError
from runner.lab.node import LabNode
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.shape import congestion
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab, batch, forwards, lay, only_bridges, plug_in
from runner.lab.software.checksums import damage_told
from runner.lab.software.image import Image


@dataclass(frozen=True)
class Port:
    """One end of a cable: the node, its interface, its addresses with prefix length, and its OSPF cost."""

    node: str
    name: str
    addresses: tuple[str, ...] = ()
    cost: int = 0  # 0: not in OSPF


Cable = tuple[Port, Port]


@dataclass(frozen=True)
class Topology:
    """Nodes by their cables, the bridges among them, and the two sites whose gateways run the VPN."""

    cables: tuple[Cable, ...]
    bridges: tuple[str, ...]  # nodes that only join their ports
    sites: tuple[Site, ...]
    gateways: tuple[str, ...]  # nodes that run the gateways' image
    default_routes: Mapping[str, str]  # host -> its gateway's address
    loopbacks: Mapping[str, str]  # router -> the address on its loopback

    @property
    def nodes(self) -> list[str]:
        """The names of all nodes that a cable has an end at."""
        return list(dict.fromkeys(port.node for cable in self.cables for port in cable))

    def ports(self, node: str) -> list[Port]:
        """The ports of a node, in the order of the cables."""
        return [port for cable in self.cables for port in cable if port.node == node]

    def across(self, node: str, name: str) -> Port:
        """The other end of the cable in that port."""
        return next(b if (a.node, a.name) == (node, name) else a for a, b in self.cables if _has(a, b, node, name))


def _has(a: Port, b: Port, node: str, name: str) -> bool:
    return (node, name) in ((a.node, a.name), (b.node, b.name))


SECOND_LINK = (Port("gw1", "wan1", ("10.0.15.1/30",), 10), Port("r2", "to-gw1-too", ("10.0.15.2/30",), 10))
SECOND_PROVIDER = (
    (Port("gw1", "wan1", ("10.0.15.1/30",), 10), Port("r5", "to-gw1", ("10.0.15.2/30",), 10)),
    (Port("r5", "to-gw2", ("10.0.45.1/30",), 10), Port("gw2", "wan1", ("10.0.45.2/30",), 10)),
)


def ospf(endpoint: str, uplinks: str = "two_routers") -> Topology:
    """The lab of five routers. ``endpoint`` of the tunnel on gw1: ``link``, the address on the link that dies, as in
    the paper, or ``loopback``, on both gateways. ``uplinks`` of gw1: to r2 and r5, or both to ``one_router``, r2."""
    near, far = ("10.0.12.1", "10.0.34.2") if endpoint == "link" else ("10.255.0.1", "10.255.0.4")
    site1, site2 = SITES
    return Topology(
        cables=(
            (Port("host1", "eth0", ("10.1.0.2/24",)), Port("gw1", "lan0", ("10.1.0.1/24",))),
            (Port("gw1", "wan0", ("10.0.12.1/30",), 1), Port("wan", "gw1")),
            (Port("wan", "r2"), Port("r2", "to-gw1", ("10.0.12.2/30",), 1)),
            (Port("r2", "to-r3", ("10.0.23.1/30",), 1), Port("r3", "to-r2", ("10.0.23.2/30",), 1)),
            (Port("r3", "to-gw2", ("10.0.34.1/30",), 1), Port("gw2", "wan0", ("10.0.34.2/30",), 1)),
            *((SECOND_LINK,) if uplinks == "one_router" else SECOND_PROVIDER),
            (Port("gw2", "lan0", ("10.2.0.1/24",)), Port("host2", "eth0", ("10.2.0.2/24",))),
        ),
        bridges=("wan",),
        sites=(
            Site(1, "gw1", near, "wan0", site1.lan, site1.lan_address, site1.host_address),
            Site(2, "gw2", far, "wan0", site2.lan, site2.lan_address, site2.host_address),
        ),
        gateways=("gw1", "gw2"),
        default_routes={"host1": "10.1.0.1", "host2": "10.2.0.1"},
        loopbacks={
            "gw1": "10.255.0.1",
            "r2": "10.255.0.2",
            "r3": "10.255.0.3",
            "gw2": "10.255.0.4",
            **({"r5": "10.255.0.5"} if uplinks == "two_routers" else {}),
        },
    )


# The shared addresses, 10.1.0.1 and 192.168.0.1, belong to whom keepalived or the cluster gives them.
REDUNDANT = Topology(
    cables=(
        (Port("host1", "eth0", ("10.1.0.2/24",)), Port("lan", "host1")),
        (Port("lan", "gw1"), Port("gw1", "lan0", ("10.1.0.21/24",))),
        (Port("lan", "gw1b"), Port("gw1b", "lan0", ("10.1.0.22/24",))),
        (Port("gw1", "sync0", ("10.99.0.1/30",)), Port("gw1b", "sync0", ("10.99.0.2/30",))),
        (Port("gw1", "wan0", ("192.168.0.21/24",)), Port("wan", "gw1")),
        (Port("gw1b", "wan0", ("192.168.0.22/24",)), Port("wan", "gw1b")),
        (Port("wan", "gw2"), Port("gw2", "wan0", ("192.168.0.2/24",))),
        (Port("gw2", "lan0", ("10.2.0.1/24",)), Port("host2", "eth0", ("10.2.0.2/24",))),
    ),
    bridges=("lan", "wan"),
    sites=SITES,
    gateways=("gw1", "gw1b", "gw2"),
    default_routes={"host1": "10.1.0.1", "host2": "10.2.0.1"},
    loopbacks={},
)


class Twin(NamespaceNode):
    """The active one of two redundant gateways: a file that is written to it is written to the other, too."""

    other: LabNode

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write the file on both gateways."""
        super().write(path, text, mode)
        self.other.write(path, text, mode)


@contextmanager
def topology_lab(
    topology: Topology,
    image: Image,
    gateway_image: Image | None = None,
    log: Callable[[str], object] | None = None,
    logs: Path | None = None,
) -> Iterator[Lab]:
    """The lab of that shape, cabled and addressed; gone when the block ends. As ``site_to_site.namespace_lab``."""
    started = time.monotonic()
    commands: list[str] = []
    say = log or commands.append
    nodes: dict[str, LabNode] = {}
    try:
        for name in topology.nodes:
            kind = Twin if name == "gw1" and "gw1b" in topology.nodes else NamespaceNode
            root = (gateway_image or image) if name in topology.gateways else image
            nodes[name] = kind(name, root.root, say)
        if isinstance(active := nodes["gw1"], Twin):
            active.other = nodes["gw1b"]
        with damage_told(image, gateway_image):
            for node in nodes.values():
                node.wait_ready()
                if logs is not None:
                    node.log_to(logs)
            lay_cables(topology, nodes, say)
            images = (image, gateway_image or image)
            more = partial(plug_in, nodes, gateway_image or image, say, logs) if "wan" in topology.bridges else None
            yield Lab(nodes, topology.sites, time.monotonic() - started, commands, images=images, plug_in=more)
    finally:
        for node in nodes.values():
            node.release()
        for node in nodes.values():
            node.stop()


def lay_cables(topology: Topology, nodes: Mapping[str, LabNode], say: Callable[[str], object]) -> None:
    """Join the nodes, give every port its addresses, and let everything that is not a host or a bridge forward."""
    lay(nodes, say, [(a.node, a.name, b.node, b.name) for a, b in topology.cables])
    for name, node in nodes.items():
        ports = topology.ports(name)
        joined = ["link add br0 type bridge", "link set br0 up"] if name in topology.bridges else []
        joined += [f"link set {port.name} master br0" for port in ports if name in topology.bridges]
        if name in topology.loopbacks:
            joined.append(f"addr add {topology.loopbacks[name]}/32 dev lo")
        addresses = [f"addr add {address} dev {port.name}" for port in ports for address in port.addresses]
        routes = [f"route add default via {topology.default_routes[name]}"] if name in topology.default_routes else []
        batch(node, *joined, *addresses, *(f"link set {port.name} up" for port in ports), *routes)
        if name in topology.bridges:
            only_bridges(node)
        elif name not in topology.default_routes:
            forwards(node, *(port.name for port in ports))
    for name in (name for name in nodes if name not in topology.bridges):
        congestion.use(nodes[name])


def path(topology: Topology, lab: Lab, source: str, destination: str) -> list[str]:
    """The nodes that a packet passes from the node ``source`` to the address, by their routing tables now.

    It ends early where a router has no route. Raises MeasurementError for a loop.
    """
    route = [source]
    while len(route) <= len(topology.nodes):
        here = lab.nodes[route[-1]]
        reply = here.run("ip", "-o", "route", "get", destination, check=False)
        words = reply.stdout.split()
        if reply.code != 0 or words[:1] == ["local"]:
            return route
        end = topology.across(here.name, words[words.index("dev") + 1])
        if end.node in topology.bridges:  # of two ports, the way out is the other one
            route.append(end.node)
            out = next(port for port in topology.ports(end.node) if port.name != end.name)
            end = topology.across(out.node, out.name)
        route.append(end.node)
    raise MeasurementError(f"the routes from {source} to {destination} are a loop: {', '.join(route)}")
