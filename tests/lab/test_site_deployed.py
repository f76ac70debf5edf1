"""A recipe that was written for two sites brings the tunnel up between two machines without vpneval. They have the lab
image, and so every package; bare machines are in test_site_bare.py."""

import time
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import LabNode, wait_until
from runner.lab.software.image import Image
from runner.vpn.deploy import packages
from tests.lab.by_hand import GIVE, TAKE, copied, up
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, TwoSites, two_sites
from tests.lab.test_site import THROUGH_NAT

pytestmark = pytest.mark.timeout(300)


def behind(box: LabNode, address: str) -> None:
    """Give the gateway a network, with a host of 1500 bytes in it: a network namespace "pc" on the gateway."""
    host = address.removesuffix(".1") + ".2"
    box.run("ip", "netns", "add", "pc")
    box.run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", "pc")
    box.run("ip", "addr", "add", f"{address}/24", "dev", "lan0")
    box.run("ip", "link", "set", "lan0", "up")
    for line in (
        "link set lo up",
        f"addr add {host}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {address}",
    ):
        box.run("ip", "-n", "pc", *line.split())


def carried_whole(boxes: TwoSites, lans: dict[str, str]) -> None:
    """Hosts behind the gateways, which know nothing of the path's MTU, send much both ways; nothing comes in pieces,
    and packets as long as a host's own MTU arrive, too."""

    def pieces() -> int:
        shown = [box.run("nstat", "-az", "IpReasmReqds").stdout for box in boxes.nodes.values()]
        return sum(int(text.split()[-2]) for text in shown)

    time.sleep(1.5)  # the MTU of a device that has just come
    before = pieces()
    for near, far in ((boxes.nodes["gw1"], boxes.nodes["gw2"]), (boxes.nodes["gw2"], boxes.nodes["gw1"])):
        to = lans[far.name].removesuffix(".1") + ".2"
        taking = far.spawn("ip", "netns", "exec", "pc", "python3", "-c", TAKE, log="take")
        listens = lambda far=far: ":7777 " in far.run("ip", "netns", "exec", "pc", "ss", "-Hltn").stdout  # noqa: E731
        wait_until(listens, "somebody who takes", 10)
        near.run("ip", "netns", "exec", "pc", "python3", "-c", GIVE, to, timeout=60)
        wait_until(lambda far=far: "3000000" in far.read_log("take"), f"all of it: {far.read_log('take')}", 30)  # type: ignore[misc]
        taking.stop()
    assert pieces() == before, "no tunnel's packet was fragmented"
    near, to = boxes.nodes["gw1"], lans["gw2"].removesuffix(".1") + ".2"
    assert near.run("ip", "netns", "exec", "pc", "ping", "-c2", "-W2", "-Mdont", "-s1472", to, check=False).code == 0


def brings_up(image: Image, folder: Path, name: str, root: str = "") -> None:
    """Write the recipe, install it on both boxes, and use the tunnel. ``root``: the boxes', on which nothing of the VPN
    is installed yet."""
    lans = {"gw1": "10.20.0.1", "gw2": "10.30.0.1"}
    with two_sites(image, folder, root=root) as boxes:
        own: dict[str, dict[str, object]] = {
            n: {"wan_address": BOXES[n], "network": f"{lan[:-1]}0/24"} for n, lan in lans.items()
        }
        wrote = vpneval("recipe", name, "--site", boxes.sites(own), "--write", folder / "out", "--days", "400")
        assert wrote.returncode == 0, wrote.stderr
        near = boxes.nodes["gw1"]
        ping = ("ping", "-c1", "-W1", "-I", lans["gw1"], lans["gw2"])
        for box in (boxes.nodes["gw2"], near):
            copied(folder / "out", box)
            behind(box, lans[box.name])
            lacked = lacking(box, name)
            assert bool(lacked) is bool(root), "the bare machine has none of them, the other one all"
        for box in (boxes.nodes["gw2"], near):
            assert "Started" in up(box)
            assert not lacking(box, name)
        wait_until(lambda: near.run(*ping, check=False).code == 0, "a ping through the tunnel", 30, 0.2)
        if name in ("openvpn", "ipsec_user"):
            crt = next((folder / "out").rglob("gw1.crt"))
            times_s = [str(days * 86400) for days in (390, 410)]
            ends = ("openssl", "x509", "-noout", "-checkend")
            codes = [boxes.between["nat"].run(*ends, s, input=crt.read_text(), check=False).code for s in times_s]
            assert codes == [0, 1]
        carried_whole(boxes, lans)
        near.run("/root/tunnel/down.sh")
        wait_until(lambda: near.run(*ping, check=False).code != 0, "the end of the tunnel", 30, 0.2)


def lacking(box: LabNode, name: str) -> list[str]:
    """The packages of the VPN's recipe that are not installed."""
    names = [any_of[0] for any_of in packages(load_vpn(name))]
    asked = ("dpkg-query", "-W", "-f", "${Package} ${Status}\n", *names)
    there = [line.split()[0] for line in box.run(*asked, check=False).stdout.splitlines() if "ok installed" in line]
    return [one for one in names if one not in there]


@pytest.mark.parametrize("name", THROUGH_NAT)
def test_a_written_recipe_brings_the_tunnel_up_without_vpneval(image: Image, tmp_path: Path, name: str) -> None:
    brings_up(image, tmp_path, name)
