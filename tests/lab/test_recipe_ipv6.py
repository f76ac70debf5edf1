"""Recipes for sites that have IPv6: it goes through the tunnel or nowhere, and all of it is undone."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.software.image import Image
from tests.lab.by_hand import GIVE, PASSING, TAKE, daemons, is_up, print_and_paste, script, two_gateways, write_and_run

BARE = """table bridge bare6 {
    chain forward {
        type filter hook forward priority 0; policy accept;
        ip6 daddr fd00::/8 counter
    }
}
"""
SITES = "".join(
    f"""[gw{n}]
address = "192.168.0.{n}"
wan_address = "192.168.0.{n}"
network = "10.{n}.0.0/24"
network_ipv6 = "fd0{n}::/64"
"""
    for n in (1, 2)
)
LOOKS = (
    *("ip -6 -o addr", "ip -6 route show table all", "nft list tables", "sysctl net.ipv6.conf.all.forwarding"),
    "sysctl -ar ^net.ipv6.conf.(lan0|wan0).accept_ra$",
)
FAR = "fd02::2"
pytestmark = pytest.mark.timeout(300)


def six(lab: Lab) -> None:
    """IPv6 in the sites and on the WAN, and a default route to it: what is not in the tunnel leaves in the clear."""
    for site in lab.sites:
        gateway, host, other = lab.gateway(site), lab.nodes[f"host{site.number}"], 3 - site.number
        for node in (gateway, host):
            node.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
        gateway.run("sysctl", "-qw", "net.ipv6.conf.wan0.accept_ra=1")
        batch(gateway, f"addr add {site.lan_address_ipv6}/64 dev lan0 nodad")
        batch(gateway, f"addr add 2001:db8::{site.number}/64 dev wan0 nodad", f"route add ::/0 via 2001:db8::{other}")
        batch(host, f"addr add {site.host_ipv6}/64 dev eth0 nodad", f"route add ::/0 via {site.lan_address_ipv6}")
    lab.wan.run("nft", "-f", "-", input=BARE)


def bare(lab: Lab) -> int:
    """Packets between the sites' IPv6 addresses that the WAN has seen in the clear."""
    return int(re.findall(r"packets (\d+)", lab.wan.run("nft", "list", "table", "bridge", "bare6").stdout)[0])


def answers(lab: Lab) -> bool:
    return lab.host1.run("ping", "-6", "-c1", "-W1", FAR, check=False).code == 0


def carries(near: LabNode, far: LabNode, to: str) -> None:
    """Much TCP by IPv6."""
    taking = far.spawn("python3", "-c", TAKE.replace("create_server(('', 7777)", SERVER), log="take")
    wait_until(lambda: ":7777 " in far.run("ss", "-Hltn").stdout, "somebody who takes", 10)
    near.run("python3", "-c", GIVE, to, timeout=60)
    wait_until(lambda: "3000000" in far.read_log("take"), f"all of it: {far.read_log('take')}", 30)
    taking.stop()


SERVER = "create_server(('::', 7777), family=socket.AF_INET6"


def state(node: LabNode) -> set[str]:
    lines = {line for look in LOOKS for line in node.run(*look.split(), check=False).stdout.splitlines()}
    return {re.sub(r"expires \S+|pref \S+", "", line).strip() for line in lines if not PASSING.match(line)}


def goes(lab: Lab, before: dict[str, set[str]]) -> None:
    for site in reversed(lab.sites):
        node = lab.gateway(site)
        node.run("/root/tunnel/down.sh")
        with suppress(TimeoutError):
            wait_until(lambda node=node: state(node) == before[node.name], "", 10)  # type: ignore[misc]
        assert state(node) ^ before[node.name] == set(), node.name


