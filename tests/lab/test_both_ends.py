"""What is of neither site's network does not enter a deployed tunnel, and so no answer to it leaves in the clear; what
has the other site's addresses comes in by the tunnel only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.software.image import Image
from tests.lab.by_hand import answers, closing, two_gateways, write_and_run
from tests.lab.test_recipe_by_hand import Tunnel
from tests.lab.test_tunnels_by_name import INSIDE, bare_of_second, second_lans

ANSWERS_LEAVE = ("openvpn", "ssh_tun", "n2n", "openvpn_tap")  # in the clear, where nothing closes it
SEEN = "table ip seen { chain i { type filter hook input priority 0; ip saddr 10.2.0.1 counter; }; }"
pytestmark = pytest.mark.timeout(300)


def open_up(node: LabNode) -> None:
    """Take the closing of a gateway away, and leave the tunnel."""
    node.run("bash", "-ec", "kill -KILL -- -$(cat /run/vpneval-closed@*.pid)")
    gone = ("nft", "delete", "table", "ip", closing(node))
    wait_until(lambda: node.run(*gone, check=False).code == 0, "an owner's end", 10, 0.1)


def arrived(node: LabNode) -> int:
    return int(re.findall(r"packets (\d+)", node.run("nft", "list", "table", "ip", "seen").stdout)[0])


@pytest.mark.parametrize(
    "name", [pytest.param("openvpn", marks=pytest.mark.smoke), *ANSWERS_LEAVE[1:], "wireguard_go", "tinc", "fastd"]
)
def test_both_ends_are_closed(image: Image, tmp_path: Path, name: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        second_lans(lab)
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        lab.host1.run("nft", SEEN)
        write_and_run(lab, name, tmp_path)
        Tunnel(lab, name).works()
        seen, was = bare_of_second(lab), arrived(lab.host1)
        near.spawn(*INSIDE, "ping", "-i", "0.1", "10.2.0.2", log="stranger")
        # As an attacker on the WAN: what has the address of the other site.
        open_up(far)
        far.run("ip", "route", "add", "10.1.0.2/32", "via", "192.168.0.1", "dev", "wan0")
        for _ in range(5):
            far.run("ping", "-c1", "-W0.3", "-I", "10.2.0.1", "10.1.0.2", check=False)
        assert bare_of_second(lab) == seen, "answers to a host of neither network left in the clear"
        assert arrived(lab.host1) == was, "a bare packet from the WAN has reached a host"
        open_up(near)
        far.run("ping", "-c1", "-W1", "-I", "10.2.0.1", "10.1.0.2", check=False)
        assert arrived(lab.host1) > was, "the control"
        far.run("ip", "route", "del", "10.1.0.2/32")
        if name in ANSWERS_LEAVE:
            wait_until(lambda: bare_of_second(lab) > seen, "an answer in the clear: the control", 10)
        assert answers(lab)
