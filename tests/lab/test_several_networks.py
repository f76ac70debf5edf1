"""Recipes for sites with several networks: every pair goes through the tunnel, or nowhere, and is checked."""

import re
from pathlib import Path

import pytest

from runner.lab.node import wait_until
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.software.image import Image
from tests.lab.by_hand import bare_packets, carries, is_up, two_gateways, write_and_run

BARE = """table bridge bare {
    chain forward {
        ip daddr { 10.102.0.2, 10.101.0.2 } counter
        ip6 daddr fd00::/8 counter
    }
}
"""
SITES = "".join(
    f"""[gw{n}]
address = "192.168.0.{n}"
wan_address = "192.168.0.{n}"
network = ["10.10{n}.0.0/24", "10.{n}.0.0/24"]
network_address = "10.{n}.0.1"
network_ipv6 = ["fd0{n}::/64", "fd1{n}::/64"]
"""
    for n in (1, 2)
)
NEAR, FAR = ("10.1.0.2", "10.101.0.2", "fd01::2", "fd11::2"), ("10.2.0.2", "10.102.0.2", "fd02::2", "fd12::2")
pytestmark = pytest.mark.timeout(300)


def second_networks(lab: Lab) -> None:
    """A second LAN of both families on the same ports, and routes by the WAN to what is not in a tunnel."""
    for site in lab.sites:
        n, gateway, host = site.number, lab.gateway(site), lab.nodes[f"host{site.number}"]
        for node in (gateway, host):
            node.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
        for node, port, end in ((gateway, "lan0", 1), (host, "eth0", 2)):
            addresses = (f"10.10{n}.0.{end}/24", f"fd0{n}::{end}/64 nodad", f"fd1{n}::{end}/64 nodad")
            batch(node, *(f"addr add {address.replace(' ', f' dev {port} ')}" for address in addresses[1:]))
            batch(node, f"addr add {addresses[0]} dev {port}")
        batch(gateway, f"addr add 2001:db8::{n}/64 dev wan0 nodad", f"route add ::/0 via 2001:db8::{3 - n}")
        batch(host, f"route add ::/0 via fd0{n}::1")
    lab.wan.run("nft", "-f", "-", input=BARE)


def unanswered(lab: Lab) -> list[tuple[str, str]]:
    """The pairs of addresses, one at each site, between which no ping is answered."""
    pairs = [(near, far) for near in NEAR for far in FAR if (":" in near) == (":" in far)]
    return [
        pair for pair in pairs if lab.host1.run("ping", "-c1", "-W1", "-I", pair[0], pair[1], check=False).code != 0
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("wireguard_go", marks=pytest.mark.smoke),
        *("openvpn", "openvpn_tap", "ipsec_user", "tinc", "nebula", "fastd", "openconnect"),
    ],
)
def test_every_pair_of_networks_goes_through_the_tunnel_or_nowhere(image: Image, tmp_path: Path, name: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        second_networks(lab)
        (tmp_path / "sites.toml").write_text(SITES)
        gateways = [lab.gateway(site) for site in lab.sites]
        write_and_run(lab, name, tmp_path, "--site", str(tmp_path / "sites.toml"))
        for node in gateways:
            wait_until(lambda node=node: is_up(node), f"check.sh of {node.name}", 60, 0.5)  # type: ignore[misc]
        six = name != "nebula"  # of certificates of version 1
        wait_until(lambda: [p for p in unanswered(lab) if six or ":" not in p[0]] == [], "every pair", 20, 0.5)
        carries(lab)
        # A route past the tunnel for the second network alone: check.sh names it, and nothing leaves.
        if name == "wireguard_go":
            batch(gateways[0], "rule add from 10.1.0.0/24 to 10.102.0.0/24 lookup 77 priority 70")
            batch(gateways[0], "route add default via 192.168.0.2 table 77")
            said = gateways[0].run("/root/tunnel/check.sh", check=False, timeout=60)
            assert said.code == 8, said
            assert "ip rule add to 10.102.0.0/24 lookup main priority 69" in said.stderr
            batch(gateways[0], "rule del priority 70")
        for node in gateways:
            node.run("systemctl", "stop", f"vpneval-tunnel@{node.run('ls', '/etc/vpneval').stdout.strip()}")
        wait_until(lambda: len(unanswered(lab)) == 8, "no answer without the tunnel", 30, 0.5)
        assert bare_packets(lab) == 0
        for node in gateways:
            node.run("/root/tunnel/down.sh")
            node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        lab.host1.run("ping", "-c1", "-W1", "-I", NEAR[1], FAR[1], check=False)
        shown = lab.wan.run("nft", "list", "table", "bridge", "bare").stdout
        assert any(map(int, re.findall(r"packets (\d+)", shown))), "the control"
