"""The recipes of VPNs that many machines' kernels lack, by hand in a guest: tests/kernel/recipes_inside.py."""

import pytest

from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.recipes_inside import CLOSED, NAMES, OPEN
from tests.kernel.vpns_inside import OLDER
from tests.lab.test_recipe_by_hand import FORMS

pytestmark = pytest.mark.timeout(WITHIN_S + 60)
INSIDE = "tests/kernel/recipes_inside.py"


def test_without_nftables_a_policy_closes_the_way_past_the_tunnel(begun: dict[str, Work]) -> None:
    work = begun["recipes_inside"]
    inside = f"{INSIDE}::{CLOSED['uml']}[ipsec]"
    assert work.outcomes()[inside] == "passed", work.done().stdout


@pytest.mark.parametrize("name", OLDER)
def test_nothing_leaves_past_a_device_that_a_daemons_child_makes(begun: dict[str, Work], name: str) -> None:
    work = begun["recipes_inside"]
    assert work.outcomes()[f"{INSIDE}::{OPEN}[{name}]"] == "passed", work.done().stdout


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_a_recipe_of_a_tunnel_in_the_kernel(begun: dict[str, Work], name: str, form: str) -> None:
    work = begun["recipes_inside"]
    assert work.outcomes()[f"{INSIDE}::test_a_recipe_by_hand[{form}-{name}]"] == "passed", work.done().stdout
