"""A recipe for a hub and three spokes: each spoke and the hub reach each other through the tunnel, or not at all; the
spokes each other where the inventory says so; and what one of them undergoes is not felt by the others."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, batch, mesh_sites, namespace_lab
from runner.lab.software.image import Image
from tests.lab.by_hand import copied, is_up, up, with_systemctl, written
from tests.lab.commands import vpneval

BARE = """table bridge bare {
    chain forward {
        type filter hook forward priority 0; policy accept;
        ip daddr 10.0.0.0/8 counter
        ip6 daddr fd00::/8 counter
    }
}
"""
GATEWAYS = {"berlin": 1, "paris": 2, "rome": 3, "hub": 4}  # the last one is the hub
pytestmark = pytest.mark.timeout(400)


def inventory(folder: Path, *, joined: bool, without: str = "") -> Path:
    lines = ["between_spokes = true"] * joined
    for name, n in GATEWAYS.items():
        if name == without:
            continue
        lines += [f"[{'hub' if name == 'hub' else f'spoke.{name}'}]", f'address = "192.168.0.{n}"']
        lines += [f'wan_address = "192.168.0.{n}"', f'network = "10.{n}.0.0/24"', f'network_ipv6 = "fd0{n}::/64"']
    path = folder / "sites.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def prepare(lab: Lab) -> None:
    """IPv6 in each LAN, and ways past the tunnel, by the WAN."""
    for n in GATEWAYS.values():
        gateway, host, other = lab.nodes[f"gw{n}"], lab.nodes[f"host{n}"], 4 if n != 4 else 1
        with_systemctl(gateway)
        for node, port, end in ((gateway, "lan0", 1), (host, "eth0", 2)):
            node.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
            batch(node, f"addr add fd0{n}::{end}/64 dev {port} nodad")
        batch(gateway, f"addr add 2001:db8::{n}/64 dev wan0 nodad", f"route add ::/0 via 2001:db8::{other}")
        batch(gateway, f"route add default via 192.168.0.{other}")
        batch(host, f"route add ::/0 via fd0{n}::1")
        gateway.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    lab.wan.run("nft", "-f", "-", input=BARE)


def set_up(lab: Lab, name: str, folder: Path, *, joined: bool, without: str = "") -> dict[str, LabNode]:
    """The recipe's up.sh on every gateway, until each check.sh is satisfied; these, by their sites' names."""
    written(name, folder, "--site", str(inventory(folder, joined=joined, without=without)))
    gateways = {site: lab.nodes[f"gw{n}"] for site, n in GATEWAYS.items() if site != without}
    for site, node in gateways.items():
        copied(folder / "out", node, site=site)
        up(node)
    for site, node in gateways.items():
        checked(site, node)
    return gateways


def checked(site: str, node: LabNode, directory: str = "tunnel") -> None:
    try:
        wait_until(lambda: is_up(node, directory), f"check.sh of {site}", 60, 0.5)
    except TimeoutError as late:
        said = node.run(f"/root/{directory}/check.sh", check=False, timeout=60)
        log = node.run("sh", "-c", "cat /var/log/vpneval-tunnel@*.log").stdout
        raise AssertionError(f"{late}: {said}\n{log[-3000:]}") from late


def answered(lab: Lab) -> set[tuple[str, str]]:
    """The pairs of sites of which the first one's host has an answer of the second one's in both families; with a ``6``
    or ``4`` behind them, in that family alone."""
    found = set()
    for (near, n), (far, m) in permutations(GATEWAYS.items(), 2):
        asked = {"4": f"10.{m}.0.2", "6": f"fd0{m}::2"}
        ping = ("ping", "-c1", "-W1", "-s", "1200")
        ways = [key for key, to in asked.items() if lab.nodes[f"host{n}"].run(*ping, to, check=False).code == 0]
        if ways:
            found.add((near, far if len(ways) == 2 else far + ways[0]))
    return found


def bare(lab: Lab) -> int:
    shown = lab.wan.run("nft", "list", "table", "bridge", "bare").stdout
    return sum(map(int, re.findall(r"counter packets (\d+)", shown)))


def tunnel_of(node: LabNode) -> str:
    return node.run("ls", "/etc/vpneval").stdout.strip()


@pytest.mark.parametrize(
    ("name", "joined"),
    [
        pytest.param("wireguard_go", True, marks=pytest.mark.smoke),
        *(("wireguard_go", False), ("openvpn", True), ("openvpn", False), ("ipsec_user", True), ("ipsec_user", False)),
    ],
)
def test_spokes_reach_the_hub_and_each_other_only_where_that_is_asked_for(
    image: Image, tmp_path: Path, name: str, joined: bool
) -> None:
    with namespace_lab(image, logs=tmp_path, sites=mesh_sites(4)) as lab:
        prepare(lab)
        gateways = set_up(lab, name, tmp_path, joined=joined)
        wanted = {pair for pair in permutations(GATEWAYS, 2) if joined or "hub" in pair}
        try:
            wait_until(lambda: answered(lab) == wanted, "every pair", 20, 0.5)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {sorted(answered(lab) ^ wanted)}") from late
        steady = lab.nodes["host1"].spawn("ping", "-i", "0.1", "10.4.0.2", log="steady")
        rome = gateways["rome"]
        rome.run("systemctl", "stop", f"vpneval-tunnel@{tunnel_of(rome)}")
        said = gateways["hub"].run("/root/tunnel/check.sh", check=False, timeout=60)
        assert (said.code, "no answer from rome at 10.3.0.1" in said.stderr) == (7, True), said
        left = {pair for pair in wanted if "rome" not in pair}
        assert answered(lab) == left
        assert bare(lab) == 0, "in the clear"
        rome.run("/root/tunnel/down.sh")
        assert answered(lab) == left
        assert is_up(gateways["berlin"])
        steady.stop()
        numbers = {int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", lab.nodes["host1"].read_log("steady"))}
        assert not {*range(1, max(numbers) - 1)} - numbers, "what berlin has sent meanwhile"

        up(rome)  # once more, and then nobody
        wait_until(lambda: answered(lab) == wanted, "every pair again", 60, 0.5)
        for site in ("hub", "berlin", "paris", "rome"):
            gateways[site].run("systemctl", "stop", f"vpneval-tunnel@{tunnel_of(gateways[site])}")
        seen = bare(lab)  # of when rome was open
        assert answered(lab) == set()
        assert bare(lab) == seen, "in the clear"
        for node in gateways.values():
            node.run("/root/tunnel/down.sh")
            node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        answered(lab)
        assert bare(lab) > seen, "a packet in the clear: the control"


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "ipsec_user"])
def test_a_spoke_comes_later_and_the_others_keep_what_they_have(image: Image, tmp_path: Path, name: str) -> None:
    with namespace_lab(image, logs=tmp_path, sites=mesh_sites(4)) as lab:
        prepare(lab)
        gateways = set_up(lab, name, tmp_path, joined=False, without="rome")
        old, hub = tunnel_of(gateways["hub"]), gateways["hub"]
        made = vpneval(
            *("tunnel", "upgrade", tmp_path / "out", "--write", tmp_path / "next"),
            *("--site", inventory(tmp_path, joined=False)),
        )
        assert made.returncode == 0, made.stderr
        gateways["rome"] = lab.nodes["gw3"]
        for site, args in (("hub", f"--replace {old}"), ("rome", "")):
            copied(tmp_path / "next", gateways[site], "next", site)
            up(gateways[site], "next", args)
        assert tunnel_of(gateways["rome"]) == tunnel_of(hub) != old
        for site, node in gateways.items():
            checked(site, node, "next" if site in ("hub", "rome") else "tunnel")
        assert bare(lab) == 0, "in the clear"
