"""Two machines with sshd and one port each, and a path between them: a NAT before the first, a router, MTU 1400.

    gw1 10.0.0.2 ── 10.0.0.1 nat 203.0.113.1 ══ MTU 1400 ══ 203.0.113.2 router 198.51.100.1 ── 198.51.100.2 gw2

The runner reaches both through ``ProxyCommand``, over the same port that the path uses. If it is asked for, there is a
host of its own behind each gateway, on the site's real network, which the runner reaches through the gateway:

    host1 10.1.0.5 ── ens1 10.1.0.1 gw1          gw2 10.2.0.1 ens1 ── 10.2.0.5 host2
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.data.wan import Conditions
from runner.lab import probes
from runner.lab.node import LabNode, wait_until
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.shape.site import bracket_address
from runner.lab.shape.wan import bucket_bytes, queue_bytes
from runner.lab.software.image import Image
from tests.lab.machines import Asked, Machines, state

BOXES = {"gw1": "10.0.0.2", "gw2": "198.51.100.2"}
HOSTS = {"host1": "10.1.0.5", "host2": "10.2.0.5"}
OWN_IPV6 = {"gw1": "2001:db8:1::2", "gw2": "2001:db8:3::2"}
BESIDE = {"gw1": "nat", "gw2": "router", "host1": "gw1", "host2": "gw2"}  # who shares a network with it
NAT = """table ip nat {
    chain postrouting {
        type nat hook postrouting priority srcnat; policy accept;
        oifname "out" masquerade
    }
}
"""
SECOND_NAT = """table ip second_nat {
    chain prerouting {
        type nat hook prerouting priority dstnat; policy accept;
        iifname "wan" ip daddr 203.0.113.2 udp dport { %s } dnat to 198.51.100.2
    }
    chain postrouting {
        type nat hook postrouting priority srcnat; policy accept;
        oifname "wan" ip saddr 198.51.100.2 masquerade
    }
}
"""
OWN_FIREWALL = """table inet mine {
    chain input {
        type filter hook input priority filter; policy accept;
        tcp dport 9999 drop
    }
}
"""
FILES = ("find", "/etc", "/root", "/var/lib", "/usr/local", "/opt", "-xdev", "-printf", "%p %T@ %s\\n")
CACHED = ("find", "/var/cache", "-xdev", "-type", "f", "-printf", "%p %T@ %s\\n")  # where an image is sent to


class TwoSites(Machines):
    """The boxes by name, and the inventory that describes them."""

    def __init__(self, nodes: dict[str, LabNode], between: dict[str, LabNode], folder: Path) -> None:
        super().__init__(nodes, between["router"], folder)
        self.between = between

    def sites(self, changes: dict[str, dict[str, object]] | None = None, top: str = "", sshd: int = 22) -> Path:
        """Write the inventory; ``changes`` maps a gateway to changed keys, None for a key that is left out. ``sshd``:
        the port of the daemon that the runner asks."""
        lines = [top]
        for name in self.nodes:
            table: dict[str, object] = {"address": {**BOXES, **HOSTS}[name], "user": "root", "identity": "key"}
            table |= {"public_address": "203.0.113.1"} if name == "gw1" else {}
            if "host1" in self.nodes:
                table |= {"lan_port": "ens1" if name in BOXES else "ens0"}
            table |= (changes or {}).get(name, {})
            beside = {**self.between, **self.nodes}[BESIDE[name]].pid
            proxy = (
                f"nsenter -t {beside} -a socat - TCP:{bracket_address(str(table['address']))}:{sshd},connect-timeout=3"
            )
            options = {"ProxyCommand": proxy, "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
            told = {key: value for key, value in table.items() if value is not None}
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in told.items()]
            lines += [f"options.{key} = {json.dumps(value)}" for key, value in options.items()]
        path = self.folder / "sites.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    @contextmanager
    def nat_before_gw2(self, udp_ports: Sequence[int]) -> Iterator[dict[str, dict[str, object]]]:
        """The router is a NAT, too, and forwards these ports to gw2; what the inventory says of that."""
        router = self.between["router"]
        router.run("nft", "-f", "-", input=SECOND_NAT % ", ".join(map(str, udp_ports)))
        try:
            yield {"gw2": {"public_address": "203.0.113.2", "forwards": [f"udp/{port}" for port in udp_ports]}}
        finally:
            router.run("nft", "delete", "table", "ip", "second_nat")

    def stretch(self, line: Conditions) -> None:
        """Make the path between NAT and router as long, lossy and slow as ``line``, for good."""
        nat, router = self.between["nat"], self.between["router"]
        for node, port in ((nat, "out"), (router, "wan")):
            node.run("ethtool", "-K", port, "tx", "off", "tso", "off", "gso", "off")
        for command in (
            ("link", "set", "wan", "down"),
            ("link", "set", "wan", "name", "line"),
            ("link", "add", "wan", "mtu", "1400", "type", "veth", "peer", "name", "line-end"),
            ("addr", "flush", "dev", "line"),
            ("addr", "add", "203.0.113.2/24", "dev", "wan"),
            *(("link", "set", port, "up") for port in ("line", "line-end", "wan")),
        ):
            router.run("ip", *command)
        router.run("ethtool", "-K", "wan", "tx", "off", "tso", "off", "gso", "off")
        assert line.rate_bps
        for node, port in ((nat, "out"), (router, "wan")):
            sizes = ("burst", str(bucket_bytes(line)), "limit", str(queue_bytes(line)))
            rate = ("tbf", "rate", f"{int(line.rate_bps)}bit", *sizes)
            node.run("tc", "qdisc", "add", "dev", port, "root", *rate)
        router.write("/run/distance.py", probes.source("distance"), mode=0o644)
        conditions = (f"{value:g}" for value in (line.delay_ms, line.jitter_ms, line.loss_ratio))
        router.spawn("python3", "-IS", "/run/distance.py", "line", "line-end", *conditions, log="distance")
        wait_until(lambda: "far apart" in router.read_log("distance"), "the line's length")
        ping = ("ping", "-c1", "-W3", "203.0.113.2")
        wait_until(lambda: nat.run(*ping, check=False).code == 0, "a ping over the line", deadline_s=60)

    def snapshot(self) -> dict[str, list[str]]:
        """All that a lab could have left changed on each machine, files included."""
        return {name: whole_state(node) for name, node in self.nodes.items()}


def whole_state(node: Asked) -> list[str]:
    """What ``machines.state`` has, every sysctl of the network, the rules and policies of both families, and files."""
    said = state(node)
    for argv in (
        ("ip", "-6", "rule"),
        ("ip", "xfrm", "policy"),
        ("ip", "xfrm", "state", "count"),
        ("sysctl", "-a", "-r", r"^net\."),
        FILES,
        CACHED,
    ):
        lines = node.run(*argv, check=False).stdout.splitlines()
        said += sorted(f"{argv[0]} {line.strip()}" for line in lines if "nf_conntrack_count" not in line)
    return said


@contextmanager
def two_sites(image: Image, folder: Path, *, hosts: bool = False, root: str = "") -> Iterator[TwoSites]:
    """Bring both boxes and what is between them up, with sshd, a key for root, and settings of the boxes' own.
    ``hosts``: of their own, behind the gateways. ``root``: the boxes' own file system; default: the image."""
    every: dict[str, LabNode] = {}
    ours = {**BOXES, **(HOSTS if hosts else {})}
    try:
        for name in (*ours, "nat", "router"):
            every[name] = NamespaceNode(name, Path(root) if root and name in ours else image.root)
        for node in every.values():
            node.wait_ready()
            node.log_to(folder)
        _connect(every)
        if hosts:
            _connect_hosts(every)
        nat = every["nat"]
        nat.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/key")
        key = folder / "key"
        key.touch(0o600)
        key.write_text(nat.run("cat", "/root/key").stdout)
        for name in ours:
            box = every[name]
            box.write("/root/.ssh/authorized_keys", nat.run("cat", "/root/key.pub").stdout)
            box.run("ssh-keygen", "-A")
            box.spawn("/usr/sbin/sshd", "-D", "-e", "-o", "MaxStartups=100", log="sshd")
            wait_until(lambda box=box: ":22 " in box.run("ss", "-Hltn").stdout, "sshd listening")  # type: ignore[misc]
        yield TwoSites({name: every[name] for name in ours}, {name: every[name] for name in ("nat", "router")}, folder)
    finally:
        for node in every.values():
            node.release()
        for node in every.values():
            node.stop()


