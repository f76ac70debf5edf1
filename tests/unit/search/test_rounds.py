"""The search that takes turns: simulated tunnels whose median trial is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runner.search import find_throughput
from runner.search.model import Loss, SearchTrial
from runner.search.rounds import StepwiseSearch, dependence

CAPACITY_BPS = 300e6
TRUE_BPS = CAPACITY_BPS / 0.99  # where the median trial loses 1 %


class Tunnel:
    """Forwards up to a capacity that differs from trial to trial, and loses a part of some trials at any rate."""

    def __init__(self, noise: float, seed: int, stalled: float = 0.0, collapse: float = math.inf) -> None:
        self.random, self.noise, self.stalled, self.collapse = np.random.default_rng(seed), noise, stalled, collapse

    def __call__(self, rate_bps: float, duration_s: float) -> Loss:
        capacity_bps = CAPACITY_BPS * math.exp(self.noise * self.random.standard_normal())
        passed = min(1.0, capacity_bps / rate_bps)
        if rate_bps > self.collapse * capacity_bps:
            passed = 0.02
        if self.random.random() < self.stalled:
            passed *= 1 - self.random.uniform(0.02, 0.6)
        sent = rate_bps * duration_s / 10400
        return Loss(sent, passed * sent)


def searched(tunnel: Tunnel, trials: int, *, careful: bool = False) -> StepwiseSearch:
    rounds = StepwiseSearch(careful=careful)
    for _ in range(trials):
        rate_bps, duration_s = rounds.next_load()
        loss = tunnel(rate_bps, duration_s)
        rounds.learn(SearchTrial(rate_bps, rate_bps, duration_s, loss.sent, loss.received, rounds.purpose))
    return rounds


@pytest.mark.parametrize(("noise", "stalled", "within"), [(0.02, 0.0, 0.01), (0.1, 0.0, 0.03), (0.1, 0.15, 0.04)])
def test_finds_the_median_trial(noise: float, stalled: float, within: float) -> None:
    found = [searched(Tunnel(noise, seed, stalled), 38).median() for seed in range(30)]
    errors = [one.rate_bps / TRUE_BPS - 1 for one in found]
    assert abs(float(np.mean(errors))) < 0.6 * within
    assert float(np.std(errors)) < within
    assert sum(one.low_bps <= TRUE_BPS <= one.high_bps for one in found) >= 25


def test_a_tunnel_that_breaks_down_under_overload_is_found_from_below() -> None:
    found = [searched(Tunnel(0.05, seed, collapse=1.02), 60, careful=True) for seed in range(10)]
    assert max(trial.offered_rate_bps for one in found for trial in one.trials) < 1.5 * CAPACITY_BPS
    assert [one.median().rate_bps for one in found] == pytest.approx([CAPACITY_BPS] * 10, rel=0.08)


def test_an_accident_at_the_start_does_not_hold_it_down() -> None:
    rounds = StepwiseSearch()
    tunnel = Tunnel(0.03, 1)
    for number in range(40):
        rate_bps, duration_s = rounds.next_load()
        loss = tunnel(rate_bps, duration_s) if number != 1 else Loss(100, 60)
        rounds.learn(SearchTrial(rate_bps, rate_bps, duration_s, loss.sent, loss.received, "seed"))
    assert rounds.median().rate_bps == pytest.approx(CAPACITY_BPS, rel=0.05)


def test_a_reading_tells_the_capacity_of_its_moment() -> None:
    """A machine whose speed drifts by the round moves both searches, and hardly the ratio of their readings."""
    ratios, alone = [], []
    for seed in range(10):
        random = np.random.default_rng(seed)
        searches, tunnels = (
            (StepwiseSearch(), StepwiseSearch()),
            (Tunnel(0.03, 2 * seed + 100), Tunnel(0.03, 2 * seed + 101)),
        )
        readings: tuple[list[float], list[float]] = [], []
        for _ in range(40):
            machine = math.exp(0.15 * random.standard_normal())
            for search, tunnel, read in zip(searches, tunnels, readings, strict=True):
                rate_bps, duration_s = search.next_load()
                loss = tunnel(rate_bps / machine, duration_s)
                trial = SearchTrial(rate_bps, rate_bps, duration_s, loss.sent, loss.received, "estimate")
                search.learn(trial)
                read.append(math.nan if search.seeding else math.log(search.reading_bps(trial)))
        a, b = (np.array(read) for read in readings)
        both = np.isfinite(a) & np.isfinite(b)
        assert both.sum() > 25
        assert np.exp(np.mean((a - b)[both])) == pytest.approx(1, abs=0.06)
        assert np.exp(np.mean(a[both])) == pytest.approx(CAPACITY_BPS, rel=0.12)
        ratios.append(float(np.std((a - b)[both])))
        alone.append(float(np.std(a[both])) * math.sqrt(2))
    assert np.mean(ratios) < 0.8 * np.mean(alone)


def test_says_when_the_generator_is_the_limit_or_nothing_passes() -> None:
    limited = StepwiseSearch()
    for _ in range(20):
        rate_bps, duration_s = limited.next_load()
        offered_bps = min(rate_bps, 2e9)
        limited.learn(SearchTrial(rate_bps, offered_bps, duration_s, 1000, 1000, "seed"))
    assert limited.generator_limited
    hopeless = StepwiseSearch()
    for _ in range(20):
        rate_bps, duration_s = hopeless.next_load()
        hopeless.learn(SearchTrial(rate_bps, rate_bps, duration_s, 1000, 500, "seed"))
    assert hopeless.hopeless
    assert hopeless.next_load().rate_bps == 1e6


def test_it_is_an_engine_as_the_others_are() -> None:
    result = find_throughput(Tunnel(0.02, 3), engine="rounds", trial_duration_s=0.4, budget_s=20)
    assert result.rate_bps == pytest.approx(CAPACITY_BPS, rel=0.05)
    assert result.interval_bps is not None
    assert find_throughput(lambda rate_bps, _: Loss(10, 10, min(rate_bps, 1e9)), engine="rounds").flags == {
        "generator_limited"
    }


def test_dependent_values_tell_less() -> None:
    random = np.random.default_rng(1)
    steps = random.standard_normal(400)
    assert dependence(steps) < 1.2
    assert dependence(np.convolve(steps, np.ones(5), "valid")) > 2.5
    assert dependence([1.0, 2.0]) == 1.0


@pytest.mark.parametrize("careful", [False, True])
def test_a_trial_is_as_long_as_the_path_asks(careful: bool) -> None:
    """Through a tunnel in TCP on a long path: the seed's trials, and all others."""
    search = StepwiseSearch(trial_duration_s=0.5, careful=careful, shortest_s=4.8)
    for number in range(12):
        rate_bps, duration_s = search.next_load()
        assert duration_s == 4.8
        received = min(1.0, 30e6 / rate_bps) * (1 - 1e-4 * number)
        search.learn(SearchTrial(rate_bps, rate_bps, duration_s, 1.0, received, search.purpose))
    assert not search.seeding
