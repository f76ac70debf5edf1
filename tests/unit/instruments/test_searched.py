"""A search whose sender shares the machine's only CPU."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runner.design.profile import SHORTEST_SEARCH
from runner.instruments.tools import searched
from runner.instruments.tools.searched import on_one_cpu
from runner.instruments.traffic.duplex import FEWEST_TRIALS
from runner.lab.shape.site_to_site import Lab
from runner.search import SearchResult, SearchTrial, find_throughput
from runner.search.model import Loss

CAN_SEND_BPS = 20e6
CAPACITY_BPS = 50e6


def saturated() -> SearchResult:
    """A search with a sender that falls short of what it is asked for, and loses nothing."""
    return find_throughput(
        lambda rate_bps, _: Loss(1000, 1000, min(rate_bps, CAN_SEND_BPS)),
        confirm=None,
        first_rate_bps=15e6,
        trial_duration_s=0.4,
    )


def cpus(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(searched, "os", SimpleNamespace(sched_getaffinity=lambda _: set(range(number))))


def test_on_one_cpu_the_most_that_can_be_sent_is_the_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    result = saturated()
    assert result.rate_bps is None, "the control: elsewhere it is a lower bound"
    assert "generator_limited" in result.flags
    cpus(monkeypatch, 1)
    found = on_one_cpu(result, Lab({}))
    assert (found.rate_bps, found.interval_bps) == (CAN_SEND_BPS, (CAN_SEND_BPS, CAN_SEND_BPS))
    assert not found.flags


def test_where_more_might_be_offered_it_stays_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    result = saturated()
    cpus(monkeypatch, 1)
    assert on_one_cpu(result, Lab({}, shared_kernel=False)) == result, "the sender is another machine"
    stall = SearchTrial(40e6, 10e6, 0.4, 1000, 1000, "seed")
    accident = replace(result, trials=(*result.trials, stall))
    assert on_one_cpu(accident, Lab({})) == accident, "a sender that fell short of half as much was held up"
    cpus(monkeypatch, 2)
    assert on_one_cpu(result, Lab({})) == result


def with_intervals(trials: int) -> int:
    """How many of 30 searches for 50 Mbit/s that begin between a tenth and three times of it find an interval."""
    found = 0
    for first in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 2.0, 3.0):
        for seed in range(3):
            rng = random.Random(seed)

            def offer(rate_bps: float, _: float, rng: random.Random = rng) -> Loss:
                return Loss(1e4, 1e4 * min(1.0, CAPACITY_BPS * (1 + rng.gauss(0, 0.05)) / rate_bps))

            result = find_throughput(
                offer,
                confirm=None,
                first_rate_bps=first * CAPACITY_BPS,
                min_rate_bps=1e5,
                relative_width=SHORTEST_SEARCH.relative_width,
                trial_duration_s=SHORTEST_SEARCH.trial_duration_s,
                budget_s=trials * SHORTEST_SEARCH.trial_duration_s,
            )
            found += result.interval_bps is not None
    return found


def test_the_trials_of_a_packet_rate_search_reach_a_rate_that_fails() -> None:
    """A slow machine's search begins far off: an overload takes the CPU from whoever forwards."""
    assert with_intervals(4) < 25, "the control"
    assert with_intervals(FEWEST_TRIALS) == 30
