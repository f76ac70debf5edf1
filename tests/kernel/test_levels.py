"""Every cipher and integrity level of the VPNs that need a guest kernel: tests/kernel/levels_inside.py."""

import pytest

from runner.catalogue import load_vpn
from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.levels_inside import RELOADED, STARTED, levels

pytestmark = pytest.mark.timeout(WITHIN_S + 60)
INSIDE = "tests/kernel/levels_inside.py"


@pytest.fixture(scope="module")
def ciphers_inside(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["ciphers_inside"].outcomes()


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name in (*RELOADED, *STARTED) for level in levels(load_vpn(name))]
)
def test_a_level_is_negotiated_and_proven(ciphers_inside: dict[str, str], name: str, level: str) -> None:
    assert ciphers_inside[f"{INSIDE}::test_level[{name}-{level}]"] == "passed"
