"""Recipes for two sites with the same network: each reaches the other by other addresses, one for one.

    192.168.1.2 host1 ── gw1 ════ gw2 ── host2 192.168.1.2

To each other, the sites have the addresses of every lab, 10.1.0.0/24 and 10.2.0.0/24.
"""

from contextlib import suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CommandError
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.software.image import DEFAULT, Image, open_image
from tests.contract import OLDER
from tests.lab.by_hand import (
    answers,
    bare_packets,
    carries,
    copied,
    is_up,
    name_of,
    state,
    two_gateways,
    up,
    write_and_run,
    written,
)
from tests.lab.test_recipe_by_hand import NAMES

SITES = "".join(
    f"""[gw{n}]
address = "192.168.0.{n}"
wan_address = "192.168.0.{n}"
network = "192.168.1.0/24"
network_seen_as = "10.{n}.0.0/24"
"""
    for n in (1, 2)
)
OTHER_HOST = "192.168.1.77", "10.2.0.77"  # behind gw2, and as the near site sees it
MAPS = {  # what somebody makes of the translation -> what check.sh says
    "gone": ("/ prefix to /d", 3),
    "of another network": ("s/ prefix to ip saddr map { 192.168.1/ prefix to ip saddr map { 192.168.9/", 8),
}
pytestmark = pytest.mark.timeout(300)


def same_network(lab: Lab) -> None:
    """192.168.1.0/24 behind both gateways, and nothing of the networks of every lab."""
    for site in lab.sites:
        gateway, host = lab.gateway(site), lab.nodes[f"host{site.number}"]
        batch(gateway, "addr flush dev lan0", "addr add 192.168.1.1/24 dev lan0")
        batch(host, "addr flush dev eth0", "addr add 192.168.1.2/24 dev eth0", "route add default via 192.168.1.1")
    batch(lab.host2, f"addr add {OTHER_HOST[0]}/24 dev eth0")


def unit(node: LabNode, verb: str, of: str = "tunnel") -> None:
    node.run("bash", "-c", f"systemctl {verb} vpneval-{of}@{name_of(node)} 3>&- 4>&- 5>&- 6>&- 7>&-", timeout=60)


def goes(node: LabNode, before: list[str]) -> None:
    """Nothing of the tunnel stays on a gateway."""
    node.run("/root/tunnel/down.sh")
    with suppress(TimeoutError):
        wait_until(lambda: state(node) == before, "", 10)
    assert {*state(node)} ^ {*before} == set(), node.name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.smoke] * (name == "wireguard_go"))
        for name in NAMES
        if load_vpn(name).carries == "ip"
    ],
)
def test_sites_with_the_same_network_reach_each_other_through_the_tunnel_or_not_at_all(
    image: Image, tmp_path: Path, name: str
) -> None:
    gateways = open_image("bookworm" if name in OLDER else DEFAULT, say=print)
    with two_gateways(image, tmp_path, gateways) as lab:
        connects(lab, name, tmp_path)


def connects(lab: Lab, name: str, folder: Path) -> None:
    """From the recipe to its end, with the way past the tunnel closed."""
    same_network(lab)
    near, far = gateways = [lab.gateway(site) for site in lab.sites]
    before = [state(node) for node in gateways]
    (folder / "sites.toml").write_text(SITES)
    write_and_run(lab, name, folder, "--site", str(folder / "sites.toml"))
    for node in gateways:
        wait_until(lambda node=node: is_up(node), f"check.sh of {node.name}", 80, 0.5)  # type: ignore[misc]
    carries(lab)
    assert lab.host1.run("ping", "-c1", "-W2", OTHER_HOST[1], check=False).code == 0, "one for one"
    expired = lab.host1.run("ping", "-c1", "-W2", "-t2", OTHER_HOST[1], check=False)
    assert "Time to live exceeded" in expired.stdout, "errors are translated, too"
    too_long = lab.host1.run("ping", "-c2", "-W2", "-Mdo", "-s1472", OTHER_HOST[1], check=False)
    assert "Frag needed" in too_long.stdout + too_long.stderr
    for node in gateways:
        unit(node, "stop")
    wait_until(lambda: not answers(lab), "no answer without the tunnel", 10)
    for node in gateways:
        unit(node, "start")
    wait_until(lambda: answers(lab), "an answer once more", 80, 0.5)
    if name == "wireguard_go":
        without_translation(near)
    assert bare_packets(lab) == 0
    for node, was in zip(gateways, before, strict=True):
        goes(node, was)
    for node in (far, near):
        node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    answers(lab)
    assert bare_packets(lab), "the control: without the recipe, packets leave in the clear"


def without_translation(node: LabNode) -> None:
    """check.sh says so, and up.sh puts it back."""
    rules = f"/etc/vpneval/{name_of(node)}/whole-ip.nft"
    for change, code in MAPS.values():
        node.run("sed", "-i", change, rules)
        unit(node, "restart", "closed")
        said = node.run("/root/tunnel/check.sh", check=False, timeout=60)
        assert said.code == code, said
        up(node)
        wait_until(lambda: is_up(node), "check.sh once more", 60, 0.5)


LACKS = """#!/bin/sh
case "$*" in *-f*) echo "Error: Could not process rule: Operation not supported" >&2; exit 1 ;; esac
exec /usr/sbin/nft "$@"
"""


@pytest.mark.smoke
def test_up_refuses_where_it_cannot_translate_and_where_the_addresses_are_in_use(image: Image, tmp_path: Path) -> None:
    with two_gateways(image, tmp_path) as lab:
        same_network(lab)
        (tmp_path / "sites.toml").write_text(SITES)
        written("wireguard_go", tmp_path, "--site", str(tmp_path / "sites.toml"))
        near = lab.gateway(lab.sites[0])
        copied(tmp_path / "out", near)
        batch(near, "addr add 10.1.0.9/32 dev wan0")
        before = state(near)
        near.write("/usr/local/sbin/nft", LACKS, 0o755)
        with pytest.raises(CommandError, match=r"cannot translate addresses .*: Error: Could not process rule: Oper"):
            up(near)
        near.run("rm", "/usr/local/sbin/nft")
        with pytest.raises(CommandError, match=r"to see this one as 10\.1\.0\.0/24, and in it is an address"):
            up(near)
        assert {*state(near)} ^ {*before} == set()