def _connect(nodes: dict[str, LabNode]) -> None:
    """The cables, addresses, routes and the NAT; and what the boxes have of their own, which must stay."""
    cables = (("gw1", "ens0", "nat", "in"), ("nat", "out", "router", "wan"), ("router", "lan", "gw2", "ens0"))
    lines = [
        f"link add {a_name} netns {nodes[a].pid} type veth peer name {b_name} netns {nodes[b].pid}"
        for a, a_name, b, b_name in cables
    ]
    argv = ["nsenter", "-t", str(nodes["router"].pid), "--net", "ip", "-batch", "-"]
    subprocess.run(argv, input="\n".join(lines), text=True, check=True, timeout=30)
    for name, port, address, mtu in (
        ("gw1", "ens0", "10.0.0.2/24", 1500),
        ("nat", "in", "10.0.0.1/24", 1500),
        ("nat", "out", "203.0.113.1/24", 1400),
        ("router", "wan", "203.0.113.2/24", 1400),
        ("router", "lan", "198.51.100.1/24", 1500),
        ("gw2", "ens0", "198.51.100.2/24", 1500),
    ):
        nodes[name].run("ip", "addr", "add", address, "dev", port)
        nodes[name].run("ip", "link", "set", port, "mtu", str(mtu), "up")
    for name, gateway in (("gw1", "10.0.0.1"), ("nat", "203.0.113.2"), ("gw2", "198.51.100.1")):
        nodes[name].run("ip", "route", "add", "default", "via", gateway)
    for name in ("nat", "router"):
        nodes[name].run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    nodes["nat"].run("nft", "-f", "-", input=NAT)
    for name, address in BOXES.items():
        box = nodes[name]
        box.run("nft", "-f", "-", input=OWN_FIREWALL)
        box.run("ip", "addr", "add", "fd00:77::1/64", "dev", "ens0", "nodad")
        box.run("ip", "rule", "add", "from", address, "to", "172.30.0.0/16", "table", "77", "pref", "7000")
        box.run("ip", "route", "add", "172.30.0.0/16", "dev", "ens0", "table", "77")
        box.run("ip", "route", "add", "blackhole", "172.31.0.0/16")
        box.run("sysctl", "-qw", "net.ipv4.conf.ens0.proxy_arp=1", "net.ipv4.conf.all.rp_filter=2")


