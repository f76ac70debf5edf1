"""The WAN's conditions, packet counters and ESP, which many machines' kernels lack: tests/kernel/lab_inside.py."""

import pytest

from tests.kernel.inside import WITHIN_S, Work
from tests.kernel.lab_inside import CONTRACT

pytestmark = pytest.mark.timeout(WITHIN_S + 60)
INSIDE = "tests/kernel/lab_inside.py"
TESTS = (
    "test_delay_and_loss_are_as_asked",
    *(f"test_what_was_not_asked_for_is_refused[{what}]" for what in ("delay", "loss", "no loss")),
    "test_a_known_delay_is_the_round_trip_time",
    "test_a_shaped_wan_is_verified_and_a_faster_one_refused",
    "test_a_smaller_mtu_is_verified",
    "test_a_kernel_without_netem_is_told_which_rate_it_can_have",
    "test_every_packet_is_counted",
    "test_fragments_are_counted",
    *(f"test_contract[{name}]" for name in CONTRACT),
)


@pytest.mark.parametrize("test", TESTS)
def test_passes_under_a_kernel_that_has_everything(lab_inside: Work, test: str) -> None:
    outcomes = lab_inside.outcomes()
    assert set(outcomes) == {f"{INSIDE}::{name}" for name in TESTS}, lab_inside.done().stdout
    assert outcomes[f"{INSIDE}::{test}"] == "passed", lab_inside.done().stdout
