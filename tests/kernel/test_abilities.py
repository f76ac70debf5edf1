"""What the VPNs that need a guest kernel declare that they can do: tests/kernel/abilities_inside.py."""

import pytest

from tests.kernel.abilities_inside import DECLARED
from tests.kernel.inside import Work
from tests.kernel.vpns_inside import DEBIANS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
INSIDE = "tests/kernel/abilities_inside.py"


@pytest.fixture(scope="module")
def abilities_inside(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["abilities_inside"].outcomes()


@pytest.mark.parametrize(
    ("ability", "name"),
    [(ability, name) for ability, names in DECLARED.items() for name in names if name not in DEBIANS],
)
def test_what_is_declared_is_so(abilities_inside: dict[str, str], ability: str, name: str) -> None:
    assert abilities_inside[f"{INSIDE}::test_{ability}[{name}]"] == "passed"
