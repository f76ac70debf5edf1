"""What check.sh and up.sh say of a gateway where something is in the way: the true cause, and lines that mend it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.lab.node import Completed, LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from tests.lab.by_hand import answers, closing, is_up, name_of, two_gateways, write_and_run
from tests.lab.commands import vpneval
from tests.lab.test_recipe_by_hand import Tunnel

# What drops what hosts send -> the commands, and how the line that check.sh says begins.
FIREWALLS = {
    "iptables": ("iptables -P FORWARD DROP", "iptables -I FORWARD -s"),
    "an older iptables": ("iptables-legacy -P FORWARD DROP", "iptables-legacy -I FORWARD -s"),
    "Docker's": ("iptables -P FORWARD DROP; iptables -N DOCKER-USER; iptables -A FORWARD -j DOCKER-USER",
                 "iptables -I DOCKER-USER -s"),
    "an own table": ("nft 'table inet own { chain f { type filter hook forward priority 10; policy drop; }; }'",
                     "nft insert rule inet own f"),
    "a rule in a chain below": (
        "nft 'table inet own { chain below { ip daddr 10.2.0.0/24 drop; }; "
        "chain f { type filter hook forward priority 0; jump below; }; }'", "nft insert rule inet own below"),
}  # fmt: skip
NOTHING = """
    nft delete table inet own
    iptables -P FORWARD ACCEPT; iptables -F; iptables -X
    iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F
    true
"""
SIX = "".join(
    f"""[gw{n}]
address = "192.168.0.{n}"
wan_address = "192.168.0.{n}"
network = "10.{n}.0.0/24"
network_ipv6 = "2001:db8:{n}::/64"
"""
    for n in (1, 2)
)
pytestmark = pytest.mark.timeout(300)


@contextmanager
def deployed(image: Image, folder: Path, name: str = "wireguard_go") -> Iterator[tuple[Lab, LabNode]]:
    """A tunnel that is up, and the gateway of the near site."""
    with two_gateways(image, folder) as lab:
        write_and_run(lab, name, folder)
        Tunnel(lab, name).works()
        yield lab, lab.nodes["gw1"]


def checked(node: LabNode) -> Completed:
    return node.run("/root/tunnel/check.sh", check=False, timeout=60)


def lines(said: str) -> list[str]:
    """The commands in what check.sh has said."""
    return [line.strip() for line in said.splitlines() if line.startswith("    ")]


def names_the_firewall(lab: Lab, near: LabNode, firewall: str) -> None:
    """Hosts reach nobody, and check.sh does not say that the tunnel is up; after its lines it does, and they do."""
    drops, line = FIREWALLS[firewall]
    near.run("bash", "-ec", drops)
    assert not answers(lab)
    said = checked(near)
    assert said.code == 9, said
    assert len(lines(said.stderr)) == 2
    assert all(each.startswith(line) for each in lines(said.stderr)), said.stderr
    near.run("bash", "-ec", "\n".join(lines(said.stderr)))
    assert answers(lab)
    assert checked(near).code == 0
    near.run("bash", "-c", NOTHING)


def test_a_rule_by_a_packets_mark_is_named(image: Image, tmp_path: Path) -> None:
    """As mwan3 has it: the firewall marks what comes in, and a rule sends what is marked by another table."""
    marks = (
        "nft 'table ip marks { chain p { type filter hook prerouting priority mangle; iif lan0 meta mark set 7; }; }'"
    )
    with deployed(image, tmp_path) as (lab, near):
        near.run(
            "sh", "-ec", f"{marks}; ip route add default via 192.168.0.2 table 100; ip rule add fwmark 7 table 100"
        )
        assert not answers(lab)
        said = checked(near)
        assert "fwmark 0x7 lookup 100" in said.stderr, said
        near.run("sh", "-ec", "\n".join(lines(said.stderr)))
        assert answers(lab)
        assert checked(near).code == 0


@pytest.mark.parametrize("name", ["openvpn", "ipsec_user"])
def test_the_firewall_that_drops_what_hosts_send_is_named(image: Image, tmp_path: Path, name: str) -> None:
    with deployed(image, tmp_path, name) as (lab, near):
        for firewall in FIREWALLS:
            names_the_firewall(lab, near, firewall)


def test_a_firewall_a_foreign_directory_and_ipv6(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (lab, near):
        names_the_firewall(lab, near, "an own table")
        takes_no_foreign_directory(lab, tmp_path)
        ipv6_is_said_and_closed(lab, near, tmp_path)
        was = near.run("sh", "-c", "ip -o link; ip netns; nft list tables").stdout
        assert "check" not in was, "check.sh takes back what it made"


def takes_no_foreign_directory(lab: Lab, folder: Path) -> None:
    """Another recipe's directory, in place of the first and copied into it, and that of the other gateway."""
    near = lab.nodes["gw1"]
    root = Path(f"/proc/{near.pid}/root/root")
    assert vpneval("recipe", "openvpn", "--write", folder / "second").returncode == 0
    (second,) = (folder / "second").glob("*-gw1")
    shutil.copytree(second, root / "tunnel" / second.name)
    said = near.run("/root/tunnel/up.sh", check=False, timeout=60)
    assert said.code == 1, said
    assert second.name in said.stderr
    assert name_of(near) in checked(near).stdout, "which tunnel was checked"
    inner = near.run(f"/root/tunnel/{second.name}/up.sh", check=False)
    assert f"The tunnel {name_of(near)} leads to 10.2.0.0/24 already" in inner.stderr
    assert "not set up here" in near.run(f"/root/tunnel/{second.name}/check.sh", check=False).stderr
    shutil.rmtree(root / "tunnel" / second.name)
    (other,) = (folder / "second").glob("*-gw2")
    shutil.copytree(other, root / other.name)
    assert "does not have the address 192.168.0.2 of gw2" in near.run(f"/root/{other.name}/up.sh", check=False).stderr
    assert checked(near).code == 0, "the first tunnel is as it was"


