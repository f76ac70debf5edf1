"""The seed of a search by hand: what a bracket learns from each trial, which rate it offers next, when it gives up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runner.search.bracket import Bracket
from runner.search.model import Goal, NoNumber, SearchTrial

GOAL: dict[str, Any] = {
    **{"loss_ratio": 0.01, "min_rate_bps": 1e6, "max_rate_bps": 1e9, "relative_width": 0.01},
    **{"trial_duration_s": 1.0, "confirm": None, "first_rate_bps": None},
}


def bracket(**changes: Any) -> Bracket:
    return Bracket(Goal(**{**GOAL, **changes}))


def trial(asked_bps: float, loss: float, offered_bps: float | None = None) -> SearchTrial:
    return SearchTrial(asked_bps, offered_bps or asked_bps, 1.0, 1000, 1000 * (1 - loss), "seed")


def after(seen: Bracket, *losses: tuple[float, float]) -> float:
    """The rate to offer after trials with these rates and losses."""
    for rate_bps, loss in losses:
        last = trial(rate_bps, loss)
        seen.learn(last, loss)
    return seen.next_rate_bps(last, loss)


def test_a_clear_loss_leads_to_what_was_received_less_one_per_cent() -> None:
    assert after(bracket(), (400e6, 0.5)) == pytest.approx(200e6 / 1.01)
    assert after(bracket(), (400e6, 0.21)) == pytest.approx(400e6 * 0.79 / 1.01)


def test_little_losses_lead_down_in_steps_that_grow_threefold() -> None:
    seen = bracket()
    assert after(seen, (400e6, 0.1)) == pytest.approx(360e6 / 1.05)
    assert after(seen, (300e6, 0.2)) == pytest.approx(240e6 / 1.15)
    assert seen.near_fails == 2
    assert after(seen, (200e6, 0.02)) == pytest.approx(196e6 / 1.45)


def test_no_rate_is_below_the_lowest_and_a_known_rate_is_at_most_halved() -> None:
    assert after(bracket(min_rate_bps=50e6), (400e6, 0.98)) == 50e6
    assert after(bracket(first_rate_bps=400e6), (400e6, 0.98)) == 200e6
    assert after(bracket(first_rate_bps=400e6), (400e6, 0.3)) == pytest.approx(280e6 / 1.01)


def test_passes_lead_up_in_steps_that_double() -> None:
    seen = bracket()
    assert after(seen, (100e6, 0.0)) == pytest.approx(105e6)
    assert after(seen, (105e6, 0.0)) == pytest.approx(105e6 * 1.1)
    assert after(seen, (115.5e6, 0.01)) == pytest.approx(115.5e6 * 1.2), "a loss of just the ratio passes"
    assert after(bracket(max_rate_bps=102e6), (100e6, 0.0)) == 102e6


def test_a_generator_that_falls_short_is_asked_for_all_it_can_unless_something_is_known() -> None:
    short = trial(100e6, 0.0, offered_bps=90e6)
    seen, known = bracket(), bracket(first_rate_bps=100e6)
    seen.learn(short, 0.0)
    known.learn(short, 0.0)
    assert seen.next_rate_bps(short, 0.0) == 1e9
    assert known.next_rate_bps(short, 0.0) == pytest.approx(90e6 * 1.05)


def test_between_a_pass_and_a_fail_it_climbs_in_steps_that_grow_threefold_to_the_geometric_middle() -> None:
    seen = bracket()
    assert after(seen, (400e6, 0.5), (100e6, 0.0)) == pytest.approx(105e6)
    assert not seen.narrow
    assert after(seen, (105e6, 0.0)) == pytest.approx(105e6 * 1.15)
    assert after(seen, (120e6, 0.0)) == pytest.approx(120e6 * 1.45)
    assert after(seen, (170e6, 0.0)) == pytest.approx(math.sqrt(170e6 * 400e6))


def test_a_bracket_is_narrow_from_a_fifth_on() -> None:
    seen = bracket()
    assert not seen.narrow
    seen.learn(trial(120e6, 0.5), 0.5)
    assert not seen.narrow, "nothing has passed"
    seen.learn(trial(100e6, 0.0), 0.0)
    assert not seen.narrow, "a fifth is not within a fifth"
    seen.learn(trial(101e6, 0.0), 0.0)
    assert seen.narrow
    assert seen.middle_bps == pytest.approx(math.sqrt(101e6 * 120e6))


def test_a_pass_at_or_above_a_fail_takes_it_back_and_steps_begin_anew() -> None:
    seen = bracket()
    after(seen, (100e6, 0.1))
    assert after(seen, (100e6, 0.0)) == pytest.approx(105e6)
    assert math.isinf(seen.failed_bps)
    assert not bracket().only_near_fails


def test_a_fail_at_or_below_a_pass_takes_that_back() -> None:
    seen = bracket()
    after(seen, (200e6, 0.0), (100e6, 0.5))
    assert (seen.passed_bps, seen.failed_bps) == (0, 100e6)
    seen = bracket()
    after(seen, (100e6, 0.0), (100e6, 0.5))
    assert (seen.passed_bps, seen.failed_bps) == (0, 100e6)
    seen = bracket()
    after(seen, (100e6, 0.0), (101e6, 0.5), (300e6, 0.5))
    assert (seen.passed_bps, seen.failed_bps) == (100e6, 101e6)


def test_two_little_losses_and_no_pass_baffle_it() -> None:
    seen = bracket()
    seen.learn(trial(400e6, 0.5), 0.5)
    seen.learn(trial(200e6, 0.15), 0.15)
    assert not seen.only_near_fails, "the first loss was no little one"
    seen.learn(trial(150e6, 0.15), 0.15)
    assert seen.only_near_fails
    seen.learn(trial(100e6, 0.0), 0.0)
    assert not seen.only_near_fails


def test_the_second_pass_at_the_highest_rate_is_the_generators_limit() -> None:
    seen = bracket()
    seen.learn(trial(1e9, 0.0), 0.0)
    with pytest.raises(NoNumber) as end:
        seen.learn(trial(1e9, 0.0), 0.0)
    assert end.value.flag == "generator_limited"
    seen = bracket()
    seen.learn(trial(900e6, 0.0, offered_bps=800e6), 0.0)
    with pytest.raises(NoNumber):
        seen.learn(trial(900e6, 0.0, offered_bps=800e6), 0.0)
    for rate_bps in (0.97e9, 0.98e9, 0.99e9):
        bracket().learn(trial(rate_bps, 0.0), 0.0)


def test_the_third_fail_at_the_lowest_rate_is_no_throughput() -> None:
    seen = bracket()
    for _ in range(4):
        seen.learn(trial(1.1e6, 0.5), 0.5)
    for _ in range(2):
        seen.learn(trial(1e6, 0.5), 0.5)
    with pytest.raises(NoNumber) as end:
        seen.learn(trial(1e6, 0.5), 0.5)
    assert end.value.flag == "no_throughput"
