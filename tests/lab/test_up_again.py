"""up.sh and down.sh where something went on before: a route of the gateway's own, an edit, an end in the middle, rules
that could not be loaded at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.lab.node import LabNode, wait_until
from runner.lab.software.image import Image
from tests.lab.by_hand import copied, is_up, name_of, state, two_gateways, up, written
from tests.lab.test_checked import deployed
from tests.lab.test_monitor import CLOSE

OWN = "10.2.0.0/24 via 192.168.0.2 dev wan0"
pytestmark = pytest.mark.timeout(300)


def routes(node: LabNode) -> str:
    return node.run("ip", "-4", "route", "show").stdout


def table(node: LabNode) -> str:
    return node.run("nft", "list", "table", "ip", f"vpneval_closed_{name_of(node)}", check=False).stdout


def edit(node: LabNode, file: str, script: str) -> None:
    """Change a file of the directory."""
    node.run("sed", "-i", script, f"/root/tunnel/files/etc/vpneval/{name_of(node)}/{file}")


@pytest.mark.smoke
def test_a_route_of_the_gateways_own_is_in_the_way_and_one_with_a_metric_is_not(image: Image, tmp_path: Path) -> None:
    with two_gateways(image, tmp_path) as lab:
        near = lab.nodes["gw1"]
        written("wireguard_go", tmp_path)
        copied(tmp_path / "out", near)
        near.run("ip", "route", "add", *OWN.split())
        was = state(near)
        done = near.run("/root/tunnel/up.sh", check=False, timeout=60)
        assert done.code == 1
        assert OWN in done.stderr
        assert set(state(near)) ^ set(was) == set()
        near.run("ip", "route", "del", *OWN.split())
        (advice,) = [line for line in done.stderr.split(". ") if "ip route add" in line]
        near.run(*advice.partition("as in: ")[2].removesuffix(".").split())  # it is what up.sh has said
        up(near)
        wait_until(lambda: "10.2.0.0/24 dev wg0" in routes(near), "the tunnel's route", 20)
        assert f"{OWN} metric 100" in routes(near)


def test_after_an_edit_what_it_closed_is_open_and_what_it_would_cut_off_is_refused(
    image: Image, tmp_path: Path
) -> None:
    with deployed(image, tmp_path) as (_, near):
        edit(near, "closed.ip", "$ a route add unreachable 10.9.0.0/16 metric 9999")
        near.run("sh", "-c", "cd /root/tunnel && bash up.sh")  # without a slash in its name
        assert "unreachable 10.9.0.0/16" in routes(near)
        edit(near, "closed.ip", "/10.9.0.0/d")
        up(near)
        assert "10.9.0.0" not in routes(near)
        assert "unreachable 10.2.0.0/24" in routes(near), "the control"
        edit(near, "gateway.sh", "s|^closed=[^ ]*|closed='10.2.0.0/24 192.168.0.0/16'|")
        done = near.run("/root/tunnel/up.sh", check=False, timeout=60)
        assert done.code == 1
        assert "192.168.0.1" in done.stderr


@pytest.mark.smoke
def test_an_up_that_was_killed_is_made_up_for_by_the_next_one(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (_, near):
        for number, after_s in enumerate((0.2, 0.4, 0.6, 0.9, 1.3)):
            edit(near, "closed-ip.nft", f"s/    chain to_me {{/    chain mark{number} {{}}\\n&/")
            killed = f"timeout -s KILL {after_s} /root/tunnel/up.sh > /dev/null 2>&1"
            near.run("bash", "-c", f"{CLOSE}; {killed}; pkill -KILL -f '[b]ash /root/tunnel/up'", check=False)
            up(near)
            wait_until(lambda number=number: f"mark{number}" in table(near), f"rules of edit {number}", 10)  # type: ignore[misc]
            assert "meanwhile" not in near.run("nft", "list", "tables").stdout
        wait_until(lambda: is_up(near), "check.sh", 60, 0.5)


def test_rules_that_could_not_be_loaded_are_loaded_as_soon_as_they_can(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (_, near):
        file, unit = f"/etc/vpneval/{name_of(near)}/closed-ip.nft", f"vpneval-closed@{name_of(near)}"
        near.run("cp", file, "/root/kept")
        near.run("sh", "-c", f"echo 'no rule' > {file}")
        near.run(
            "bash",
            "-c",
            f"{CLOSE}; systemctl stop {unit}; nft delete table ip vpneval_closed_{name_of(near)}",
            check=False,
        )
        near.run("bash", "-c", f"{CLOSE}; systemctl start {unit}", check=False, timeout=60)
        assert "drop" not in table(near), "the control"
        near.run("cp", "/root/kept", file)
        wait_until(lambda: "drop" in table(near), "the rules", 10)


def test_down_takes_back_half_an_up_and_says_what_it_gives_back(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (_, near):
        name = name_of(near)
        near.run(
            "sh", "-c", f"rm /etc/systemd/system/vpneval-*; rm /etc/vpneval/{name}/undo /etc/vpneval/{name}/closed.ip"
        )
        said = near.run("/root/tunnel/down.sh").stdout
        assert "ip_forward is 0 again" in said
        assert near.run("cat", "/proc/sys/net/ipv4/ip_forward").stdout.strip() == "0"
        assert "is not set up here" in near.run("/root/tunnel/down.sh").stdout
