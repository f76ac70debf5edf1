"""What the VPNs that need a guest kernel declare that they can do: tests/kernel/abilities_inside.py, in two guests."""

import pytest

from tests.kernel.abilities_inside import DECLARED
from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.vpns_inside import DEBIANS
from tests.kernel.work import CARRIED, WAY

pytestmark = pytest.mark.timeout(WITHIN_S + 60)
INSIDE = "tests/kernel/abilities_inside.py"


def declared(*abilities: str) -> list[tuple[str, str]]:
    """The VPNs that declare them, but for those of another guest kernel."""
    return [(ability, name) for ability in abilities for name in DECLARED[ability] if name not in DEBIANS]


@pytest.fixture(scope="module")
def carried_inside(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["carried_inside"].outcomes()


@pytest.fixture(scope="module")
def way_inside(begun: dict[str, Work]) -> dict[str, str]:
    """Test -> ``passed``, or what it said instead."""
    return begun["way_inside"].outcomes()


@pytest.mark.parametrize(("ability", "name"), declared(*CARRIED))
def test_what_is_declared_to_be_carried_is(carried_inside: dict[str, str], ability: str, name: str) -> None:
    assert carried_inside[f"{INSIDE}::test_{ability}[{name}]"] == "passed"


@pytest.mark.parametrize(("ability", "name"), declared(*WAY))
def test_what_is_declared_of_the_way_is_so(way_inside: dict[str, str], ability: str, name: str) -> None:
    assert way_inside[f"{INSIDE}::test_{ability}[{name}]"] == "passed"


def test_every_ability_is_tried_in_one_of_the_two() -> None:
    assert sorted([*CARRIED, *WAY]) == sorted(DECLARED)
