"""Reroute: OSPF carries the tunnel over another path when a link dies (the Quagga paper, Section V).

FRR's zebra, ospfd and bfdd on the routers of ``topologies.ospf``; the networks behind the gateways are not in OSPF, so
that nothing but the tunnel joins them. Or static routes, and what VPN and kernel can do without a routing daemon.
Sources: docs.frrouting.org (zebra, ospfd, bfd), RFC 2328 (OSPF), RFC 5880 (BFD), RFC 6412 (convergence).
"""

from __future__ import annotations

from collections.abc import Callable

from runner.data.errors import MeasurementError
from runner.instruments.failures.stream import Break
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.shape.topologies import Topology, path

FRR = "/usr/lib/frr"
DAEMONS = ("mgmtd", "zebra", "bfdd", "ospfd")
CONVERGED_WITHIN_S = 60.0  # default hellos need about 20
FIRST = ["gw1", "wan", "r2", "r3", "gw2"]
# How a router notices a dead neighbour -> ospfd's lines for an interface, the timers in words, and over how many
# seconds a random moment of failure has to be spread: the period of the hellos.
DETECTIONS: dict[str, tuple[tuple[str, ...], str, float]] = {
    "default": ((), "OSPF hello 10 s, dead 40 s (RFC 2328 §C.3)", 10.0),
    "hello": (("ip ospf hello-interval 1", "ip ospf dead-interval 4"), "OSPF hello 1 s, dead 4 s", 1.0),
    "minimal_hello": (
        ("ip ospf dead-interval minimal hello-multiplier 4",),
        "OSPF hello 250 ms, dead 1 s (minimal)",
        0.25,
    ),
    "bfd": (
        ("ip ospf hello-interval 1", "ip ospf dead-interval 4", "ip ospf bfd"),
        "BFD 300 ms, 3 times; OSPF hello 1 s, dead 4 s",
        0.3,
    ),
    "static": ((), "no routing daemon: static routes, the gateway's second one with a higher metric", 1.0),
}
# Without a routing daemon, where both links end at r2, and what is different with a second provider.
STATIC = {
    "gw1": ("default via 10.0.12.2 metric 10", "default via 10.0.15.2 metric 20"),
    "r2": ("10.0.34.0/30 via 10.0.23.2",),
    "r3": ("10.0.12.0/30 via 10.0.23.1", "10.0.15.0/30 via 10.0.23.1"),
    "gw2": ("default via 10.0.34.1",),
}
SECOND_PROVIDER = {"r5": ("10.0.34.0/30 via 10.0.45.2",), "gw2": (*STATIC["gw2"], "10.0.15.0/30 via 10.0.45.1")}


def start_routing(topology: Topology, lab: Lab, detection: str) -> None:
    """Start FRR on every router, or set static routes. Wait until the tunnel's ends reach each other by the first path.

    Raises TimeoutError where they never do, and MeasurementError where the image has no FRR.
    """
    static = STATIC | (SECOND_PROVIDER if "r5" in topology.loopbacks else {})
    for name in topology.loopbacks:
        node = lab.nodes[name]
        # Else the kernel's own route to the network of a link without carrier comes before others (ip-sysctl.rst). On
        # a gateway this also ends strongSwan's route to the far site, which leads over that link and is needed until
        # ESP's own packets are routed anew; a static default route stands in for it.
        if detection == "static" or name not in topology.gateways:
            node.run("sysctl", "-qw", "net.ipv4.conf.all.ignore_routes_with_linkdown=1")
        if detection == "static":
            batch(node, *(f"route add {route}" for route in static[name]))
        else:
            _start(topology, node, name, detection, lab.sites)
    wait_until(lambda: paths(topology, lab) == (FIRST, FIRST[::-1]), "OSPF's first convergence", CONVERGED_WITHIN_S)


def _start(topology: Topology, node: LabNode, name: str, detection: str, sites: tuple[Site, ...]) -> None:
    if node.run("test", "-x", f"{FRR}/ospfd", check=False).code != 0:
        raise MeasurementError(f"{name} has no FRR (Debian: apt-get install frr)")
    node.run("install", "-d", "-o", "frr", "-g", "frr", "/run/frr", "/var/tmp/frr")
    ends = {site.name: site.wan_address for site in sites}
    node.write("/etc/frr/frr.conf", configuration(topology, name, detection, ends.get(name)), mode=0o644)
    installed = node.run("ls", FRR).stdout.split()
    daemons = [daemon for daemon in DAEMONS if daemon in installed]  # FRR before 10 has no mgmtd
    for daemon in daemons:
        node.spawn(f"{FRR}/{daemon}", "--log", "stdout", log=daemon)
    sockets = [f"/run/frr/{daemon}.vty" for daemon in daemons]
    wait_until(lambda: node.run("ls", *sockets, check=False).code == 0, f"FRR's daemons on {name}")
    node.run("vtysh", "-b")


def configuration(topology: Topology, name: str, detection: str, end: str | None) -> str:
    """A router's frr.conf. ``end``: the tunnel's address, where the router is a gateway; its own packets have it as
    their source. If it is a link's address, that link counts as up without carrier, as in Quagga by default."""
    lines, _, _ = DETECTIONS[detection]
    config = f"hostname {name}\n"
    if end:
        config += f"route-map END permit 10\n set src {end}\nexit\nip protocol ospf route-map END\n"
    config += "interface lo\n ip ospf area 0\nexit\n"
    for port in topology.ports(name):
        if port.cost:
            options = ["ip ospf area 0", "ip ospf network point-to-point", f"ip ospf cost {port.cost}", *lines]
            if f"{end}/30" in port.addresses and name == "gw1":
                options.append("no link-detect")
            config += f"interface {port.name}\n" + "".join(f" {option}\n" for option in options) + "exit\n"
    return config + f"router ospf\n ospf router-id {topology.loopbacks[name]}\nexit\n"


def paths(topology: Topology, lab: Lab) -> tuple[list[str], list[str]]:
    """The routers between the tunnel's ends, there and back."""
    near, far = lab.sites[0], lab.sites[-1]
    return path(topology, lab, near.name, far.wan_address), path(topology, lab, far.name, near.wan_address)


def kill_link(lab: Lab, how: str) -> Break:
    """The function that cuts the link gw1–r2. ``carrier``: both ends lose it; ``silent``: neither does, as behind a
    switch."""
    commands = ("link set gw1 down", "link set r2 down") if how == "carrier" else ("link set gw1 nomaster",)

    def kill(note: Callable[[str], None]) -> None:
        note(f"the link gw1–r2 dies ({how})")
        batch(lab.wan, *commands)

    return kill
