"""The model of one trial against simulated trials, and the least time that a search needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from runner.search.likelihood import OUTLIER, Array, Devices
from runner.search.model import SearchTrial
from runner.search.posterior import CAPACITY_DEVIATION, Posterior
from tests.bench import bound
from tests.bench.bound import DESIGNS, ERROR, NORMAL, Bound
from tests.bench.devices import PACKET_BITS, Device, Kind


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


class Ideal(Posterior):
    """Knows the kind of the device and how its parameters are spread over the population."""

    kind: Kind

    def _devices(self, u: Array) -> Devices:
        part = ndtr(u)
        return Devices(
            math.log(self.centre_bps) + CAPACITY_DEVIATION * u[:, 0],
            0.005 * 10 ** part[:, 1],
            0.02 + 0.08 * part[:, 2] if self.kind == "jitter" else np.full(len(u), 1e-4),
            0.003 * part[:, 3],
            0.02 * part[:, 4],
            np.zeros(len(u)),
            0.2 + 0.8 * part[:, 6] if self.kind == "livelock" else np.zeros(len(u)),
        )


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("plain", {}),
        pytest.param("livelock", {"livelock": 0.6}, marks=pytest.mark.slow),
        pytest.param("jitter", {"jitter": 0.05}, marks=pytest.mark.slow),
    ],
)
def test_an_ideal_search_comes_up_to_the_bound_and_does_not_beat_it(kind: Kind, changes: dict[str, float]) -> None:
    """It is told the best mixture of trials, too. Errors of 24 searches of 40 s: their mean is good to a sixth."""
    device = Device(1e9, noise=0.02, floor=0.001, stalls_per_s=0.005, seed=5, kind=kind, **changes)
    truth_bps, random, errors = device.true_throughput(), np.random.default_rng(5), []
    deviation, share = Bound(device).best(40.0)
    for _ in range(24):
        trials = []
        for (above, duration_s), weight in zip(DESIGNS, share, strict=True):
            for _ in range(int(40.0 * weight / (duration_s + bound.OVERHEAD_S) + random.uniform())):
                rate_bps = truth_bps * math.exp(above)
                loss = device(rate_bps, duration_s)
                trials.append(SearchTrial(rate_bps, rate_bps, duration_s, loss.sent, loss.received, "estimate"))
        Ideal.kind = kind
        ideal = Ideal(0.01, truth_bps * math.exp(0.02 * random.standard_normal()), 1.0, trials)
        errors.append(abs(ideal.estimate().rate_bps / truth_bps - 1))
    assert 0.7 < np.mean(errors) / (ERROR * deviation) < 1.4


def test_time_that_is_shared_in_the_best_way_is_never_worse_than_shared_evenly() -> None:
    bounds = [Bound(Device(1e9, noise=noise, floor=1e-3)) for noise in (0.005, 0.04)]
    times_s, errors = bound.shared(bounds)
    evenly = ERROR * np.mean([one.deviation(30.0) for one in bounds])
    assert 0.7 * evenly < np.interp(30.0, times_s, errors) < evenly
