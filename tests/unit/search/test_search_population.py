"""The default engine over sets of simulated devices: error, coverage and time, and what must be flagged."""

from __future__ import annotations

import numpy as np
import pytest

from runner.search import SearchResult, find_throughput
from tests.bench.devices import Kind, population

SEED = 30_000


def outcomes(kind: Kind, count: int) -> list[tuple[float, SearchResult]]:
    """True throughput and result of each device, at ±1 % without confirmation."""
    return [
        (
            device.true_throughput(),
            find_throughput(device, confirm=None, trial_duration_s=1.0, overhead_s=0.3),
        )
        for device in population(count, SEED, kind)
    ]


@pytest.mark.slow
def test_plain_devices_are_found_within_their_intervals() -> None:
    found = outcomes("plain", 40)
    errors = [abs((result.rate_bps or 0) / truth_bps - 1) for truth_bps, result in found]
    covered = [r.interval_bps is not None and r.interval_bps[0] <= t <= r.interval_bps[1] for t, r in found]
    assert np.mean(errors) < 0.005
    assert max(errors) < 0.025
    assert np.mean(covered) > 0.85
    assert np.mean([result.elapsed_s for _, result in found]) < 90


def test_a_device_without_noise_is_found_closely() -> None:
    for truth_bps, result in outcomes("quiet", 12):
        assert result.rate_bps is not None
        assert abs(result.rate_bps / truth_bps - 1) < 0.004
        assert result.interval_bps is not None
        assert result.interval_bps[0] <= truth_bps <= result.interval_bps[1]


@pytest.mark.slow
def test_devices_that_jitter_are_found_within_their_intervals() -> None:
    found = outcomes("jitter", 10)
    assert np.mean([abs((result.rate_bps or 0) / truth_bps - 1) for truth_bps, result in found]) < 0.01
    assert sum(r.interval_bps is not None and r.interval_bps[0] <= t <= r.interval_bps[1] for t, r in found) >= 8
    assert sum("unstable" in result.flags for _, result in found) <= 4


@pytest.mark.slow
def test_devices_that_change_are_flagged() -> None:
    flagged = ["unstable" in r.flags for kind in ("two_state", "drift") for _, r in outcomes(kind, 4)]
    assert np.mean(flagged) >= 0.75
