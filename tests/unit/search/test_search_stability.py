"""When a device is called unstable: what is enough for it alone, which trials tell anything, and how much they must."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from runner.search import stability
from runner.search.model import SearchTrial
from runner.search.posterior import PosteriorEstimate
from runner.search.stability import DRIFTS, unstable

RATE_BPS = 100e6
MANY_PACKETS = 1e6


def estimate(**changes: float) -> PosteriorEstimate:
    """Of a device of 100 Mbit/s with little noise."""
    rates = {"rate_bps": RATE_BPS, "low_bps": 0.99e8, "high_bps": 1.01e8, "careful_bps": 0.99e8, "capacity_bps": 1e8}
    rest = {"noise": 0.01, "jitter": 0.001, "floor": 0.0, "stalls_per_s": 0.001, "startup_s": 0.0, "livelock": 0.0}
    return PosteriorEstimate(**{**rates, **rest, "no_throughput": 0.0, "due_to_startup": 0.0, **changes})


def trial(offered: float, forwarded: float, duration_s: float = 1.0) -> SearchTrial:
    """Both as shares of 100 Mbit/s."""
    received = MANY_PACKETS * min(1.0, forwarded / offered)
    return SearchTrial(offered * RATE_BPS, offered * RATE_BPS, duration_s, MANY_PACKETS, received, "estimate")


def at(capacities: Sequence[float], offered: float = 1.1) -> list[SearchTrial]:
    return [trial(offered, capacity) for capacity in capacities]


STEADY = [1.0, 1.005, 0.995, 1.002, 0.998, 1.001, 0.999, 1.0] * 3
SWITCHING = ([1.0] * 4 + [0.85] * 4) * 3


def test_more_noise_than_eight_per_cent_is_no_noise() -> None:
    assert unstable([], 0.01, estimate(noise=0.081))
    assert not unstable([], 0.01, estimate(noise=0.08))


@pytest.mark.parametrize(
    ("noise", "floor", "highest"),
    [(0.005, 0.0, math.exp(0.04)), (0.02, 0.0, math.exp(0.08)), (0.005, 0.1, 0.9 * math.exp(0.04))],
)
def test_one_trial_that_forwards_too_much_shows_a_faster_device(noise: float, floor: float, highest: float) -> None:
    believed = estimate(noise=noise, floor=floor)
    assert unstable([trial(1.5, highest * 1.001)], 0.01, believed)
    assert not unstable([trial(1.5, highest * 0.999)], 0.01, believed)


def test_a_steady_device_is_stable_and_one_that_switches_or_drifts_is_not() -> None:
    assert not unstable(at(STEADY), 0.01, estimate())
    assert unstable(at(SWITCHING), 0.01, estimate(capacity_bps=0.97e8))
    assert unstable(at(np.linspace(0.9, 1.1, 24).tolist(), offered=1.2), 0.01, estimate(noise=0.03))
    assert unstable(at(np.linspace(1.1, 0.9, 24).tolist(), offered=1.2), 0.01, estimate(noise=0.03))


def test_a_drift_up_is_as_likely_as_a_drift_down() -> None:
    assert DRIFTS.tolist() == (-DRIFTS[::-1]).tolist()
    assert DRIFTS.tolist() == sorted(DRIFTS)


def test_seven_trials_are_too_few_and_eight_are_enough() -> None:
    switching = at([1.0, 1.0, 1.0, 1.0, 0.72, 0.72, 0.72, 0.72])
    believed = estimate(capacity_bps=0.97e8)
    assert not unstable(switching[1:], 0.01, believed)
    assert unstable(switching, 0.01, believed)


@pytest.mark.parametrize(("noise", "nearest"), [(0.01, math.exp(0.2)), (0.075, math.exp(0.225))])
def test_a_clear_overload_tells_nothing_of_a_slower_state(noise: float, nearest: float) -> None:
    """From there on a device may forward less than it could."""
    believed = estimate(noise=noise, capacity_bps=0.97e8)
    for offered, tell in ((nearest * 0.995, True), (nearest * 1.005, False)):
        assert unstable(at(SWITCHING, offered), 0.01, believed) is tell


def noting(used: list[Any]) -> Callable[[Any, Any], float]:
    """No evidence; it keeps the times that it was asked about."""

    def evidence(likelihood: Any, times_s: Any) -> float:
        used.append(times_s)
        return 0.0

    return evidence


def test_what_passes_tells_at_any_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    monkeypatch.setattr(stability, "_log_switching", noting(used))
    monkeypatch.setattr(stability, "_log_drifting", lambda likelihood, times_s: 0.0)
    unstable([*at([1.0] * 8, 0.5), trial(1.3, 1.3 * 0.991), trial(1.3, 1.3 * 0.98)], 0.01, estimate(noise=0.07))
    assert [len(times_s) for times_s in used] == [9], "the last lost more than the ratio, and far above the rate"


def test_trials_are_placed_at_their_middles_with_what_lies_between(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    monkeypatch.setattr(stability, "_log_switching", noting(used))
    monkeypatch.setattr(stability, "_log_drifting", noting(used))
    unstable([trial(1.1, 1.0, 2.0), *at([1.0] * 6), trial(1.1, 1.0, 10.0)], 0.01, estimate(), overhead_s=0.5)
    for times_s in used:
        # They begin at 0, 2.5, 4.0 … 11.5 s; so far from each other are their middles.
        assert np.diff(times_s).tolist() == pytest.approx([2.0, 1.5, 1.5, 1.5, 1.5, 1.5, 6.0])
    assert len(used) == 2


def test_odds_of_thirty_to_one_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "_log_mean", lambda logarithms: 0.0)  # of a steady device
    monkeypatch.setattr(stability, "_log_drifting", lambda likelihood, times_s: -1.0)
    for odds, verdict in ((29.9, False), (30.1, True)):
        monkeypatch.setattr(stability, "_log_switching", lambda likelihood, times_s, odds=odds: math.log(odds))
        assert unstable(at(STEADY), 0.01, estimate()) is verdict
    monkeypatch.setattr(stability, "_log_drifting", lambda likelihood, times_s: math.log(31))
    assert unstable(at(STEADY), 0.01, estimate()), "either of the two is enough"
