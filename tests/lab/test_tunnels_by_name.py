"""Tunnels of one pair of gateways, each with a name: what one of them undergoes is not felt by another one, and one
takes another one's place without an open moment. A network that would cut the gateway off is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from tests.lab.by_hand import (
    answers,
    bare_packets,
    copied,
    is_up,
    name_of,
    state,
    two_gateways,
    up,
    write_and_run,
    written,
)
from tests.lab.test_recipe_by_hand import Tunnel

SECOND = {"gw1": "10.3.0", "gw2": "10.4.0"}
BARE = """table bridge second {
    chain forward {
        type filter hook forward priority 0; policy accept;
        ip daddr { 10.3.0.2, 10.4.0.2 } counter
    }
}
"""
INSIDE = ("ip", "netns", "exec", "pc")
CONNECTS = "import socket, time\ns = socket.create_connection(('10.1.0.1', 22), 9, ('10.2.0.9', 0))\ntime.sleep(60)"
pytestmark = pytest.mark.timeout(300)


def sites(folder: Path, first: str, second: str) -> tuple[str, str]:
    """The option that names an inventory of both gateways with these networks."""
    folder.mkdir(exist_ok=True)
    path = folder / "sites.toml"
    path.write_text(
        "".join(
            f'[gw{n}]\naddress = "192.168.0.{n}"\nwan_address = "192.168.0.{n}"\nnetwork = "{network}"\n'
            for n, network in enumerate((first, second), 1)
        )
    )
    return "--site", str(path)


def second_lans(lab: Lab) -> None:
    """Another network behind each gateway, with a host: a network namespace "pc" of the gateway."""
    for name, net in SECOND.items():
        node = lab.nodes[name]
        node.run("ip", "netns", "add", "pc")
        node.run("ip", "link", "add", "lan1", "type", "veth", "peer", "name", "eth0", "netns", "pc")
        for line in (f"addr add {net}.1/24 dev lan1", "link set lan1 up"):
            node.run("ip", *line.split())
        for line in (
            "link set lo up",
            f"addr add {net}.2/24 dev eth0",
            "link set eth0 up",
            f"route add default via {net}.1",
        ):
            node.run("ip", "-n", "pc", *line.split())
    lab.wan.run("nft", "-f", "-", input=BARE)


def bare_of_second(lab: Lab) -> int:
    return int(re.findall(r"packets (\d+)", lab.wan.run("nft", "list", "table", "bridge", "second").stdout)[0])


def lost(node: LabNode, log: str) -> list[int]:
    """The pings that were not answered, but for the last two, which may be on their way."""
    seen = {int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", node.read_log(log))}
    return sorted({*range(1, max(seen) - 1)} - seen)


def waits(lab: Lab, directory: str) -> None:
    for name in SECOND:
        node = lab.nodes[name]
        wait_until(lambda node=node: is_up(node, directory), f"check.sh of {directory}", 60, 0.5)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [pytest.param("wireguard_go", "openvpn", "tinc", marks=pytest.mark.smoke), ("fastd", "tinc", "n2n")],
)
def test_a_tunnel_feels_nothing_of_another_one(
    image: Image, tmp_path: Path, first: str, second: str, third: str
) -> None:
    """The first carries all the time; the second comes, is replaced by the third, and that goes."""
    with two_gateways(image, tmp_path) as lab:
        second_lans(lab)
        near = lab.nodes["gw1"]
        near.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        before = {name: state(lab.nodes[name]) for name in SECOND}
        write_and_run(lab, first, tmp_path / "first")
        Tunnel(lab, first).works()
        steady = lab.host1.spawn("ping", "-i", "0.05", "10.2.0.2", log="steady")
        pinging = near.spawn(*INSIDE, "ping", "-i", "0.05", "10.4.0.2", log="second")
        wait_until(lambda: bare_of_second(lab) > 0, "a packet in the clear: the control", 10)
        networks = [f"{net}.0/24" for net in SECOND.values()]
        write_and_run(lab, second, tmp_path / "second", *sites(tmp_path / "second", *networks), directory="second")
        waits(lab, "second")
        wait_until(lambda: "ttl" in near.read_log("second"), "an answer through the second tunnel", 10)
        seen = bare_of_second(lab)

        options = sites(tmp_path / "third", *networks)
        written(third, tmp_path / "third", *options)
        for name in reversed(SECOND):
            node = lab.nodes[name]
            copied(tmp_path / "third" / "out", node, "third")
            refused = node.run("/root/third/up.sh", check=False, timeout=60)
            old = name_of(node, "second")
            assert (refused.code, old in refused.stderr) == (1, True), refused
            up(node, "third", f"--replace {old}")
            assert node.run("/root/second/check.sh", check=False).code != 0
        waits(lab, "third")
        assert bare_of_second(lab) == seen, "while it was replaced, packets left in the clear"
        assert is_up(near), "the first one's check"
        assert lost(lab.host1, "steady") == []

        for name in reversed(SECOND):
            assert "10." in lab.nodes[name].run(f"/etc/vpneval/{name_of(lab.nodes[name], 'third')}/down.sh").stdout
        wait_until(lambda: bare_of_second(lab) > seen, "a packet in the clear: the control", 10)
        assert is_up(near)
        assert lost(lab.host1, "steady") == []
        assert lab.nodes["gw2"].run("sysctl", "-n", "net.ipv4.ip_forward").stdout.strip() == "1", "the first needs it"
        steady.stop()
        pinging.stop()
        for name in reversed(SECOND):
            lab.nodes[name].run("/root/tunnel/down.sh")
        for name in SECOND:
            node, was = lab.nodes[name], before[name]
            wait_until(lambda node=node, was=was: set(state(node)) == set(was), name, 10)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wireguard_go", "wireguard_go"),  # with other keys
        ("openvpn", "tinc"),
        ("ssh_tun", "openvpn"),  # both have a device tun2
        ("wireguard_go", "openvpn"),
    ],
)
def test_one_takes_the_place_of_another_one(image: Image, tmp_path: Path, old: str, new: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        for node in (lab.nodes["gw1"], lab.nodes["gw2"]):
            node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        lab.host1.spawn("ping", "-i", "0.02", "10.2.0.2", log="pinging")
        wait_until(lambda: answers(lab), "the far host, in the clear: the control", 10)
        write_and_run(lab, old, tmp_path / "old", directory="old")
        waits(lab, "old")
        seen, name = bare_packets(lab), name_of(lab.nodes["gw1"], "old")
        write_and_run(lab, new, tmp_path / "new", args=f"--replace {name}")
        Tunnel(lab, new).works(60)
        assert bare_packets(lab) == seen, "in the clear"
        for node in (lab.nodes["gw2"], lab.nodes["gw1"]):
            assert f"no tunnel {name}" in node.run("/root/tunnel/up.sh", "--replace", name, check=False).stderr
            node.run("/root/old/down.sh")  # of one that is gone: nothing
        Tunnel(lab, new).works()
        assert bare_packets(lab) == seen, "in the clear"
        for node in (lab.nodes["gw2"], lab.nodes["gw1"]):
            node.run("/root/tunnel/down.sh")
        wait_until(lambda: bare_packets(lab) > seen, "a packet in the clear: the control", 10)


def test_three_of_one_tunnel_at_once_are_one(image: Image, tmp_path: Path) -> None:
    with two_gateways(image, tmp_path) as lab:
        written("wireguard_go", tmp_path)
        for name in ("gw2", "gw1"):
            node = lab.nodes[name]
            copied(tmp_path / "out", node)
            started = [node.spawn("/root/tunnel/up.sh", log=f"up{number}") for number in range(3)]
            assert [process.wait(60) for process in started] == [0, 0, 0], node.read_log("up0")
        Tunnel(lab, "wireguard_go").works()
        for name in ("gw2", "gw1"):
            assert len(lab.nodes[name].run("pgrep", "-x", "wireguard-go").stdout.split()) == 1


@pytest.mark.parametrize(
    ("network", "named"),
    [
        ("192.168.0.2/31", "192.168.0.2"),  # the router
        ("192.168.0.0/16", "192.168.0.1"),  # its own address
        ("10.1.0.128/25", "10.1.0.0/24"),  # a part of its own network
        ("10.2.0.0/24", "10.2.0.9"),  # whose address is logged in by ssh
        ("10.2.0.128/25", ""),  # the control
    ],
)
def test_a_network_that_cuts_the_gateway_off_is_refused(image: Image, tmp_path: Path, network: str, named: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        near = lab.nodes["gw1"]
        near.run("mkdir", "-p", "/run/sshd")
        near.spawn("sh", "-c", "ssh-keygen -A; exec /usr/sbin/sshd -D", log="sshd")
        near.run("ip", "route", "add", "10.2.0.9", "dev", "lan0")
        lab.host1.run("ip", "addr", "add", "10.2.0.9/32", "dev", "eth0")
        wait_until(lambda: ":22 " in near.run("ss", "-Hltn").stdout, "sshd", 20)
        lab.host1.spawn("python3", "-c", CONNECTS, log="operator")
        wait_until(lambda: "10.2.0.9" in near.run("ss", "-Htn").stdout, "an operator", 10)
        written("wireguard_go", tmp_path)
        copied(tmp_path / "out", near)
        near.run("sh", "-c", f"sed -i 's|^closed=.*|closed={network}|' /root/tunnel/files/etc/vpneval/*/gateway.sh")
        was = state(near)
        if not named:
            assert "Started" in up(near)
            return
        done = near.run("/root/tunnel/up.sh", check=False, timeout=60)
        assert done.code == 1
        assert named in done.stderr
        assert set(state(near)) ^ set(was) == set()
