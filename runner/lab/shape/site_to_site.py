"""The site-to-site lab in namespaces.

    host1 ──── gw1 ════ wan ════ gw2 ──── host2
     10.1.0.0/24   192.168.0.0/24   10.2.0.0/24

The addresses are the thesis' testbed (§3.5). More sites may be on the same WAN (``mesh_sites``), each with a gateway
and a host. The WAN is a node of its own, a bridge, so that capture,
shaping, tampering and cutting never sit on an endpoint.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runner.data.errors import CannotRunHere, LabError, MeasurementError
from runner.lab import machine
from runner.lab.node import LabNode
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.shape import congestion
from runner.lab.shape.site import BarePath, Site
from runner.lab.software.checksums import damage_told
from runner.lab.software.image import Image


def mesh_sites(number: int) -> tuple[Site, ...]:
    """The first ``number`` sites (at most 9) on one WAN: gw3 is 192.168.0.3, in front of 10.3.0.0/24, and so on."""
    return tuple(
        Site(n, f"gw{n}", f"192.168.0.{n}", "wan0", f"10.{n}.0.0/24", f"10.{n}.0.1", f"10.{n}.0.2")
        for n in range(1, number + 1)
    )


SITES = mesh_sites(2)
HOST_TOOLS = {  # what the namespace lab needs on the machine itself: command -> Debian package
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "bash": "bash",
    "ip": "iproute2",
}


@dataclass
class Lab:
    """A running lab: its nodes by name, and its sites in order."""

    nodes: dict[str, LabNode]
    sites: tuple[Site, ...] = SITES
    bring_up_s: float = 0.0
    commands: list[str] = field(default_factory=list)
    kind: str = "netns"
    shared_kernel: bool = True  # do the nodes share the runner's kernel, its CPUs and its /proc?
    path: BarePath | None = None  # between two machines, where the lab has only those
    rtt_s: float = 0.0  # of its path without load, as it was set or seen: whoever waits for packets waits for that, too
    measure_path: Callable[[], BarePath] | None = None  # the same with its rates, which takes some seconds
    # CPU seconds by kind that machines of their own spend in a second without a test; None: not measured yet
    background: Mapping[str, float] | None = None
    hosts_on_gateways: bool = False  # do the machines that are the gateways hold the hosts, too?
    images: tuple[Image, ...] = ()  # what the nodes run, where that is not their own
    # Puts one more node on the WAN, at the address of a site without a network; None: this lab has no place for it.
    plug_in: Callable[[Site], LabNode] | None = None
    helpers: list[Site] = field(default_factory=list)  # the nodes that were so put there

    @property
    def path_loss_ratio(self) -> float:
        """What the path between two machines loses without a VPN, as far as it was seen; 0 in a lab of one's own."""
        return (self.path and self.path.loss_ratio) or 0.0

    @property
    def host1(self) -> LabNode:
        """The near host, behind the first gateway."""
        return self.nodes["host1"]

    @property
    def host2(self) -> LabNode:
        """The far host, behind the second gateway."""
        return self.nodes["host2"]

    @property
    def has_wan(self) -> bool:
        """Is there a machine between the gateways, or only a cable?"""
        return "wan" in self.nodes

    @property
    def wan(self) -> LabNode:
        """The node between the gateways. Raises MeasurementError where there is none."""
        if not self.has_wan:
            raise MeasurementError("this needs a machine between the gateways (wan), and this lab has none")
        return self.nodes["wan"]

    def gateway(self, site: Site) -> LabNode:
        """The node that is the site's gateway."""
        return self.nodes[site.name]


def check_machine() -> None:
    """Raise CannotRunHere if this machine cannot hold a namespace lab; the text says what to do."""
    if os.geteuid() != 0:
        raise CannotRunHere("the namespace lab needs root or a user namespace: see docs/labs.md")
    missing = {tool: package for tool, package in HOST_TOOLS.items() if shutil.which(tool) is None}
    if missing:
        raise CannotRunHere(
            f"missing: {', '.join(missing)}; get it with: apt-get install {' '.join(sorted(set(missing.values())))}"
        )
    if wrong := machine.no_capability(machine.CAPABILITIES) or machine.no_limits() or machine.few_descriptors():
        raise CannotRunHere(wrong)


