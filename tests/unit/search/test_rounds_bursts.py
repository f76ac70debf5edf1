"""A policer that lets a burst pass: the rounds give the rate that goes on, and take no other device for one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from runner.instruments.tools.arrivals import sustained_share
from runner.search import find_throughput
from runner.search.model import Loss, SearchTrial
from runner.search.rounds import StepwiseSearch

LOOK_S, PAUSE_S, PACKETS = 0.002, 0.3, 16


@dataclass
class Policer:
    """A token bucket of ``burst_s`` seconds of its rate, which fills between trials; loads of bursts of PACKETS."""

    rate_bps: float
    burst_s: float
    noise: float = 0.0
    overtakes: float = 0.0  # the share of its time in which a busy machine forwards half
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    tokens: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.tokens = self.rate_bps * self.burst_s

    def came(self, rate_bps: float, seconds: float) -> tuple[float, list[tuple[float, int]]]:
        """Packets that were sent, and samples of those that came: when, and how many by then."""
        packet_bits, carried = 1300 * 8, self.rate_bps * (1 + self.noise * self.rng.standard_normal())
        sent, count, samples = round(rate_bps * seconds / packet_bits), 0, list[tuple[float, int]]()
        step_s, now_s = PACKETS * packet_bits / rate_bps, 0.0
        for _ in range(sent // PACKETS):
            slow = 0.5 if self.rng.random() < self.overtakes else 1.0
            self.tokens = min(carried * self.burst_s + PACKETS * packet_bits, self.tokens + carried * slow * step_s)
            passed = min(PACKETS, int(self.tokens / packet_bits))
            self.tokens -= passed * packet_bits
            count, now_s = count + passed, now_s + step_s
            if passed:
                samples.append((round(now_s / LOOK_S) * LOOK_S, count))
        self.tokens = min(carried * self.burst_s, self.tokens + carried * PAUSE_S)
        return sent // PACKETS * PACKETS, samples

    def __call__(self, rate_bps: float, seconds: float) -> Loss:
        sent, samples = self.came(rate_bps, seconds)
        received = samples[-1][1] if samples else 0
        share = sustained_share(samples, seconds, received / sent)
        return Loss(sent, received, rate_bps, share and share * rate_bps)


@pytest.mark.parametrize("rate_bps", [2e7, 1e8, 5e8])
@pytest.mark.parametrize("burst_s", [0.05, 0.1, 0.0])
def test_the_rate_is_that_which_goes_on(rate_bps: float, burst_s: float) -> None:
    """Of trials of 0.3 s a burst of 50 ms makes a sixth."""
    for seed in range(3):
        policer = Policer(rate_bps, burst_s, noise=0.02, rng=np.random.default_rng(seed))
        found = find_throughput(policer, engine="rounds", trial_duration_s=0.3)
        assert found.rate_bps == pytest.approx(rate_bps, rel=0.04)


def test_a_burst_is_seen_in_most_of_the_trials_that_lose_or_not_at_all() -> None:
    search = StepwiseSearch()
    for _ in range(4):
        search.trials.append(SearchTrial(2e8, 2e8, 0.4, 100, 60, "estimate"))
    search.trials += [SearchTrial(2e8, 2e8, 0.4, 100, 60, "estimate", sustained_bps=1e8)] * 4
    assert search.sustained_bps == float("inf")
    search.trials.append(SearchTrial(2e8, 2e8, 0.4, 100, 60, "estimate", sustained_bps=1e8))
    assert search.sustained_bps == 1e8


@pytest.mark.parametrize("disturbed", [0.0, 0.2, 0.5])
def test_a_device_without_a_bucket_shows_none(disturbed: float) -> None:
    device = Policer(1e8, 0.0, overtakes=disturbed)
    seen = [device(rate_bps, 0.3).sustained_bps for rate_bps in np.linspace(1.2e8, 2e8, 40)]
    assert sum(one is not None for one in seen) <= 2
