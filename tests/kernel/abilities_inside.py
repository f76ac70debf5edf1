"""What the plugins of a guest kernel declare that their VPN can do, tried in one: run by ``make test-abilities``, or by
hand.

Everything that is declared, by the lab's own functions (tests/lab/: test_abilities.py, test_carried.py, test_mesh.py),
and of what is carried also that no more is. One lab for all but the meshes, put in order after each: a lab costs 10 s
and more in a guest.
usage: python -m tests.kernel.abilities_inside [--kernel qemu] FOLDER [VPN or ability…]   (report.xml goes to FOLDER)
Boots User Mode Linux, or Debian's kernel for what that lacks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab import kernels
from runner.lab.shape.site_to_site import SITES, Lab, address
from runner.lab.software.image import DEFAULT, open_image
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import DEBIANS, NAMES, OLDER, empty, lab, older_lab
from tests.lab.test_abilities import (
    LabFor,
    carries_ipv6,
    does_not_roam,
    passes_a_nat,
    passes_by_tcp_443,
    roams,
    travels_over_ipv6,
)
from tests.lab.test_applications import told_apart
from tests.lab.test_carried import carries_what_is_declared
from tests.lab.test_mesh import four_sites_meet

__all__ = ["lab", "older_lab"]  # fixtures

ABILITIES = {name: load_vpn(name).declared.abilities for name in sorted({*NAMES, *OLDER, *DEBIANS})}
DECLARED = {  # test -> the VPNs that it tries
    "carried": [*ABILITIES],
    "ipv6_inside": [name for name, able in ABILITIES.items() if "IPv6" in able.inner],
    "ipv6_outside": [name for name, able in ABILITIES.items() if "IPv6" in able.outer],
    "nat": [name for name, able in ABILITIES.items() if able.nat],
    "tcp_443": [name for name, able in ABILITIES.items() if able.tcp_443],
    "roaming": [name for name, able in ABILITIES.items() if able.roaming],
    "no_roaming": ["ipsec_ikev1"],  # the control
    "applications": ["ipsec"],
    "mesh": [name for name, able in ABILITIES.items() if able.mesh],
}
# What the tests change on a node beside the VPN's own: addresses, the WAN's bridge, its filters, its NAT.
RESTORE = r"""
for path in /sys/class/net/*; do
    port=${path##*/}
    [ $port = lo ] || { ip addr flush dev $port; ip link set $port down; }
done
ip link del br0 2>/dev/null
nft flush ruleset
iptables-legacy -t nat -F 2>/dev/null
sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.default.disable_ipv6=1
:
"""


@pytest.fixture
def lab_for(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LabFor]:
    """The lab whose gateways have the software of the VPN of that name, as new."""
    taken: list[Lab] = []

    def opened(name: str) -> Lab:
        found: Lab = request.getfixturevalue("older_lab" if name in OLDER else "lab")
        taken.append(found)
        for node in found.nodes.values():
            node.log_to(tmp_path)
        return found

    yield opened
    for found in taken:
        empty(found)
        for node in found.nodes.values():
            node.run("sh", "-c", RESTORE)
        found.sites = SITES
        address(found.nodes)


@pytest.mark.parametrize("name", DECLARED["carried"])
def test_carried(lab_for: LabFor, name: str) -> None:
    carries_what_is_declared(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["ipv6_inside"])
def test_ipv6_inside(lab_for: LabFor, name: str) -> None:
    carries_ipv6(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["ipv6_outside"])
def test_ipv6_outside(lab_for: LabFor, name: str) -> None:
    travels_over_ipv6(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["nat"])
def test_nat(lab_for: LabFor, name: str) -> None:
    passes_a_nat(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["tcp_443"])
def test_tcp_443(lab_for: LabFor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes_by_tcp_443(lab_for(name), load_vpn(name), monkeypatch)


@pytest.mark.parametrize("name", DECLARED["roaming"])
def test_roaming(lab_for: LabFor, name: str) -> None:
    roams(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["no_roaming"])
def test_no_roaming(lab_for: LabFor, name: str) -> None:
    does_not_roam(lab_for(name), load_vpn(name))


@pytest.mark.parametrize("name", DECLARED["applications"])
def test_applications(lab_for: LabFor, name: str) -> None:
    assert told_apart(lab_for(name), load_vpn(name)) == 1


@pytest.mark.parametrize("name", DECLARED["mesh"])
def test_mesh(name: str, tmp_path: Path) -> None:
    four_sites_meet(load_vpn(name), open_image("bookworm" if name in OLDER else DEFAULT), tmp_path)


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--kernel", default="uml")
    asked.add_argument("folder", type=Path)
    asked.add_argument("wanted", nargs="*", help="VPN, ability (of that kernel's VPNs), or ability-VPN; all of these")
    given = asked.parse_args()
    (kernel,) = kernels.parse(given.kernel, several=False)
    here = {*DEBIANS} if given.kernel != "uml" else {*NAMES, *OLDER} - {*DEBIANS}
    chosen = [
        f"{__file__}::test_{ability}[{name}]"
        for ability, names in DECLARED.items()
        for name in names
        if {name, f"{ability}-{name}"} & {*given.wanted}
        or (name in here and (not given.wanted or ability in given.wanted))
    ]
    options = ["-v", "-s", "-ra", f"--timeout={1500 if given.kernel != 'uml' else 400}", *chosen]
    return in_guest(given.folder, options, ("trixie", "bookworm"), "libreswan", kernel)


if __name__ == "__main__":
    sys.exit(main())
