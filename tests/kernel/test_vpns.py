"""The VPNs that need a guest kernel: each held to the contract in one, by tests/kernel/vpns_inside.py."""

import pytest

from tests.kernel.inside import Work
from tests.kernel.vpns_inside import NAMES, OLDER, TWINS

INSIDE = "tests/kernel/vpns_inside.py"
EVERY = (*OLDER, *NAMES)
LACKING = {"l2tpv3": "the kernel has no L2TPv3: "}  # User Mode Linux 6.1 has L2TP without its version 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def vpns(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["vpns"].outcomes()


@pytest.mark.parametrize("name", [name for name in EVERY if name not in LACKING])
def test_a_vpn_of_a_guest_kernel_keeps_the_contract(vpns: dict[str, str], name: str) -> None:
    assert vpns[f"{INSIDE}::test_contract[{name}]"] == "passed"


@pytest.mark.parametrize("name", TWINS)
def test_two_of_a_kind_of_a_guest_kernel_stand_in_two_labs_at_once(vpns: dict[str, str], name: str) -> None:
    assert vpns[f"{INSIDE}::test_two_of_a_kind_in_two_labs_at_once[{name}]"] == "passed"


@pytest.mark.parametrize("name", LACKING)
def test_what_this_kernel_lacks_is_said_in_the_tools_words(vpns: dict[str, str], name: str) -> None:
    assert LACKING[name] in vpns[f"{INSIDE}::test_contract[{name}]"]
