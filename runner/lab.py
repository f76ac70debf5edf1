"""The site-to-site lab in namespaces.

    host1 ──── gw1 ════ wan ════ gw2 ──── host2
     10.1.0.0/24   192.168.0.0/24   10.2.0.0/24

The addresses are the thesis' testbed (§3.5). The WAN is a node of its own, a bridge, so that capture,
shaping, tampering and cutting never sit on an endpoint.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import CannotRunHere, LabError
from runner.image import Image
from runner.node import NamespaceNode
from runner.plugin import Site

SITES = (
    Site(1, "gw1", "192.168.0.1", "wan0", "10.1.0.0/24", "10.1.0.1", "10.1.0.2"),
    Site(2, "gw2", "192.168.0.2", "wan0", "10.2.0.0/24", "10.2.0.1", "10.2.0.2"),
)
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

    nodes: dict[str, NamespaceNode]
    sites: tuple[Site, ...] = SITES
    bring_up_s: float = 0.0
    commands: list[str] = field(default_factory=list)

    @property
    def host1(self) -> NamespaceNode:
        return self.nodes["host1"]

    @property
    def host2(self) -> NamespaceNode:
        return self.nodes["host2"]

    @property
    def wan(self) -> NamespaceNode:
        return self.nodes["wan"]

    def gateway(self, site: Site) -> NamespaceNode:
        return self.nodes[site.name]


def check_machine() -> None:
    """Raise CannotRunHere if this machine cannot hold a namespace lab; the text says what to do."""
    if os.geteuid() != 0:
        raise CannotRunHere("the namespace lab needs root: run the same command with sudo")
    missing = {tool: package for tool, package in HOST_TOOLS.items() if shutil.which(tool) is None}
    if missing:
        raise CannotRunHere(
            f"missing: {', '.join(missing)}; get it with: apt-get install {' '.join(sorted(set(missing.values())))}"
        )


@contextmanager
def namespace_lab(
    image: Image,
    gateway_image: Image | None = None,
    log: Callable[[str], None] | None = None,
    logs: Path | None = None,
) -> Iterator[Lab]:
    """Five nodes, cabled and addressed; gone, with all that runs in them, when the block ends.

    Hosts and WAN run ``image``, the gateways ``gateway_image``. ``log`` gets every command as
    ``[node] argv``. Raises LabError when the kernel refuses.
    """
    started = time.monotonic()
    commands: list[str] = []
    say = log or commands.append
    nodes: dict[str, NamespaceNode] = {}
    try:
        for name in ("host1", "gw1", "wan", "gw2", "host2"):
            root = (gateway_image or image) if name.startswith("gw") else image
            nodes[name] = NamespaceNode(name, root.root, say)
        for node in nodes.values():
            node.wait_ready()
            if logs is not None:
                node.log_to(logs)
        cable(nodes, say)
        yield Lab(nodes, SITES, time.monotonic() - started, commands)
    finally:
        for node in nodes.values():
            node.stop()


def cable(nodes: dict[str, NamespaceNode], say: Callable[[str], None]) -> None:
    """Lay the four cables straight into the nodes, and give every interface its address."""
    veth(nodes["host1"], "eth0", nodes["gw1"], "lan0", say)
    veth(nodes["gw1"], "wan0", nodes["wan"], "gw1", say)
    veth(nodes["gw2"], "wan0", nodes["wan"], "gw2", say)
    veth(nodes["gw2"], "lan0", nodes["host2"], "eth0", say)

    batch(nodes["wan"], "link add br0 type bridge", "link set br0 up")
    for port in ("gw1", "gw2"):
        batch(nodes["wan"], f"link set {port} master br0", f"link set {port} up")
    for site, host in zip(SITES, ("host1", "host2"), strict=True):
        gateway = nodes[site.name]
        gateway.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
        batch(
            gateway,
            f"addr add {site.lan_address}/24 dev lan0",
            f"addr add {site.wan_address}/24 dev {site.wan_interface}",
            "link set lan0 up",
            f"link set {site.wan_interface} up",
        )
        batch(
            nodes[host],
            f"addr add {site.host_address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {site.lan_address}",
        )


def veth(a: NamespaceNode, a_name: str, b: NamespaceNode, b_name: str, say: Callable[[str], None]) -> None:
    """A cable from interface ``a_name`` of node ``a`` to ``b_name`` of ``b``; never seen by the host."""
    say(f"[{a.name}] ip link add {a_name} type veth peer name {b_name} netns {b.name}")
    # Only the network namespace is entered: in the node's PID namespace the other node has no PID.
    done = subprocess.run(
        [
            *("nsenter", "-t", str(a.pid), "--net", "ip", "link", "add", a_name),
            *("type", "veth", "peer", "name", b_name, "netns", str(b.pid)),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"no cable from {a.name} to {b.name}: {done.stderr.strip()}")


def batch(node: NamespaceNode, *lines: str) -> None:
    """Several ip(8) commands in one process: a node's command costs 4 ms here, far more in a guest kernel."""
    for line in lines:
        node.log(f"[{node.name}] ip {line}")
    node.run("ip", "-batch", "-", input="\n".join(lines) + "\n")


def facts(lab: Lab) -> dict[str, Any]:
    """What this lab is: kernel, CPU, cores, memory, clock source, steal time, offloads and MTU of the cables."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    fields = dict(
        (part.strip() for part in line.split(":", 1)) for line in cpuinfo.split("\n\n")[0].splitlines() if ":" in line
    )
    flags = fields.get("flags", "").split()
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    offloads = lab.gateway(lab.sites[0]).run("ethtool", "-k", lab.sites[0].wan_interface, check=False).stdout
    wanted = (
        "tcp-segmentation-offload",
        "generic-receive-offload",
        "tx-checksumming",
        "generic-segmentation-offload",
    )
    return {
        "kind": "netns",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": fields.get("model name", "unknown"),
        "cpu_flags": [flag for flag in ("aes", "avx2", "avx512f", "vaes", "sha_ni", "pclmulqdq") if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "clock_source": clock.read_text().strip() if clock.exists() else "unknown",
        "nodes_share_cores": True,
        "wan_mtu": 1500,
        "wan_offloads": {
            name: state.split()[0]
            for name, _, state in (line.strip().partition(":") for line in offloads.splitlines())
            if name in wanted and state
        },
        "bring_up_s": round(lab.bring_up_s, 3),
    }
