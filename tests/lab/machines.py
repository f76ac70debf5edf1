"""Five machines with sshd, as a user's testbed would be: namespace nodes on a management network of their own.

The runner reaches them through ``ProxyCommand``, since nothing of them is on this machine's network.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from runner.lab.node import Completed, LabNode, wait_until
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.software.image import Image

NAMES = ("host1", "gw1", "wan", "gw2", "host2")
CABLES = (
    ("host1", "ens1", "gw1", "ens1"),
    ("gw1", "ens2", "wan", "ens1"),
    ("gw2", "ens2", "wan", "ens2"),
    ("gw2", "ens1", "host2", "ens1"),
)
PORTS = {
    "host1": {"lan": "ens1"},
    "gw1": {"lan": "ens1", "wan": "ens2"},
    "wan": {"gw1": "ens1", "gw2": "ens2"},
    "gw2": {"lan": "ens1", "wan": "ens2"},
    "host2": {"lan": "ens1"},
}


class Asked(Protocol):
    """A machine, as those see it who only look."""

    def run(self, *argv: str, check: bool = True) -> Completed: ...


class Machines:
    """The machines by name, the switch of their management network, and the inventory that describes them."""

    def __init__(self, nodes: dict[str, LabNode], switch: LabNode, folder: Path) -> None:
        self.nodes, self.switch, self.folder = nodes, switch, folder

    def inventory(self, *without: str, **changes: dict[str, object]) -> Path:
        """Write an inventory of all machines but ``without``; ``changes`` maps a machine to changed keys."""
        lines = []
        for number, name in enumerate(NAMES, 1):
            if name in without:
                continue
            proxy = f"nsenter -t {self.switch.pid} -a socat - TCP:10.99.0.{number}:22,connect-timeout=3"
            table: dict[str, object] = {
                "address": f"10.99.0.{number}",
                "user": "root",
                "identity": "key",
                **PORTS[name],
            }
            options = {"ProxyCommand": proxy, "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in {**table, **changes.get(name, {})}.items()]
            lines += [f"options.{key} = {json.dumps(value)}" for key, value in options.items()]
        path = self.folder / "inventory.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def snapshot(self) -> dict[str, list[str]]:
        """All that a lab could have left changed on each machine."""
        return {name: state(node) for name, node in self.nodes.items()}


def state(node: Asked) -> list[str]:
    """A machine's interfaces, addresses, routes, neighbours, sysctls, rules, qdiscs, mounts and processes."""
    links = json.loads(node.run("ip", "-d", "-j", "addr", "show").stdout)
    for link in links:
        # The numbers, which a move may change, and what counts down by itself.
        for key in ("ifindex", "link_index", "link_netnsid"):
            link.pop(key, None)
        for found in link["addr_info"]:
            found.pop("valid_life_time"), found.pop("preferred_life_time")
    links.sort(key=lambda link: str(link["ifname"]))
    said = [json.dumps(link) for link in links]
    for argv in (
        ("ip", "route", "show", "table", "all"),
        ("ip", "-6", "route", "show", "table", "all"),
        ("ip", "rule"),
        ("ip", "neigh", "show", "nud", "permanent"),
        ("ip", "xfrm", "policy"),
        ("ip", "netns"),
        ("nft", "-s", "list", "ruleset"),  # without counters
        ("tc", "qdisc", "show"),
        ("cat", "/proc/mounts"),
        ("sysctl", "-a", "-r", r"^net\.ipv[46]\.(conf|neigh|ip_forward)"),
        ("ls", "-A", "/etc", "/etc/swanctl/conf.d", "/etc/openvpn", "/run", "/tmp", "/root"),
    ):
        lines = node.run(*argv, check=False).stdout.splitlines()
        # /run/motd.dynamic is the login's own, /run/sudo is sudo's.
        said += sorted(f"{argv[0]} {line.strip()}" for line in lines if line not in ("motd.dynamic", "sudo"))
    running = node.run("ps", "axo", "args").stdout.splitlines()
    # sshd's own children, of a connection that has just ended, may take a moment more; udev's workers come and go.
    return said + sorted(line for line in running if not line.startswith(("sshd", "ps ", "[", "(udev-worker)")))


