"""The ClusterIP paper's cluster: both gateways have the site's addresses, and CLUSTERIP decides who takes a packet.

The kernel's target CLUSTERIP answers for 192.168.0.1 with a multicast MAC address, so that both gateways get every
packet from the WAN, and drops it on the one that is not responsible. strongSwan's plugin ha hands the SAs over, notices
a silent gateway by its own heartbeats, and tells CLUSTERIP who is responsible. The heartbeats go through the interface
that is going to fail: in the paper, too, they end with it (§VI-A.3). CLUSTERIP never saw forwarded packets; the paper
patched the kernel for that. Here both gateways have one unicast MAC address on the LAN, which its bridge does not
learn, and runner/lab/probes/cluster_gate.py opens that port on the responsible one.

Sources: iptables-extensions(8), CLUSTERIP; strongSwan's documentation, "High Availability"; ip-link(8), bridge_slave.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial

from runner.lab import probes
from runner.lab.node import LabNode, Node, wait_until
from runner.lab.shape.site_to_site import Lab, batch

ADDRESS, LAN_ADDRESS = "192.168.0.1", "10.1.0.1"  # the site's
CLUSTER_MAC, LAN_MAC = "01:00:5E:00:01:01", "02:00:00:0a:01:01"
ADDRESSES = (f"addr add {ADDRESS}/24 dev wan0", f"addr add {LAN_ADDRESS}/24 dev lan0")
STATE = f"/proc/net/ipt_CLUSTERIP/{ADDRESS}"  # the hash buckets that this gateway is responsible for
# strongswan.conf(5), plugin ha: the defaults of heartbeat_delay and heartbeat_timeout. The paper states neither.
HEARTBEAT_S, DEAD_AFTER_S = 1.0, 2.1
GATE = "cluster_gate"
# iptables-legacy: the nft front end translates what it can, and CLUSTERIP it cannot. One bucket, which one gateway has.
RULE = (
    *("INPUT", "-i", "wan0", "-d", ADDRESS, "-j", "CLUSTERIP", "--new", "--hashmode", "sourceip"),
    *("--clustermac", CLUSTER_MAC, "--total-nodes", "1", "--local-node", "1"),
)


def heartbeat_of(params: Mapping[str, str]) -> float:
    """The time between two heartbeats, s: strongSwan's default, or that of the level ``heartbeat_ms``."""
    return int(params["heartbeat_ms"]) / 1000 if "heartbeat_ms" in params else HEARTBEAT_S


def no_clusterip(node: Node) -> str:
    """Why that node's kernel cannot do CLUSTERIP, in its own words; empty where it can."""
    done = node.run("iptables-legacy", "-A", *RULE, check=False)
    if done.code == 0:
        node.run("iptables-legacy", "-D", "INPUT", "1")
        return ""
    words = " ".join(done.stderr.split())
    return f"the kernel has no CLUSTERIP, which left Linux in 6.3 (User Mode Linux 6.1 has it): {words}"


def start_cluster(lab: Lab, pair: tuple[str, str]) -> None:
    """Give the first gateway the site's addresses, both the same MAC address on the LAN, which its bridge ignores."""
    for name in pair:
        # In this order: a frame in between would teach the bridge one of the two ports for minutes.
        batch(lab.nodes["lan"], f"link set {name} type bridge_slave learning off")
        batch(lab.nodes[name], f"link set lan0 address {LAN_MAC}")
    batch(lab.nodes[pair[0]], *ADDRESSES)
    lab.nodes[pair[1]].run("sysctl", "-qw", "net.ipv4.conf.lan0.forwarding=0")


def join_cluster(lab: Lab, pair: tuple[str, str]) -> None:
    """Give both gateways the site's addresses, once the tunnel is up; CLUSTERIP lets only the first one take packets.

    Not before, because charon empties CLUSTERIP's buckets as it starts. Raises CommandError where CLUSTERIP fails.
    """
    first, second = (lab.nodes[name] for name in pair)
    for node in (first, second):
        node.run("iptables-legacy", "-A", *RULE)
    second.run("sh", "-c", f"echo -1 >{STATE}")
    batch(second, *ADDRESSES)
    batch(lab.gateway(lab.sites[-1]), f"neigh flush to {ADDRESS}")  # whose MAC address is the cluster's now


def open_gates(lab: Lab, pair: tuple[str, str], renew: str) -> None:
    """Make the responsible gateway alone forward packets from the LAN. A gateway that becomes responsible runs the
    command ``renew``, which asks for new keys. Raises TimeoutError where a gate does not begin its work."""
    for name in pair:
        node, path = lab.nodes[name], f"{probes.FOLDER}/{GATE}.py"
        node.write(path, probes.source(GATE), mode=0o644)
        node.spawn("python3", "-IS", path, ADDRESS, "wan0", "lan0", *shlex.split(renew), log=GATE)
        wait_until(partial(watching, node), f"the gate of {name}")


def watching(node: LabNode) -> bool:
    """Has the gate there said for the first time whether its gateway is responsible?"""
    return "responsible" in node.read_log(GATE)


def silence(lab: Lab, pair: tuple[str, str], port: int, note: Callable[[str], None]) -> None:
    """Block the heartbeats between the two gateways (UDP ``port``), and nothing else."""
    note("the heartbeats between the two are dropped")
    for name in pair:
        lab.nodes[name].run("iptables-legacy", "-I", "INPUT", "-p", "udp", "--dport", str(port), "-j", "DROP")
