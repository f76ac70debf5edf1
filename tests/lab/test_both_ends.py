"""What is of neither site's network does not enter a deployed tunnel, and so no answer to it leaves in the clear; what
has the other site's addresses comes in by the tunnel only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image, open_image
from tests.contract import OLDER
from tests.lab import test_recipe_ipv6 as ipv6
from tests.lab.by_hand import answers, closing, two_gateways, write_and_run
from tests.lab.test_closed import CARRYING
from tests.lab.test_recipe_by_hand import Tunnel
from tests.lab.test_tunnels_by_name import INSIDE, bare_of_second, second_lans

CHECKS_SOURCES = ("wireguard_go", "nebula", "ipsec_user")  # so no answer leaves where nothing closes the way
# Past the routes of any tunnel.
PAST = "ip {0} rule add priority 1 to {1} table 99; ip {0} route add {1} via {2} dev wan0 table 99"
UNDO_PAST = "ip rule del priority 1"
OWN = """table bridge own {
    chain forward {
        type filter hook forward priority 0;
        ip saddr 10.2.0.1 ip daddr 192.168.0.1 counter
    }
}
"""
EVERY = [pytest.param(name, marks=[pytest.mark.smoke] if name == "openvpn" else []) for name in CARRYING]
SEEN = "table ip seen { chain i { type filter hook input priority 0; ip saddr 10.2.0.1 counter; }; }"
SEEN6 = "table ip6 seen { chain i { type filter hook input priority 0; ip6 saddr { fd02::1, fd02::2 } counter; }; }"
pytestmark = pytest.mark.timeout(300)


def open_up(node: LabNode) -> None:
    """Take the closing of a gateway away, and leave the tunnel."""
    node.run("bash", "-ec", "kill -KILL -- -$(cat /run/vpneval-closed@*.pid)")
    for family in ("ip", "ip6"):
        if closing(node) in node.run("nft", "list", "tables", family).stdout:
            gone = ("nft", "delete", "table", family, closing(node))
            wait_until(lambda gone=gone: node.run(*gone, check=False).code == 0, "an owner's end", 10, 0.1)  # type: ignore[misc]


def older(name: str) -> Image | None:
    """The gateways' image, where it is another one than the hosts'."""
    return open_image("bookworm", say=print) if name in OLDER else None


def arrived(node: LabNode, family: str = "ip") -> int:
    return int(re.findall(r"packets (\d+)", node.run("nft", "list", "table", family, "seen").stdout)[0])


@pytest.mark.parametrize("name", EVERY)
def test_both_ends_are_closed(image: Image, tmp_path: Path, name: str) -> None:
    with two_gateways(image, tmp_path, older(name)) as lab:
        second_lans(lab)
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        lab.host1.run("nft", SEEN)
        write_and_run(lab, name, tmp_path)
        Tunnel(lab, name).works()
        seen, was = bare_of_second(lab), arrived(lab.host1)
        near.spawn(*INSIDE, "ping", "-i", "0.1", "10.2.0.2", log="stranger")
        # As an attacker on the WAN: what has the address of the other site.
        open_up(far)
        far.run("sh", "-ec", PAST.format("-4", "10.1.0.2", "192.168.0.1"))
        for _ in range(5):
            far.run("ping", "-c1", "-W0.3", "-I", "10.2.0.1", "10.1.0.2", check=False)
        assert bare_of_second(lab) == seen, "answers to a host of neither network left in the clear"
        assert arrived(lab.host1) == was, "a bare packet from the WAN has reached a host"
        open_up(near)
        far.run("ping", "-c1", "-W1", "-I", "10.2.0.1", "10.1.0.2", check=False)
        assert arrived(lab.host1) > was, "the control"
        far.run("sh", "-c", UNDO_PAST)
        if name not in CHECKS_SOURCES:
            wait_until(lambda: bare_of_second(lab) > seen, "an answer in the clear: the control", 10)
        assert answers(lab)


@pytest.mark.parametrize(
    "name", [pytest.param("openvpn", marks=pytest.mark.smoke), "ssh_tun", "n2n", "tinc", "wireguard_go"]
)
def test_a_gateways_other_addresses_do_not_enter_either(image: Image, tmp_path: Path, name: str) -> None:
    """What it sends from its WAN address by the tunnel would be answered in the clear: it gets the LAN's address."""
    with two_gateways(image, tmp_path) as lab:
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        lab.wan.run("nft", OWN)
        write_and_run(lab, name, tmp_path)
        Tunnel(lab, name).works()

        def leaves() -> bool:
            near.run("ping", "-c3", "-i0.2", "-W1", "-I", "192.168.0.1", "10.2.0.1", check=False)
            return "packets 0" not in lab.wan.run("nft", "list", "table", "bridge", "own").stdout

        assert not leaves()
        for sending in ((), ("-I", "192.168.0.1")):
            assert near.run("ping", "-c1", "-W1", *sending, "10.2.0.2", check=False).code == 0, (
                "from the gateway itself"
            )
        open_up(near)
        assert not leaves(), "the other end is closed"
        open_up(far)
        assert leaves() is (name not in CHECKS_SOURCES), "the control"
        assert answers(lab)


def forwards_ipv6(lab: Lab) -> None:
    ipv6.six(lab)
    lab.host1.run("nft", SEEN6)
    for name in ("gw1", "gw2"):
        lab.nodes[name].run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    wait_until(lambda: ipv6.answers(lab), "IPv6 in the clear: the control", 10)


def comes_in_bare(lab: Lab, source: LabNode, address: str) -> int:
    """How many of five pings to the near host by the WAN, with an address of the far site, have reached it."""
    was = arrived(lab.host1, "ip6")
    for _ in range(5):
        source.run("ping", "-6", "-c1", "-W0.3", "-I", address, "fd01::2", check=False)
    return arrived(lab.host1, "ip6") - was


@pytest.mark.parametrize("name", EVERY)
def test_ipv6_with_the_other_sites_addresses_comes_in_by_the_tunnel_only(
    image: Image, tmp_path: Path, name: str
) -> None:
    """Of a VPN that carries IPv6, and of one that does not; an attacker on the WAN has the far gateway's address."""
    with two_gateways(image, tmp_path, older(name)) as lab:
        forwards_ipv6(lab)
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        (tmp_path / "sites.toml").write_text(ipv6.SITES)
        write_and_run(lab, name, tmp_path, "--site", str(tmp_path / "sites.toml"))
        Tunnel(lab, name).works()
        open_up(far)
        far.run("sh", "-ec", PAST.format("-6", "fd01::2", "2001:db8::1"))
        assert comes_in_bare(lab, far, "fd02::1") == 0
        open_up(near)
        assert comes_in_bare(lab, far, "fd02::1") > 0, "the control"


@pytest.mark.parametrize("name", EVERY)
def test_private_ipv6_that_no_inventory_names_is_closed_both_ways(image: Image, tmp_path: Path, name: str) -> None:
    with two_gateways(image, tmp_path, older(name)) as lab:
        forwards_ipv6(lab)
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        write_and_run(lab, name, tmp_path)
        Tunnel(lab, name).works()
        seen = ipv6.bare(lab)
        assert not ipv6.answers(lab)
        assert ipv6.bare(lab) == seen, "out"
        open_up(far)
        assert comes_in_bare(lab, lab.host2, "fd02::2") == 0, "in"
        assert ipv6.bare(lab) > seen, "the control: they were on the WAN"
        open_up(near)
        assert comes_in_bare(lab, lab.host2, "fd02::2") > 0, "the control"
        wait_until(lambda: ipv6.answers(lab), "IPv6 in the clear: the control", 10)