def _connect_hosts(nodes: dict[str, LabNode]) -> None:
    """A cable from each host to its gateway, with the addresses of the site's real network."""
    for name, address in HOSTS.items():
        gateway = nodes[BESIDE[name]]
        cable = f"link add ens0 netns {nodes[name].pid} type veth peer name ens1 netns {gateway.pid}"
        argv = ["nsenter", "-t", str(nodes["router"].pid), "--net", "ip", *cable.split()]
        subprocess.run(argv, check=True, timeout=30)
        for node, port, own in ((nodes[name], "ens0", address), (gateway, "ens1", address.removesuffix("5") + "1")):
            node.run("ip", "addr", "add", f"{own}/24", "dev", port)
            node.run("ip", "link", "set", port, "up")
        nodes[name].run("ip", "route", "add", "default", "via", address.removesuffix("5") + "1")


def add_ipv6(up: TwoSites) -> None:
    """Give the boxes and what is between them IPv6 addresses beside the others; no NAT stands between these."""
    nodes = up.nodes | up.between
    for name, port, address in (
        ("gw1", "ens0", OWN_IPV6["gw1"]),
        ("nat", "in", "2001:db8:1::1"),
        ("nat", "out", "2001:db8:2::1"),
        ("router", "wan", "2001:db8:2::2"),
        ("router", "lan", "2001:db8:3::1"),
        ("gw2", "ens0", OWN_IPV6["gw2"]),
    ):
        nodes[name].run("ip", "addr", "add", f"{address}/64", "dev", port, "nodad")
    for name in ("nat", "router"):
        nodes[name].run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    for name, to, gateway in (
        ("gw1", "default", "2001:db8:1::1"),
        ("nat", "2001:db8:3::/64", "2001:db8:2::2"),
        ("router", "2001:db8:1::/64", "2001:db8:2::1"),
        ("gw2", "default", "2001:db8:3::1"),
    ):
        nodes[name].run("ip", "-6", "route", "add", to, "via", gateway)