def ipv6_is_said_and_closed(lab: Lab, near: LabNode, folder: Path) -> None:
    """Hosts with IPv6 reach each other past a tunnel of IPv4; check.sh says so, and what it advises closes it."""
    far = lab.nodes["gw2"]
    for number, node in ((1, near), (2, far)):
        for port, address in (("lan0", f"2001:db8:{number}::1/64"), ("wan0", f"2001:db8::{number}/64")):
            node.run("ip", "addr", "add", address, "dev", port, "nodad")
        node.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        node.run("ip", "-6", "route", "add", f"2001:db8:{3 - number}::/64", "via", f"2001:db8::{3 - number}")
        host = lab.nodes[f"host{number}"]
        host.run("ip", "addr", "add", f"2001:db8:{number}::2/64", "dev", "eth0", "nodad")
        host.run("ip", "-6", "route", "add", "default", "via", f"2001:db8:{number}::1")
    ping = ("ping", "-c1", "-W1", "2001:db8:2::2")
    wait_until(lambda: lab.host1.run(*ping, check=False).code == 0, "IPv6 past the tunnel: the control", 10)
    said = checked(far)
    assert said.code == 0
    assert "2001:db8:2::/64" in said.stdout
    assert "network_ipv6" in said.stdout
    (folder / "sites.toml").write_text(SIX)
    old = name_of(near)
    options = ("--site", str(folder / "sites.toml"))
    write_and_run(lab, "wireguard_go", folder / "six", *options, directory="six", args=f"--replace {old}")
    for node in (near, far):
        wait_until(lambda node=node: is_up(node, "six"), f"check.sh of {node.name}", 40, 0.5)  # type: ignore[misc]
    wait_until(lambda: lab.host1.run(*ping, check=False).code == 0, "IPv6 through the tunnel", 10)
    assert "drop" in near.run("nft", "list", "table", "ip6", closing(near, "six")).stdout
