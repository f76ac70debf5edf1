"""What the lab needs of a kernel and many machines' lack, tested inside a guest that has it; run by test_wan.py.

The lab's own tests of the WAN's conditions and of the packet counters, and the plugins' contract. One lab for all,
because a lab costs 10 s in a guest: after each test WAN and gateways are as they were.
usage: python -m tests.kernel.lab_inside FOLDER [pytest's options]   (boots User Mode Linux; report.xml goes to FOLDER)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image, open_image
from tests.contract import contract, this_machine
from tests.kernel.inside import in_guest
from tests.lab.test_packets import set_mtu, test_every_packet_is_counted, test_fragments_are_counted
from tests.lab.test_wan import (
    test_a_kernel_without_netem_is_told_which_rate_it_can_have,
    test_a_known_delay_is_the_round_trip_time,
    test_a_shaped_wan_is_verified_and_a_faster_one_refused,
    test_a_smaller_mtu_is_verified,
    test_delay_and_loss_are_as_asked,
    test_what_was_not_asked_for_is_refused,
)

__all__ = [
    "test_a_kernel_without_netem_is_told_which_rate_it_can_have",
    "test_a_known_delay_is_the_round_trip_time",
    "test_a_shaped_wan_is_verified_and_a_faster_one_refused",
    "test_a_smaller_mtu_is_verified",
    "test_delay_and_loss_are_as_asked",
    "test_every_packet_is_counted",
    "test_fragments_are_counted",
    "test_what_was_not_asked_for_is_refused",
]
CONTRACT = ("ipsec", "ipip")


@pytest.fixture(scope="module")
def image() -> Image:
    return open_image()


@pytest.fixture(scope="module")
def one_lab(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with namespace_lab(image, logs=tmp_path_factory.mktemp("lab")) as up:
        yield up


@pytest.fixture
def lab(one_lab: Lab) -> Iterator[Lab]:
    yield one_lab
    for port in ("gw1", "gw2"):
        one_lab.wan.run("tc", "qdisc", "del", "dev", port, "root", check=False)
    for site in one_lab.sites:
        one_lab.gateway(site).run("ip", "route", "flush", "scope", "global")
    set_mtu(one_lab, 1500)


@pytest.fixture
def far_lab(lab: Lab) -> Lab:
    return lab


@pytest.mark.parametrize("name", CONTRACT)
def test_contract(name: str, tmp_path: Path) -> None:
    contract(NamespaceRig(), name, tmp_path, this_machine)


def main() -> int:
    options = ["-q", "-rA", "--timeout=300", *sys.argv[2:], __file__]
    return in_guest(Path(sys.argv[1]), options)


if __name__ == "__main__":
    sys.exit(main())