@contextmanager
def machines(image: Image, folder: Path, gateway_root: str = "") -> Iterator[Machines]:
    """Bring the machines up with sshd, a key for root, and set-ups of their own on the ports that a lab borrows.

    ``gateway_root``: the root file system of the gateways, instead of the image's.
    """
    every: dict[str, LabNode] = {}
    try:
        for name in (*NAMES, "switch"):
            root = gateway_root if gateway_root and name.startswith("gw") else str(image.root)
            every[name] = NamespaceNode(name, Path(root))
        for node in every.values():
            node.wait_ready()
            node.log_to(folder)
        switch, nodes = every["switch"], {name: every[name] for name in NAMES}
        _cable(nodes, switch)
        switch.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/key")
        key = folder / "key"
        key.touch(0o600)
        key.write_text(switch.run("cat", "/root/key").stdout)
        for node in nodes.values():
            node.write("/root/.ssh/authorized_keys", switch.run("cat", "/root/key.pub").stdout)
            node.run("ssh-keygen", "-A")
            node.spawn("/usr/sbin/sshd", "-D", "-e", log="sshd")
        for node in nodes.values():
            wait_until(lambda node=node: ":22 " in node.run("ss", "-Hltn").stdout, "sshd listening")  # type: ignore[misc]
        yield Machines(nodes, switch, folder)
    finally:
        for node in every.values():
            node.release()
        for node in every.values():
            node.stop()


def _cable(nodes: dict[str, LabNode], switch: LabNode) -> None:
    """The management network, the cables, and what the ports are used for outside of the lab."""
    lines = ["link add br0 type bridge"]
    for name in NAMES:
        lines += [f"link add {name} type veth peer name ens0 netns {nodes[name].pid}", f"link set {name} master br0 up"]
    lines += [
        f"link add {a_name} netns {nodes[a].pid} type veth peer name {b_name} netns {nodes[b].pid}"
        for a, a_name, b, b_name in CABLES
    ]
    argv = ["nsenter", "-t", str(switch.pid), "--net", "ip", "-batch", "-"]
    subprocess.run(argv, input="\n".join(lines), text=True, check=True, timeout=30)
    switch.run("ip", "link", "set", "br0", "up")
    switch.run("ip", "addr", "add", "10.99.0.254/24", "dev", "br0")
    for number, name in enumerate(NAMES, 1):
        node = nodes[name]
        node.run("ip", "addr", "add", f"10.99.0.{number}/24", "dev", "ens0")
        node.run("ip", "link", "set", "ens0", "up")
        node.run("ip", "route", "add", "default", "via", "10.99.0.254")
        if name == "wan":
            continue
        # On the LAN cables something else is going on already; the WAN cables are down, as they would be found.
        node.run("ip", "link", "set", "ens1", "mtu", "1400", "up")
        node.run("ip", "addr", "add", f"172.16.{number}.1/24", "brd", "+", "dev", "ens1")
        node.run("ip", "addr", "add", f"172.16.{number}.9/24", "dev", "ens1")
        node.run("ip", "addr", "add", f"fd00:{number}::1/64", "dev", "ens1", "nodad")
        node.run("ip", "route", "add", "172.30.0.0/16", "via", f"172.16.{number}.254", "metric", "77")
        node.run("ip", "-6", "route", "add", "fd77::/64", "via", f"fd00:{number}::2")
        neighbour = ("ip", "neigh", "add", f"172.16.{number}.254", "lladdr", "02:00:00:00:00:01")
        node.run(*neighbour, "nud", "permanent", "dev", "ens1")
        node.run("sysctl", "-qw", "net.ipv4.conf.ens1.proxy_arp=1", "net.ipv4.conf.ens1.rp_filter=2")