@contextmanager
def namespace_lab(
    image: Image,
    gateway_image: Image | None = None,
    log: Callable[[str], object] | None = None,
    logs: Path | None = None,
    sites: tuple[Site, ...] = SITES,
) -> Iterator[Lab]:
    """Five nodes, cabled and addressed; gone, with all that runs in them, when the block ends. Each site after the
    second adds two nodes.

    Hosts and WAN run ``image``, the gateways ``gateway_image``. ``log`` gets every command as
    ``[node] argv``. Raises LabError when the kernel refuses.
    """
    started = time.monotonic()
    commands: list[str] = []
    say = log or commands.append
    nodes: dict[str, LabNode] = {}
    try:
        names = [f"{kind}{site.number}" for site in sites for kind in ("host", "gw")]
        for name in ("host1", "gw1", "wan", *reversed(names[2:4]), *names[4:]):
            root = (gateway_image or image) if name.startswith("gw") else image
            nodes[name] = NamespaceNode(name, root.root, say)
        with damage_told(image, gateway_image):
            for node in nodes.values():
                node.wait_ready()
                if logs is not None:
                    node.log_to(logs)
            cable(nodes, say, sites)
            images, more = (image, gateway_image or image), partial(plug_in, nodes, gateway_image or image, say, logs)
            yield Lab(nodes, sites, time.monotonic() - started, commands, images=images, plug_in=more)
    finally:
        for node in nodes.values():
            node.release()
        for node in nodes.values():
            node.stop()


def cable(nodes: dict[str, LabNode], say: Callable[[str], object], sites: tuple[Site, ...] = SITES) -> None:
    """Lay two cables for each site straight into the nodes, then ``address`` them."""
    cables = [
        cable
        for site in sites
        for cable in ((f"host{site.number}", "eth0", site.name, "lan0"), (site.name, "wan0", "wan", site.name))
    ]
    lay(nodes, say, cables)
    address(nodes, sites)


