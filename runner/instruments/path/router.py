"""The WAN node as a router between the gateways, and to what a VPN needs beside them, in the place of its bridge: it
can be narrow, slow, or a NAT.

host1 ──── gw1 ════ router ════ gw2 ──── host2
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from runner.data.errors import MeasurementError
from runner.instruments.path.verdict import NoControl
from runner.lab.node import LabNode
from runner.lab.node.iproute import interface
from runner.lab.shape.site import hop, ip_version
from runner.lab.shape.site_to_site import Lab, batch, forwards

ROUTER = {4: "192.168.0.253/32", 6: "2001:db8::fe/128"}  # of nobody else on the WAN
FEATURES_OFF = ("tx", "off", "tso", "off", "gso", "off")  # of ethtool(8)
BURST_BYTES = 4096  # of a token bucket: two full frames
# Prints the ports of an address that do not accept a TCP connection.
CONNECTS = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), 2).close()
    except OSError:
        print(port)
"""


@contextmanager
def wan_router(lab: Lab) -> Iterator[dict[str, str]]:
    """The WAN node routes between the gateways and their helpers, which see no change: it answers for all. A bridge
    would drop what is too long without a word. Yields their addresses, each with the WAN's port to it."""
    wan = lab.wan
    ports = {site.wan_address: interface(wan, site.name) for site in (*lab.sites, *lab.helpers)}
    own = [ROUTER[version] for version in {4, lab.sites[0].path_version}]  # plain IP is IPv4 on every path
    forwards(wan, *ports.values())
    try:
        batch(wan, "link set lo up", *(f"addr add {address} dev lo" for address in own))
        batch(wan, *(f"link set {port} nomaster" for port in ports.values()))
        answer_for_all(wan, ports)
        leads(lab, ports)
        forget(lab)
        yield ports
    finally:
        batch(wan, *(f"addr del {address} dev lo" for address in own))
        batch(wan, *(f"route flush dev {port}" for port in ports.values()))
        batch(wan, *(f"link set {port} master br0" for port in ports.values()))
        wan.run("sysctl", "-qw", "net.ipv4.ip_forward=0", check=False)
        forget(lab)


def answer_for_all(wan: LabNode, ports: Mapping[str, str]) -> None:
    """The router answers who asks for another one's address: by proxy ARP (RFC 1027), in IPv6 for each address that is
    named (ip-neighbour(8))."""
    for port in ports.values():
        quick = (f"net.ipv4.conf.{port}.proxy_arp=1", f"net.ipv4.neigh.{port}.proxy_delay=0")
        wan.run("sysctl", "-qw", *quick, "net.ipv4.icmp_ratelimit=0")
    for address, port in ports.items():
        if ip_version(address) == 6:
            own = (f"conf.{port}.disable_ipv6=0", f"conf.{port}.proxy_ndp=1", f"neigh.{port}.proxy_delay=0")
            on = ("conf.all.disable_ipv6=0", *own, "conf.all.forwarding=1", "icmp.ratelimit=0")
            wan.run("sysctl", "-qw", *(f"net.ipv6.{setting}" for setting in on))
            batch(wan, *(f"neigh replace proxy {other} dev {port}" for other in ports if other != address))


def leads(lab: Lab, ports: Mapping[str, str], *options: str) -> None:
    """The router's routes to gateways, helpers and sites, with options of ip-route(8); plain IP goes to the sites,
    too."""
    for site in (*lab.sites, *lab.helpers):
        address, port = site.wan_address, ports[site.wan_address]
        behind = [f"{site.lan} via {' '.join(hop(address))} onlink"] if site.lan else []
        for to in (address, *behind):
            batch(lab.wan, f"route replace {to} dev {port} {' '.join(options)}")


def forget(lab: Lab) -> None:
    """What all nodes have learnt of the path: its MTU, and whose hardware address the other one has."""
    for node in (lab.host1, *(lab.nodes[site.name] for site in (*lab.sites, *lab.helpers)), lab.host2):
        batch(node, "route flush cache", "tcp_metrics flush", "neigh flush all")


@contextmanager
def slow(lab: Lab, port: str, rate_bps: float, queue_bytes: int, burst_bytes: int = BURST_BYTES) -> Iterator[None]:
    """The router sends ``rate_bps`` to this port of its own, and lets ``queue_bytes`` wait there. A routed packet has
    left its sender's socket (ip_rcv_core in the kernel), so that what waits blocks no daemon.

    Raises MeasurementError where the port has a queue already: that of the run's own WAN.
    """
    had = lab.wan.run("tc", "qdisc", "show", "dev", port, "root").stdout.split()[1:2]
    if had != ["noqueue"]:
        raise MeasurementError(f"the WAN has a queue of its own ({''.join(had)}): run this without a rate of the WAN")
    for site in lab.sites:  # packets as they are on a cable, none of them longer than the bucket
        lab.gateway(site).run("ethtool", "-K", site.wan_interface, *FEATURES_OFF, check=False)
    sizes = ("burst", str(burst_bytes), "limit", str(queue_bytes))
    lab.wan.run("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", f"{rate_bps:.0f}bit", *sizes)
    try:
        yield
    finally:
        lab.wan.run("tc", "qdisc", "del", "dev", port, "root", check=False)
        for site in lab.sites:
            on = (word.replace("off", "on") for word in FEATURES_OFF)
            lab.gateway(site).run("ethtool", "-K", site.wan_interface, *on, check=False)


def check_helpers(lab: Lab) -> None:
    """Raise NoControl unless each gateway reaches each port where a helper listens: a VPN that lacks what it needs
    tells nothing of itself."""
    for helper in lab.helpers:
        ends = (line.split()[3] for line in lab.nodes[helper.name].run("ss", "-Hltn").stdout.splitlines())
        listening = sorted({end.rpartition(":")[2] for end in ends if not end.startswith(("127.", "[::1]"))}, key=int)
        for site in lab.sites:
            tried = lab.gateway(site).run("python3", "-IS", "-c", CONNECTS, helper.wan_address, *listening, check=False)
            if shut := tried.stdout.split():
                raise NoControl(f"{site.name} does not reach TCP {', '.join(shut)} of the {helper.name}")


def nft_counters(node: LabNode, *table: str) -> dict[str, int]:
    """The packets that the counters of a table of nft(8) have seen, by the counters' names."""
    shown = json.loads(node.run("nft", "-j", "list", "counters", "table", *table).stdout)
    counters = [entry["counter"] for entry in shown["nftables"] if "counter" in entry]
    return {counter["name"]: int(counter["packets"]) for counter in counters}
