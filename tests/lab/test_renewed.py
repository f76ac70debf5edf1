"""Day two of a tunnel: new certificates, new keys and the way back, with real daemons. Nothing leaves in the clear
meanwhile, and where old and new certificates are valid together, one gateway may change before the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from tests.lab.by_hand import answers, bare_packets, copied, name_of, two_gateways, up, written
from tests.lab.commands import vpneval
from tests.lab.test_recipe_by_hand import Tunnel

NOTICED_WITHIN_S = 90  # that the other gateway has begun anew; OpenVPN looks for 60 s
pytestmark = pytest.mark.timeout(500)


def next_one(what: str, before: Path, folder: Path) -> None:
    made = vpneval("tunnel", what, before / "out", "--write", folder / "out")
    assert made.returncode == 0, made.stderr


def replaced(node: LabNode, folder: Path, old: str, new: str) -> None:
    """One gateway changes from the directory ``old`` to the directory ``new``."""
    if node.run("test", "-e", f"/root/{new}", check=False).code:
        copied(folder / "out", node, new)
    up(node, new, f"--replace {name_of(node, old)}")


def first(lab: Lab, name: str, folder: Path) -> int:
    """The first tunnel, which a host uses all the time; how many bare packets were seen before."""
    written(name, folder)
    lab.nodes["gw1"].run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    lab.host1.spawn("ping", "-i", "0.05", "10.2.0.2", log="pinging")
    wait_until(lambda: bare_packets(lab) > 0, "a packet in the clear: the control", 10)
    for gateway in ("gw2", "gw1"):
        copied(folder / "out", lab.nodes[gateway])
        up(lab.nodes[gateway])
    Tunnel(lab, name).works()
    return bare_packets(lab)


@pytest.mark.parametrize("name", [pytest.param("openvpn"), pytest.param("nebula", marks=pytest.mark.smoke)])
def test_old_and_new_certificates_are_valid_together_and_there_is_a_way_back(
    image: Image, tmp_path: Path, name: str
) -> None:
    with two_gateways(image, tmp_path) as lab:
        seen = first(lab, name, tmp_path / "tunnel")
        near, far = lab.nodes["gw1"], lab.nodes["gw2"]
        next_one("renew", tmp_path / "tunnel", tmp_path / "renewed")
        replaced(far, tmp_path / "renewed", "tunnel", "renewed")
        wait_until(lambda: answers(lab), "an old certificate and a new one", NOTICED_WITHIN_S)
        replaced(near, tmp_path / "renewed", "tunnel", "renewed")
        wait_until(lambda: answers(lab), "two new certificates", NOTICED_WITHIN_S)
        said = vpneval("tunnel", "rollback", tmp_path / "renewed" / "out").stdout
        for node in (far, near):
            back = f"{name_of(node)}-{node.name}/up.sh --replace {name_of(node, 'renewed')}"
            assert back in said
            up(node, "tunnel", f"--replace {name_of(node, 'renewed')}")
        Tunnel(lab, name).works(NOTICED_WITHIN_S)
        # All keys new: a gateway with an old one is refused, and the way stays closed.
        next_one("rekey", tmp_path / "tunnel", tmp_path / "rekeyed")
        replaced(far, tmp_path / "rekeyed", "tunnel", "rekeyed")
        assert not answers(lab)
        refused = near.run("/root/tunnel/check.sh", check=False, timeout=60)
        assert (refused.code, f"must have the tunnel {name_of(near)}" in refused.stderr) == (7, True), refused
        replaced(near, tmp_path / "rekeyed", "tunnel", "rekeyed")
        wait_until(lambda: answers(lab), "new keys", NOTICED_WITHIN_S)
        assert bare_packets(lab) == seen, "in the clear"


def test_keys_without_certificates_are_replaced_at_both_gateways(image: Image, tmp_path: Path) -> None:
    with two_gateways(image, tmp_path) as lab:
        seen = first(lab, "wireguard_go", tmp_path / "tunnel")
        refused = vpneval("tunnel", "renew", tmp_path / "tunnel" / "out", "--write", tmp_path / "renewed")
        assert refused.returncode == 2
        assert "vpneval tunnel rekey" in refused.stderr
        next_one("rekey", tmp_path / "tunnel", tmp_path / "rekeyed")
        for gateway in ("gw2", "gw1"):
            replaced(lab.nodes[gateway], tmp_path / "rekeyed", "tunnel", "rekeyed")
        wait_until(lambda: answers(lab), "new keys", NOTICED_WITHIN_S)
        assert bare_packets(lab) == seen, "in the clear"
