"""The recipes of VPNs in the kernel, by hand, in a guest that has them: run there by tests/kernel/test_recipes.py.

usage: python -m tests.kernel.recipes_inside [--kernel qemu] FOLDER [VPN…]   (report.xml goes to FOLDER)
User Mode Linux has no nftables for IPv4: there, a policy of IPsec is what closes the way past a tunnel.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

from runner.lab import kernels
from runner.lab.node import LabNode, wait_until
from runner.lab.software.image import Image, open_image
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import LEAN, OLDER
from tests.lab.by_hand import bare_packets, script, two_gateways
from tests.lab.test_closed import BACK, EVENTS, happens, holds, in_use, stop
from tests.lab.test_recipe_by_hand import FORMS, Tunnel, goes_by_hand
from tests.lab.test_same_network import connects

NAMES = ("ipsec", "gre_ipsec")
DEBIANS = ("wireguard", "ipsec", "gre_ipsec")  # User Mode Linux has no WireGuard and no nftables
FILES = {"/etc/strongswan.d/zz-lean.conf": LEAN}  # a guest takes 13 s to load all of strongSwan's plugins
# All of tests/lab/test_closed.py, in two parts: a guest in software emulation takes up to two minutes for each.
RULES = ("masquerading", "masquerading of everything", "policy routing", "routes flushed", "firewall loaded anew")
PARTS = {"rules": RULES, "restarts": tuple(event for event in EVENTS if event not in RULES)}
WITHOUT_NFTABLES = ("policy routing", "daemons killed", "networkd started anew", "routes flushed", "rebooted")
OPEN = "test_a_device_that_a_daemons_child_makes_is_all_that_is_open"
SAME = "test_sites_with_the_same_network"
CLOSED = {"uml": "test_a_policy_closes_it_without_nftables", "qemu": "test_nothing_leaves_in_the_clear"}


@pytest.fixture(scope="module")
def image() -> Image:
    return open_image()


@pytest.mark.parametrize("name", sorted({*NAMES, *DEBIANS}))
@pytest.mark.parametrize("form", FORMS)
def test_a_recipe_by_hand(image: Image, tmp_path: Path, name: str, form: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        for gateway in ("gw1", "gw2"):
            for path, text in FILES.items():
                lab.nodes[gateway].write(path, text)
        goes_by_hand(lab, name, form, tmp_path)


@pytest.mark.parametrize("name", DEBIANS)
def test_sites_with_the_same_network(image: Image, tmp_path: Path, name: str) -> None:
    with two_gateways(image, tmp_path) as lab:
        for gateway in ("gw1", "gw2"):
            for path, text in FILES.items():
                lab.nodes[gateway].write(path, text)
        connects(lab, name, tmp_path)


@pytest.mark.parametrize("name", DEBIANS)
@pytest.mark.parametrize("part", PARTS)
def test_nothing_leaves_in_the_clear(image: Image, tmp_path: Path, part: str, name: str) -> None:
    with in_use(image, tmp_path, name, FILES) as (lab, near):
        holds(lab, near, name, PARTS[part])


def exempt(near: LabNode) -> None:
    """Run the line with which check.sh takes what is between the sites out of the gateway's NAT."""
    done = near.run("/root/tunnel/check.sh", "--json", check=False, timeout=120)
    said = json.loads(done.stdout)
    assert (done.code, said["cause"]) == (14, "nat"), said
    assert "has no nftables for IPv4" in said["notes"][0]
    near.run("bash", "-ec", "\n".join(said["lines"]))


@pytest.mark.parametrize("name", ["ipsec"])  # of a tunnel that is a device, a route alone closes it there
def test_a_policy_closes_it_without_nftables(image: Image, tmp_path: Path, name: str) -> None:
    """The gateway masquerades what is between the sites: that is dropped until the line of check.sh was run."""
    with in_use(image, tmp_path, name, FILES) as (lab, near):
        wait_until(lambda: bool(script(near)), "the tunnel's script", 30)
        time.sleep(5)
        seen = bare_packets(lab)
        exempt(near)
        Tunnel(lab, name).works(80)
        for event in WITHOUT_NFTABLES:
            happens(near, event)
            time.sleep(2)
            assert bare_packets(lab) == seen, f"{event}: in the clear"
            if event == "rebooted":
                exempt(near)
            Tunnel(lab, name).works(80)
            assert bare_packets(lab) == seen, f"{event}: in the clear"
        near.run("sh", "-c", BACK)
        stop(near)
        near.run("bash", "-ec", "kill -KILL -- -$(cat /run/vpneval-closed@*.pid); ip route del unreachable 10.2.0.0/24")
        time.sleep(2)
        assert bare_packets(lab) == seen, "in the clear"
        near.run("/root/tunnel/down.sh")
        wait_until(lambda: bare_packets(lab) > seen, "a packet in the clear: the control", 10)


@pytest.mark.parametrize("name", OLDER)
def test_a_device_that_a_daemons_child_makes_is_all_that_is_open(image: Image, tmp_path: Path, name: str) -> None:
    with in_use(image, tmp_path, name) as (lab, near):
        holds(lab, near, name, ("daemons killed",))


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--kernel", default="uml")
    asked.add_argument("--only", help="pytest's -k")
    asked.add_argument("folder", type=Path)
    asked.add_argument("names", nargs="*")
    wanted = asked.parse_args()
    (kernel,) = kernels.parse(wanted.kernel, several=False)
    names = wanted.names or ((*NAMES, *OLDER) if wanted.kernel == "uml" else DEBIANS)
    tests = [f"{__file__}::{OPEN}[{name}]" for name in names if name in OLDER]
    names = [name for name in names if name not in OLDER]
    tests += [f"{__file__}::test_a_recipe_by_hand[{form}-{name}]" for name in names for form in FORMS]
    closed = CLOSED[wanted.kernel.partition(":")[0]]
    if wanted.kernel == "uml":
        tests += [f"{__file__}::{closed}[{name}]" for name in names if name == "ipsec"]
    else:
        tests += [f"{__file__}::{closed}[{part}-{name}]" for name in names for part in PARTS]
        tests += [f"{__file__}::{SAME}[{name}]" for name in names]
    options = ["-q", "-rA", "-s", "--timeout=7200", *(["-k", wanted.only] if wanted.only else [])]
    return in_guest(wanted.folder, [*options, *tests], images=("trixie", "bookworm"), kernel=kernel)


if __name__ == "__main__":
    sys.exit(main())
