"""A written recipe for a gateway without a fixed address: the address changes, and the tunnel comes back by itself.

Nothing leaves in the clear meanwhile. The name of a gateway is one of the other's /etc/hosts.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.choice.musts import states
from runner.data.shipped_runs import shipped_runs
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.software.image import Image
from tests.lab.by_hand import answers, bare_packets, carries, is_up, name_of, two_gateways, write_and_run

OWN = {"gw1": "192.168.0.1", "gw2": "192.168.0.2"}
OWN_IPV6 = {"gw1": "2001:db8::1", "gw2": "2001:db8::2"}
BACK_WITHIN_S = {"udp": 60, "tcp": 150}  # by TCP, the answering end first gives up the connection of before
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Case:
    """Which gateway moves, what the inventory has of each, and what is asked for beside. ``own``: their addresses."""

    moves: str
    told: dict[str, dict[str, object]]
    options: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)  # gateway -> the name that the other one asks for
    own: dict[str, str] = field(default_factory=lambda: OWN)


CASES = {
    "gw1 dials": Case("gw1", {"gw1": {"dials": True}}),
    "must": Case("gw1", {}, ("--must", "no-fixed-address")),
    "gw1 has a name": Case(
        "gw1", {"gw1": {"public_address": "branch.dyn.example.org"}}, names={"gw1": "branch.dyn.example.org"}
    ),
    "gw2 has a name": Case(
        "gw2", {"gw2": {"public_address": "hub.dyn.example.org"}}, names={"gw2": "hub.dyn.example.org"}
    ),
}
NAMES = {"gw1": "branch.dyn.example.org", "gw2": "hub.dyn.example.org"}
IN_IPV6 = {
    "gw1 dials, IPv6": replace(CASES["gw1 dials"], own=OWN_IPV6),
    "both have names, IPv6": Case(
        "gw2", {own: {"public_address": name} for own, name in NAMES.items()}, names=NAMES, own=OWN_IPV6
    ),
}
BOTH = ("wireguard_go", "openvpn", "openvpn_tap", "openvpn_tcp", "ipsec_user", "fastd", "nebula", "tinc")
DIALING = ("openconnect", "openconnect_tls")


def inventory(folder: Path, case: Case) -> Path:
    lines = []
    for number, (name, own) in enumerate(case.own.items(), 1):
        table: dict[str, object] = {"address": own, "wan": "wan0", "wan_address": own}
        table |= {"network": f"10.{number}.0.0/24", "network_address": f"10.{number}.0.1"} | case.told.get(name, {})
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path = folder / "sites.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def add_ipv6(lab: Lab) -> None:
    """The path has IPv6, too."""
    for name, own in OWN_IPV6.items():
        lab.nodes[name].run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
        batch(lab.nodes[name], f"addr add {own}/64 dev wan0 nodad")


def say_name(lab: Lab, case: Case, address: str) -> None:
    """What the resolver of the other gateway says."""
    for mine, name in case.names.items():
        other, now = lab.nodes["gw2" if mine == "gw1" else "gw1"], address if mine == case.moves else case.own[mine]
        other.write("/etc/hosts", f"127.0.0.1 localhost\n{now} {name}\n", 0o644)


def moved(node: LabNode, own: str) -> str:
    """Give a gateway another address; the old one is gone."""
    new, prefix = f"{own[:-1]}10{own[-1]}", "64" if ":" in own else "24"
    node.run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
    nodad = " nodad" if ":" in own else ""
    batch(node, f"addr add {new}/{prefix} dev wan0{nodad}", f"addr del {own}/{prefix} dev wan0")
    return new


def messages(lab: Lab) -> str:
    said = [
        f"{node.run('/root/tunnel/check.sh', check=False, timeout=60)}\n"
        f"{node.run('sh', '-c', 'tail -n 60 /var/log/vpneval-tunnel@*.log').stdout}"
        for node in (lab.nodes["gw1"], lab.nodes["gw2"])
    ]
    return "\n".join(said)


def both_up(lab: Lab, within_s: float) -> None:
    for name in OWN:
        try:
            wait_until(lambda name=name: is_up(lab.nodes[name]), f"check.sh of {name}", within_s, 0.5)  # type: ignore[misc]
        except TimeoutError as late:
            raise AssertionError(f"{late}: {messages(lab)}") from late


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, way) for name in BOTH for way in CASES),
        *((name, way) for name in DIALING for way in list(CASES)[:3]),
        *((name, way) for name in BOTH for way in IN_IPV6 if load_vpn(name).outer_ipv6),
        *((name, "gw1 dials, IPv6") for name in DIALING),
    ],
)
def test_a_tunnel_comes_back_after_an_address_changed(image: Image, tmp_path: Path, name: str, way: str) -> None:
    case = (CASES | IN_IPV6)[way]
    with two_gateways(image, tmp_path) as lab:
        if way in IN_IPV6:
            add_ipv6(lab)
        say_name(lab, case, case.own[case.moves])
        write_and_run(lab, name, tmp_path, "--site", str(inventory(tmp_path, case)), *case.options)
        both_up(lab, 60)
        seen, own = bare_packets(lab), case.own[case.moves]
        files = lab.nodes[case.moves].run("sh", "-c", f"grep -rlwF {own} /root/tunnel/files || true").stdout
        assert not files, "no file of the gateway that moves has its address"
        pinging = lab.host1.spawn("ping", "-i", "0.2", "10.2.0.2", log="pinging")
        new = moved(lab.nodes[case.moves], own)
        say_name(lab, case, new)
        try:
            wait_until(lambda: answers(lab), "the far host's answer", BACK_WITHIN_S[load_vpn(name).transport], 0.2)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {messages(lab)}") from late
        both_up(lab, 30)
        carries(lab)
        pinging.stop()
        assert bare_packets(lab) == seen, "while it was down, packets left in the clear"


def test_check_says_what_is_wrong_when_the_port_is_away(image: Image, tmp_path: Path) -> None:
    """It ends with a verdict, and with no message of a command that it called: with the address gone, with the port
    down, and with a name that nobody knows."""
    case = CASES["gw2 has a name"]
    with two_gateways(image, tmp_path) as lab:
        say_name(lab, case, OWN["gw2"])
        write_and_run(lab, "wireguard_go", tmp_path, "--site", str(inventory(tmp_path, case)))
        both_up(lab, 60)
        near = lab.nodes["gw1"]
        near.write("/etc/hosts", "127.0.0.1 localhost\n", 0o644)
        near.run("ip", "link", "set", "wan0", "down")
        for step in (("ip", "addr", "flush", "dev", "wan0"), ("ip", "link", "del", "wg0"), ("true",)):
            done = near.run("/root/tunnel/check.sh", check=False, timeout=60)
            verdict = json.loads(near.run("/root/tunnel/check.sh", "--json", check=False, timeout=60).stdout)
            assert done.code == verdict["code"] == 7, verdict
            assert verdict["tunnel"] == name_of(near)
            assert "hub.dyn.example.org has no address now" in verdict["text"]
            assert not [line for line in done.stderr.splitlines() if "/sys/class" in line or "check.sh: line" in line]
            near.run(*step)


def test_who_is_shown_to_come_back_has_a_recipe_that_does() -> None:
    (run, trials), *earlier = shipped_runs()
    shown = [name for name, own in states(run, trials, earlier).items() if own["no-fixed-address"].word == "shown"]
    assert shown
    assert [load_vpn(name).roams for name in (*BOTH, *DIALING)] == ["both"] * len(BOTH) + ["dialing"] * len(DIALING)
    assert {*shown} <= {*BOTH, *DIALING}, "each has its trial here"