def lay(
    nodes: Mapping[str, LabNode], say: Callable[[str], object], cables: Iterable[tuple[str, str, str, str]]
) -> None:
    """Lay cables between ports of nodes: node, port, node, port. Raises LabError."""
    lines = ""
    for a, a_name, b, b_name in cables:
        say(f"[{a}] ip link add {a_name} type veth peer name {b_name} netns {b}")
        lines += f"link add {a_name} netns {nodes[a].pid} type veth peer name {b_name} netns {nodes[b].pid}\n"
    # Only the WAN's network namespace is entered, to keep the names off the host: in its PID namespace the
    # other nodes would have no PID.
    done = subprocess.run(
        ["nsenter", "-t", str(nodes["wan"].pid), "--net", "ip", "-batch", "-"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"the nodes cannot be connected: {done.stderr.strip()}")


def plug_in(
    nodes: dict[str, LabNode], image: Image, say: Callable[[str], object], logs: Path | None, me: Site
) -> LabNode:
    """Put one more node on the WAN's bridge, which goes with the others. Raises LabError."""
    node = nodes[me.name] = NamespaceNode(me.name, image.root, say)
    node.wait_ready()
    if logs is not None:
        node.log_to(logs)
    lay(nodes, say, [(me.name, me.wan_interface, "wan", me.name)])
    batch(nodes["wan"], f"link set {me.name} master br0 up")
    if me.path_version == 6:  # as over_ipv6
        node.run("sysctl", "-qw", *(f"net.ipv6.conf.{port}.disable_ipv6=0" for port in ("all", me.wan_interface)))
    here = f"{me.wan_address}/64 nodad" if me.path_version == 6 else f"{me.wan_address}/24"
    batch(node, f"addr add {here} dev {me.wan_interface}", f"link set {me.wan_interface} up")
    congestion.use(node)
    return node


def address(nodes: Mapping[str, LabNode], sites: tuple[Site, ...] = SITES) -> None:
    """Give every interface its address, the hosts their route, all their congestion control, and the WAN, if it is a
    node, its bridge."""
    if "wan" in nodes:
        only_bridges(nodes["wan"])
        batch(
            nodes["wan"],
            *("link add br0 type bridge", "link set br0 up"),
            *(f"link set {site.name} master br0 up" for site in sites),
        )
    for site in sites:
        gateway, host = nodes[site.name], f"host{site.number}"
        forwards(gateway, "lan0", site.wan_interface)
        batch(
            gateway,
            f"addr add {site.lan_address}/{site.lan_prefix} dev lan0",
            f"addr add {site.wan_address}/24 dev {site.wan_interface}",
            "link set lan0 up",
            f"link set {site.wan_interface} up",
        )
        batch(
            nodes[host],
            f"addr add {site.host_address}/{site.lan_prefix} dev eth0",
            "link set eth0 up",
            f"route add default via {site.lan_address}",
        )
    for node in (nodes[name] for site in sites for name in (site.name, f"host{site.number}")):
        congestion.use(node)


def over_ipv6(lab: Lab) -> None:
    """Give the gateways addresses of IPv6 on the WAN, of the prefix for documentation (RFC 3849), in the place of
    those of IPv4. The sites' networks stay."""
    over = tuple(replace(site, wan_address=f"2001:db8::{site.number}") for site in lab.sites)
    for before, site in zip(lab.sites, over, strict=True):
        gateway, port = lab.gateway(site), site.wan_interface
        # A machine that has IPv6 off may hand that on to new namespaces.
        on = (f"net.ipv6.conf.{name}.disable_ipv6=0" for name in ("all", port))
        gateway.run("sysctl", "-qw", *on, f"net.ipv6.conf.{port}.keep_addr_on_down=1")  # as IPv4's are kept
        batch(
            gateway,
            f"addr del {before.wan_address}/24 dev {port}",
            # Plain IP asks for its next hop from this address: the port's own is still being tried (RFC 4862 §5.4).
            f"addr add fe80::{site.number}/64 dev {port} nodad",
            f"addr add {site.wan_address}/64 dev {port} nodad",
        )
    lab.sites = over


def only_bridges(node: LabNode) -> None:
    """Let a node's bridge pass packets on, and nothing else. Where the machine has br_netfilter, as with Docker, each
    new namespace begins with the IP firewall at its bridges, which costs every packet time."""
    off = (f"net.bridge.bridge-nf-call-{kind}=0" for kind in ("iptables", "ip6tables", "arptables"))
    node.run("sysctl", "-qew", *off, check=False)  # -e: where it is not there, nothing is to be done


def forwards(gateway: LabNode, *ports: str) -> None:
    """Let a gateway forward packets, whatever way they come: a namespace begins with the machine's rp_filter, and the
    stricter one of "all" and of a port counts (ip-sysctl.rst)."""
    loose = (f"net.ipv4.conf.{port}.rp_filter=0" for port in ("all", "default", *ports))
    gateway.run("sysctl", "-qw", "net.ipv4.ip_forward=1", *loose)


def check_alive(lab: Lab) -> None:
    """Raise LabError if a node is gone: the lab is broken, whatever the VPN does."""
    if lost := [why for node in lab.nodes.values() if (why := node.why_ended())]:
        raise LabError("; ".join(lost))


def batch(node: LabNode, *lines: str) -> None:
    """Several ip(8) commands in one process: a node's command costs 4 ms here, far more in a guest kernel."""
    for line in lines:
        node.log(f"[{node.name}] ip {line}")
    node.run("ip", "-batch", "-", input="\n".join(lines) + "\n")
