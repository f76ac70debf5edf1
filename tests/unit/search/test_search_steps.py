"""Steps of the searches worked by hand: which rates are asked, what passes, and what cannot be believed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from runner.search import find_throughput
from runner.search.bisection import bisect
from runner.search.model import Account, Goal, Loss
from runner.search.posterior import Posterior
from runner.search.scan import RESOLUTION_BPS, most_trials, scan
from tests.unit.search.test_rounds_by_hand import SEEDED, told, trial


def goal(least_bps: float, most_bps: float) -> Goal:
    return Goal(
        loss_ratio=0.01,
        min_rate_bps=least_bps,
        max_rate_bps=most_bps,
        relative_width=0.05,
        trial_duration_s=1.0,
        confirm=None,
        first_rate_bps=None,
    )


def test_a_bisection_tries_the_lowest_rate_once_all_above_it_is_narrow() -> None:
    """Nothing passes: half of the way down each time, until within 10 % of the lowest, which fails thrice: no excess
    explains what it loses."""
    dead = Account(lambda rate_bps, duration_s: Loss(1e6, 0.0), budget_s=100)
    found = bisect(dead, goal(10e6, 20e6), 1, 1.0)
    assert [one.asked_rate_bps / 1e6 for one in dead.trials] == [20, 15, 12.5, 11.25, 10.625, 10, 10, 10]
    assert (found.rate_bps, *found.flags) == (None, "no_throughput")


@pytest.mark.parametrize("stalled", [1, 2, 3])
def test_a_bisection_takes_back_a_rate_that_failed_by_accident(stalled: int) -> None:
    """A device that forwards 17 of 20 Mbit/s stalls in one trial: the lowest rate that failed is tried once more."""
    seen = list[float]()

    def measure(rate_bps: float, duration_s: float) -> Loss:
        seen.append(rate_bps)
        passes = rate_bps <= 17e6 and len(seen) != stalled
        return Loss(1e6, 1e6 if passes else 0.0)

    found = bisect(Account(measure, budget_s=1000), replace(goal(1e6, 20e6), first_rate_bps=10e6), 1, 1.0)
    assert found.rate_bps is not None
    assert 15e6 <= found.rate_bps <= 17e6, seen
    assert found.flags == ({"unstable"} if stalled != 2 else set()), "the second one, at 20 Mbit/s, fails anyway"


def test_a_bisection_ends_where_the_rate_fails_again() -> None:
    device = capacity(17e6)
    found = bisect(device, replace(goal(1e6, 20e6), first_rate_bps=10e6), 1, 1.0)
    asked = [one.asked_rate_bps / 1e6 for one in device.trials]
    assert asked == [10, 20, 15, 17.5, 16.25, 17.5], "the last one is the second look"
    assert found.interval_bps == (16.25e6, 17.5e6)
    dead_above = Account(lambda rate_bps, duration_s: Loss(1e6, 1e6 * (rate_bps <= 17e6)), budget_s=1000)
    bisect(dead_above, replace(goal(1e6, 20e6), first_rate_bps=10e6), 1, 1.0)
    asked = [one.asked_rate_bps / 1e6 for one in dead_above.trials]
    assert asked == [10, 20, 15, 17.5, 16.25, 17.5, 17.5], "that much may be a stall: a third look"


def test_a_scan_ends_at_the_highest_rate() -> None:
    fine = Account(lambda rate_bps, duration_s: Loss(1e6, 1e6), budget_s=100)
    found = scan(fine, goal(1e6, 5e6), 1, 1.0)
    assert [one.asked_rate_bps / 1e6 for one in fine.trials] == [1, 2, 4, 5]
    assert (found.rate_bps, *found.flags) == (None, "generator_limited")


def capacity(capacity_bps: float) -> Account:
    return Account(lambda rate_bps, duration_s: Loss(1e6, 1e6 * min(1, capacity_bps / rate_bps)))


def test_a_scan_begins_near_a_fail_and_goes_up_by_a_megabit_per_second() -> None:
    device = capacity(152.5e6)
    found = scan(device, goal(1e6, 10e9), 10, 10.0)
    assert found.rate_bps == 154e6, "of 155 Mbit/s it loses more than 1 %"
    look = [one.asked_rate_bps / 1e6 for one in device.trials if one.purpose == "seed"]
    assert look == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 192, 192, 192, 160, 160, 160, 144]
    steps = [one.asked_rate_bps / 1e6 for one in device.trials if one.purpose == "confirm"]
    assert steps == [rate for rate in range(144, 155) for _ in range(10)] + [155] * 14, (
        "7 times 1.6 % are over 10 %, twice"
    )
    assert len(device.trials) <= most_trials(1e6, 10e9, 10)


def test_a_scan_begins_again_further_down_where_its_first_rate_passed_by_luck() -> None:
    lucky = iter([1.0])

    def luck(rate_bps: float, duration_s: float) -> Loss:
        return Loss(1e6, 1e6 * (next(lucky, 0.5) if rate_bps >= 120e6 else 1.0))

    device = Account(luck)
    found = scan(device, replace(goal(1e6, 10e9), first_rate_bps=128e6), 1, 1.0)
    assert device.trials[0].asked_rate_bps == 128e6
    assert found.rate_bps == 119e6


@pytest.mark.parametrize("capacity_mbps", [3.2, 17.9, 152.5, 941.3])
def test_the_scan_finds_what_the_default_searches_find(capacity_mbps: float) -> None:
    def measure(rate_bps: float, duration_s: float) -> Loss:
        return Loss(1e6, 1e6 * min(1, capacity_mbps * 1e6 / rate_bps))

    found = find_throughput(measure, engine="scan").rate_bps
    true_bps = capacity_mbps * 1e6 / 0.99
    assert found is not None
    assert true_bps - RESOLUTION_BPS < found <= true_bps
    for engine in ("rounds", "bayes"):
        other = find_throughput(measure, engine=engine, confirm=None).rate_bps
        assert other is not None
        assert abs(other - found) <= RESOLUTION_BPS + 0.01 * found, engine


def test_what_loses_just_as_much_as_it_may_has_passed() -> None:
    """1 of 64 is exactly what binary fractions can say."""
    rounds = told(trial(60e6, 1 / 64), trial(180e6, 0.45), loss_ratio=1 / 64)
    assert not rounds.seeding, "a pass and a fail"


def test_many_trials_do_not_make_the_likelihood_too_small_for_a_number() -> None:
    rounds = told(*SEEDED, *[trial(100e6), trial(130e6, 0.22)] * 150)
    median = rounds.median()
    assert median.rate_bps == pytest.approx(102e6, rel=0.05)
    assert math.isfinite(median.low_bps)
    assert math.isfinite(median.high_bps)


@pytest.mark.parametrize("duration_s", [0.1, 10.0])
def test_no_device_is_thought_of_that_loses_more_than_half_whatever_it_is_offered(duration_s: float) -> None:
    """Constant losses and those at a trial's begin together, however long a trial is."""
    devices = Posterior(0.01, 100e6, duration_s, [], 0.0).devices
    lost = devices.floor + devices.startup_s / duration_s
    assert 0.05 < lost.max() <= 0.5 + 1e-12