def in_the_clear(lab: Lab) -> None:
    """The control: without a recipe such packets are seen."""
    seen = bare(lab)
    for site in lab.sites:
        lab.gateway(site).run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        batch(lab.gateway(site), f"route replace ::/0 via 2001:db8::{3 - site.number} dev wan0")
    wait_until(lambda: answers(lab) or bare(lab) > seen, "a packet in the clear", 10)
    assert bare(lab) > seen


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param("wireguard_go", "written", marks=pytest.mark.smoke),
        *((name, "written") for name in ("openvpn", "openvpn_tap", "tinc", "ipsec_user", "openconnect", "fastd")),
        ("openvpn", "pasted"),
        ("wireguard_go", "without IPv4 on the WAN"),
    ],
)
def test_a_recipe_carries_ipv6(image: Image, tmp_path: Path, name: str, form: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        six(lab)
        gateways = [lab.gateway(site) for site in lab.sites]
        if "without" in form:
            for node in gateways:
                node.run("ip", "-4", "addr", "flush", "dev", "wan0")
        before = {node.name: state(node) for node in gateways}
        if form != "pasted":
            own = re.compile(r'ddress = "192.168.0.(.)"').sub(r'ddress = "2001:db8::\1"', SITES)
            (tmp_path / "sites.toml").write_text(own if "without" in form else SITES)
            write_and_run(lab, name, tmp_path, "--site", str(tmp_path / "sites.toml"))
        else:
            print_and_paste(lab, name, "--set", "inner=both")
        for node in gateways:
            wait_until(lambda node=node: is_up(node), f"check.sh of {node.name}", 40, 0.5)  # type: ignore[misc]
        wait_until(lambda: answers(lab), "the far host's answer by IPv6", 10, 0.2)
        carries(lab.host1, lab.host2, FAR)
        carries(lab.host2, lab.host1, "fd01::2")
        # Nothing in the clear while its daemons are dead, and back with them.
        near, pinging, was = (
            gateways[0],
            lab.host1.spawn("ping", "-6", "-i", "0.1", FAR, log="pinging"),
            script(gateways[0]),
        )
        near.run("kill", "-KILL", *daemons(near))
        wait_until(lambda: script(near) not in ("", was), "the start of another tunnel", 40)
        wait_until(lambda: answers(lab), "the far host's answer by IPv6 once more", 80, 0.5)
        pinging.stop()
        assert bare(lab) == 0
        goes(lab, before)
        in_the_clear(lab)


@pytest.mark.smoke
def test_ipv6_that_a_vpn_does_not_carry_is_dropped(image: Image, tmp_path: Path) -> None:
    with two_gateways(image, tmp_path) as lab:
        six(lab)
        for site in lab.sites:
            lab.gateway(site).run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        before = {site.name: state(lab.gateway(site)) for site in lab.sites}
        (tmp_path / "sites.toml").write_text(SITES)
        write_and_run(lab, "nebula", tmp_path, "--site", str(tmp_path / "sites.toml"))
        wait_until(lambda: is_up(lab.gateway(lab.sites[0])), "check.sh", 40, 0.5)
        seen = bare(lab)
        assert not answers(lab)
        assert bare(lab) == seen
        goes(lab, before)
        in_the_clear(lab)


def test_what_somebody_has_set_since_stays_as_it_is(image: Image, tmp_path: Path) -> None:
    setting = "net.ipv6.conf.wan0.accept_ra"
    with two_gateways(image, tmp_path) as lab:
        six(lab)
        (tmp_path / "sites.toml").write_text(SITES)
        write_and_run(lab, "wireguard_go", tmp_path, "--site", str(tmp_path / "sites.toml"))
        near = lab.nodes["gw1"]
        wait_until(lambda: near.run("sysctl", "-n", setting).stdout == "2\n", "the tunnel's value", 20)
        near.run("sysctl", "-qw", f"{setting}=0")
        said = near.run("/root/tunnel/down.sh").stdout
        assert near.run("sysctl", "-n", setting).stdout == "0\n"
        assert "wan0/accept_ra is" not in said
        assert "all/forwarding is 0 again" in said, "the control"
