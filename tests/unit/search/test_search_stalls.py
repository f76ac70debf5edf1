"""No engine sticks: senders fall short of what they are asked for, and devices stall once or twice at any time."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from runner.search import Engine, Loss, Measure, SearchResult, find_throughput

SETTINGS: dict[Engine, dict[str, Any]] = {
    "binary": {"confirm": (3, 1.0), "relative_width": 0.02},
    "rfc2544": {"relative_width": 0.02},
    "scan": {"confirm": (3, 1.0)},
    "bayes": {"confirm": (3, 1.0), "relative_width": 0.02},
    "rounds": {"relative_width": 0.02, "trial_duration_s": 0.3},
}
SHORT_RATIOS = (0.0, 1e-5, 1e-4, 1e-3, 0.01, 0.04)
ENDS = (0.0, 1e-3, 0.04)  # in the gate


def stalling(capacity_bps: float, short_ratio: float, stalled: set[int], loss_ratio: float) -> Measure:
    """A device whose sender falls short by a share, and which loses a share in the trials of these numbers."""
    count = 0

    def measure(rate_bps: float, duration_s: float) -> Loss:
        nonlocal count
        count += 1
        offered_bps = rate_bps * (1 - short_ratio)
        up = 1 - loss_ratio if count in stalled else 1.0
        return Loss(1e6, 1e6 * up * min(1, capacity_bps / offered_bps), offered_bps)

    return measure


def search(engine: Engine, device: Measure) -> SearchResult:
    return find_throughput(device, engine=engine, max_rate_bps=10e9, **SETTINGS[engine])


@pytest.mark.parametrize(
    "short_ratio",
    [pytest.param(one, marks=[] if one in ENDS else [pytest.mark.slow]) for one in SHORT_RATIOS],
)
@pytest.mark.parametrize("engine", get_args(Engine))
def test_a_stall_and_a_short_sender_leave_the_answer_within_its_width(engine: Engine, short_ratio: float) -> None:
    capacity_bps, loss_ratio = 600e6, 0.4
    length = len(search(engine, stalling(capacity_bps, short_ratio, set(), loss_ratio)).trials)
    once = [{at} for at in (1, 2, 6, length // 2, length - 1, length, length + 1)]
    twice = [{1, 2}, {6, 7}, {6, length // 2}, {1, length}, {length - 1, length}, {length, length + 1}]
    for stalled in [set(), *once, *twice]:
        found = search(engine, stalling(capacity_bps, short_ratio, stalled, loss_ratio))
        width = 2 * SETTINGS[engine].get("relative_width", 0.01)
        assert (found.confirmed_rate_bps or found.rate_bps or 0) == pytest.approx(capacity_bps / 0.99, rel=width), (
            stalled
        )
        assert not {"no_throughput", "generator_limited"} & found.flags
        assert len(found.trials) < 300, "and it ends"


def test_a_search_that_saw_a_loss_go_away_says_so() -> None:
    """The pair, the right rate in both, and the word where something stalled."""
    calm, stalled = (search("binary", stalling(600e6, 1e-4, at, 0.4)) for at in (set[int](), {6}))
    assert calm.rate_bps == pytest.approx(stalled.rate_bps, rel=0.02)
    assert not calm.flags
    assert stalled.flags == {"unstable"}


def test_a_device_that_stalls_in_each_trial_has_no_throughput() -> None:
    """The positive control: offering a rate again does not forgive what always happens."""
    for engine in ("binary", "scan", "rfc2544"):
        found = search(engine, stalling(600e6, 1e-4, set(range(10_000)), 0.4))
        assert (found.rate_bps, *found.flags) == (None, "no_throughput"), engine
