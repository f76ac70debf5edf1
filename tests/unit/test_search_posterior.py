"""The model of one trial against simulated trials, and the least time that a search needs."""

from __future__ import annotations

import numpy as np
import pytest

from runner.search.bound import NORMAL, Bound
from runner.search.devices import PACKET_BITS, Device
from runner.search.likelihood import OUTLIER, Devices
from runner.search.model import SearchTrial


@pytest.mark.parametrize("above", [1.0, 1.13])
@pytest.mark.parametrize(
    ("noise", "jitter", "livelock"),
    [(0.03, 0.002, 0.0), (0.005, 0.1, 0.0), (0.03, 0.1, 0.0), (0.01, 0.03, 0.0), (0.01, 0.002, 0.5)],
)
def test_the_model_gives_a_trials_loss_its_mean_and_deviation(
    noise: float, jitter: float, livelock: float, above: float
) -> None:
    device = Device(1e9, noise=noise, jitter=jitter, floor=0.0015, livelock=livelock, seed=3)
    rate_bps = device.true_throughput() * above
    simulated = [1 - loss.received / loss.sent for loss in (device(rate_bps, 1.0) for _ in range(1500))]
    hypothesis = Devices(
        *(np.atleast_1d(value) for value in (np.log(1e9), noise, jitter, device.floor, 0.0, 0.0, livelock))
    )
    sent = rate_bps / PACKET_BITS
    losses = np.concatenate([np.linspace(0, 0.004, 300), np.linspace(0.00402, 0.6, 1000)])
    trials = (SearchTrial(rate_bps, rate_bps, 1.0, sent, sent * (1 - loss), "estimate") for loss in losses)
    density = np.array([hypothesis.likelihood(trial, 0.01)[0] for trial in trials]) - OUTLIER
    mass = np.trapezoid(density, losses)
    mean = np.trapezoid(density * losses, losses) / mass
    deviation = np.sqrt(np.trapezoid(density * (losses - mean) ** 2, losses) / mass)
    assert mass == pytest.approx(1, abs=0.06)
    assert mean == pytest.approx(np.mean(simulated), rel=0.08)
    assert deviation == pytest.approx(np.std(simulated), rel=0.2)


def test_the_bound_follows_the_noise() -> None:
    """A known noise alone would take (1.96·σ/1 %)² trials; that it is unknown costs some more."""
    times_s = [Bound(Device(1e9, noise=noise, floor=1e-3)).time_s(0.01 / NORMAL) for noise in (0.02, 0.04)]
    known_s = [1.3 * (NORMAL * noise / 0.01) ** 2 for noise in (0.02, 0.04)]
    assert 4 < times_s[1] / times_s[0] < 6  # what is not known of the stalls comes on top
    assert all(1 < time_s / least_s < 2 for time_s, least_s in zip(times_s, known_s, strict=True))


def test_the_bound_is_nearer_with_more_time_and_farther_with_jitter() -> None:
    steady, jittering = Bound(Device(1e9, noise=0.01)), Bound(Device(1e9, noise=0.01, jitter=0.05, kind="jitter"))
    assert steady.deviation(60) < steady.deviation(20) < jittering.deviation(20)
