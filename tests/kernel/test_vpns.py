"""The VPNs that need a guest kernel: each held to the contract in one, by tests/kernel/vpns_inside.py."""

import pytest

from runner import kernels, layers
from runner.errors import CannotRunHere
from runner.image import open_image
from tests.kernel.inside import start
from tests.kernel.vpns_inside import NAMES, OLDER

INSIDE = "tests/kernel/vpns_inside.py"
EVERY = (*OLDER, *NAMES)
LACKING = {"l2tpv3": "the kernel has no L2TPv3: "}  # User Mode Linux 6.1 has L2TP without its version 3

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def outcomes(uml: kernels.Uml, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead. Two guests, because each has one CPU, share the VPNs."""
    try:
        open_image("bookworm", say=print)
        layers.build("libreswan", "trixie", print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    guests = [
        start("tests.kernel.vpns_inside", tmp_path_factory.mktemp("vpns"), *names)
        for names in (EVERY[::2], EVERY[1::2])
    ]
    return {test: outcome for guest in guests for test, outcome in guest.outcomes().items()}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in LACKING])
def test_a_vpn_of_a_guest_kernel_keeps_the_contract(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[f"{INSIDE}::test_contract[{name}]"] == "passed"


@pytest.mark.parametrize("name", LACKING)
def test_what_this_kernel_lacks_is_said_in_the_tools_words(outcomes: dict[str, str], name: str) -> None:
    assert LACKING[name] in outcomes[f"{INSIDE}::test_contract[{name}]"]
