"""The arithmetic of simulated devices, posterior, stability and bound: by hand, by brute force, or held to per mille.

Whether the models are right is the matter of test_search_posterior.py, by simulation and within some per cent; a slip
in a constant is smaller than that, and is found here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from runner.search import stability
from runner.search.likelihood import Devices, g, inverse_g
from runner.search.model import SearchTrial
from runner.search.posterior import Posterior
from runner.search.stability import DRIFTS, DWELLS_S, GAPS, NOISE
from tests.bench.bound import Bound
from tests.bench.devices import PACKET_BITS, Device, Kind, population

MANY = 400


def lost(device: Device, rate_bps: float, duration_s: float) -> float:
    found = device(rate_bps, duration_s)
    assert found.sent == round(rate_bps * duration_s / PACKET_BITS)
    return 1 - found.received / found.sent


def test_a_device_without_faults_forwards_all_up_to_its_capacity_and_that_above() -> None:
    assert lost(Device(1e9), 0.999e9, 1.0) == 0
    assert lost(Device(1e9), 2e9, 1.0) == pytest.approx(0.5, abs=0.002)
    assert lost(Device(1e9, floor=0.1), 0.5e9, 1.0) == pytest.approx(0.1, abs=0.004)
    assert lost(Device(1e9, startup_s=0.1), 0.5e9, 1.0) == pytest.approx(0.1, abs=0.004)
    assert lost(Device(1e9, startup_s=0.1), 0.5e9, 10.0) == pytest.approx(0.01, abs=0.001)
    assert lost(Device(1e9, livelock=0.5), 1.4e9, 1.0) == pytest.approx(1 - 0.8 / 1.4, abs=0.003)
    assert lost(Device(1e9, livelock=1.0), 9e9, 1.0) == pytest.approx(1 - 0.2 / 9, abs=0.001), "never nothing"


def test_stalls_noise_and_jitter_are_as_large_as_they_are_called() -> None:
    stalling = Device(1e9, stalls_per_s=0.5)
    losses = [lost(stalling, 0.5e9, 1.0) for _ in range(MANY)]
    assert np.mean(losses) == pytest.approx(0.5 * 0.1, rel=0.25)
    assert np.mean([loss > 0.0001 for loss in losses]) == pytest.approx(1 - math.exp(-0.5), abs=0.07)
    for device, deviation in (
        (Device(1e9, noise=0.05), 0.05),
        (Device(1e9, jitter=0.05), 0.05 / math.sqrt(20)),  # of 20 slots in a second
    ):
        forwarded = [1.5 * (1 - lost(device, 1.5e9, 1.0)) for _ in range(MANY)]
        assert np.mean(forwarded) == pytest.approx(1, abs=0.01)
        assert np.std(forwarded) == pytest.approx(deviation, rel=0.12)


def test_a_drifting_device_is_as_fast_as_in_the_middle_of_each_trial() -> None:
    device = Device(1e9, drift_per_s=0.01, overhead_s=0.5)
    for _ in range(2):
        device(1e8, 10.0)
    shares = 1 + 0.01 * 5, 1 + 0.01 * (10.5 + 5)
    assert device.clock_s == pytest.approx(21)
    assert (device.busy_s, device.served_s) == pytest.approx((20, 10 * sum(shares)))
    assert device.truths() == pytest.approx((np.mean(shares), np.mean(shares)))
    assert Device(1e9).truths() == (1.0, 1.0)
    falling = Device(1e9, drift_per_s=-1.0)
    falling(1e8, 10.0)
    assert falling.served_s == pytest.approx(3), "no slower than to three tenths"


def test_a_device_of_two_states_dwells_in_each_as_long_as_it_is_called() -> None:
    device = Device(1e9, low_state=0.6, dwell_s=4.0, overhead_s=0.3, seed=7)
    losses = [lost(device, 1e9, 0.1) for _ in range(2000)]
    assert device.served_s == pytest.approx(device.busy_s - 0.4 * device.slow_s)
    assert device.slow_s / device.busy_s == pytest.approx(0.5, abs=0.12)
    low = np.array(losses) > 0.2
    assert {round(loss, 1) for loss in losses} >= {0.0, 0.4}
    changes = np.count_nonzero(low[1:] != low[:-1])
    assert changes == pytest.approx(2000 * 0.4 / 4.0, rel=0.25)
    assert device.truths()[1] == (0.6 if device.slow_s > device.busy_s / 2 else 1.0)


def test_the_mean_loss_is_that_of_many_trials_of_ten_seconds() -> None:
    device = Device(1e9, noise=0.03, floor=0.002, stalls_per_s=0.02, startup_s=0.02, livelock=0.5)
    simulated = [lost(device, 1.02e9, 10.0) for _ in range(4000)]
    assert device.mean_loss(1.02e9) == pytest.approx(np.mean(simulated), rel=0.05)
    quiet = Device(1e9, floor=0.001, startup_s=0.01, stalls_per_s=0.01)
    through = 0.999 * (1 - 0.001 - 0.001)
    assert quiet.mean_loss(0.9e9) == pytest.approx(1 - through)
    assert quiet.mean_loss(1.25e9) == pytest.approx(1 - through * 0.8)
    assert quiet.true_throughput() == pytest.approx(1e9 * through / 0.99, rel=1e-5)


RANGES: dict[Kind, dict[str, tuple[float, float]]] = {
    "plain": {},
    "jitter": {"jitter": (0.02, 0.1)},
    "livelock": {"livelock": (0.2, 1.0)},
    "startup": {"startup_s": (0.002, 0.02)},
    "two_state": {"low_state": (0.7, 0.9), "dwell_s": (3, 15)},
    "drift": {"drift_per_s": (-0.004, 0.004)},
}


@pytest.mark.parametrize("kind", RANGES)
def test_a_population_fills_its_ranges_and_no_more(kind: Kind) -> None:
    found = population(MANY, 1, kind)
    usual = {"capacity_bps": (20e6, 9500e6), "noise": (0.005, 0.05), "floor": (0, 0.003), "stalls_per_s": (0, 0.02)}
    for name, (low, high) in {**usual, **RANGES[kind]}.items():
        values = sorted(getattr(device, name) for device in found)
        if name in ("capacity_bps", "noise"):  # log-uniform
            low, high, values = math.log(low), math.log(high), list(map(math.log, values))
        shares = [(value - low) / (high - low) for value in values]
        assert 0 <= shares[0] < 0.03, name
        assert 0.97 < shares[-1] <= 1, name
        if name != "drift_per_s":  # which leaves out what is near zero
            assert shares[MANY // 2] == pytest.approx(0.5, abs=0.1), name
    assert {(device.kind, device.overhead_s) for device in found} == {(kind, 0.3)}
    assert len({device.seed for device in found}) == MANY
    others = {"jitter", "livelock", "startup_s", "drift_per_s"} - {*RANGES[kind]}
    assert all(getattr(device, name) == 0 for device in found for name in others)


def test_quiet_devices_lose_nothing_and_drifts_go_both_ways_and_never_stand_still() -> None:
    assert {(one.noise, one.floor, one.stalls_per_s) for one in population(5, 1, "quiet")} == {(0.0, 0.0, 0.0)}
    drifts = [device.drift_per_s for device in population(MANY, 1, "drift")]
    assert min(map(abs, drifts)) == pytest.approx(0.001, abs=1e-4)
    assert sum(drift > 0 for drift in drifts) / MANY == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("d", [-4.0, -2.0, -0.5, 0.0, 0.7, 3.0, 7.5])
def test_g_is_the_mean_excess_of_a_normal_variable_and_has_its_inverse(d: float) -> None:
    expected = quad(lambda z: max(0.0, d + z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi), -12, 12, points=[-d])[0]
    (found,) = g(np.array([d]))
    assert found == pytest.approx(expected, rel=1e-5)
    assert inverse_g(np.array([found]))[0] == pytest.approx(d, abs=2e-3)
    assert inverse_g(np.array([20.0]))[0] == 20


@pytest.mark.parametrize(
    "parts",
    [
        {"noise": 0.02},
        {"noise": 0.05, "floor": 0.003},
        {"noise": 0.01, "jitter": 0.06},
        {"noise": 0.01, "startup_s": 0.02},
        {"noise": 0.02, "stalls_per_s": 0.02},
        {"noise": 0.02, "livelock": 0.8},
    ],
)
def test_a_hypothesis_has_the_throughput_of_the_device_that_it_is_about(parts: dict[str, float]) -> None:
    device = Device(1e9, **parts)  # type: ignore[arg-type]
    names = ("noise", "jitter", "floor", "stalls_per_s", "startup_s", "livelock")
    values = [max(getattr(device, name), 1e-6 * (name == "jitter")) for name in names]
    about = Devices(np.array([math.log(1e9)]), *(np.array([value]) for value in values))
    assert math.exp(about.log_throughput(0.01)[0]) == pytest.approx(device.true_throughput(), rel=6e-4)
    assert about.congestion_loss(0.01)[0] == pytest.approx(
        0.01 - device.floor - device.startup_s / 10 - 0.1 * device.stalls_per_s
    )


def trials(seed: int, device: Device, count: int = 30) -> list[SearchTrial]:
    """Trials around the capacity; their losses come of ``seed`` alone."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        rate_bps = device.capacity_bps * (0.97 + 0.06 * random.random())
        duration_s = 10.0 if number % 10 == 9 else 1.0
        loss = max(0.0, device.floor + 1 - device.capacity_bps / rate_bps * (1 + device.noise * random.normal()))
        sent = rate_bps * duration_s / PACKET_BITS
        found.append(SearchTrial(rate_bps, rate_bps, duration_s, sent, sent * (1 - loss), "estimate"))
    return found


def test_two_states_by_every_way_through_them() -> None:
    """The forward algorithm against the sum over all sequences of states, for one pair of capacities at a time."""
    random = np.random.default_rng(1)
    likelihood = random.uniform(0.1, 2.0, (4, 45, NOISE.size))
    times_s = np.array([1.0, 3.0, 10.0, 30.0])
    evidence = []
    for low, gap, noise, dwell_s in itertools.product(range(45), GAPS, range(NOISE.size), DWELLS_S):
        states = likelihood[:, [low, min(low + gap, 44)], noise]
        at = np.array([0.5, 0.5]) * states[0]
        for now, passed_s in zip(states[1:], np.diff(times_s), strict=True):
            stays = 0.5 * (1 + math.exp(-2 * passed_s / dwell_s))
            at = np.array([stays * at[0] + (1 - stays) * at[1], stays * at[1] + (1 - stays) * at[0]]) * now
        evidence.append(at.sum())
    assert stability._log_switching(likelihood, times_s) == pytest.approx(math.log(np.mean(evidence)))


def test_a_drift_by_each_of_its_slopes() -> None:
    likelihood = np.random.default_rng(2).uniform(0.1, 2.0, (3, 81, NOISE.size))
    times_s = np.array([0.0, 25.0, 100.0])
    evidence = []
    for drift, start in itertools.product(DRIFTS, range(81)):
        at = [min(80, max(0, start + round(drift * (time_s / 100 - 0.5)))) for time_s in times_s]
        evidence.append(math.prod(likelihood[number, place] for number, place in enumerate(at)))
    assert stability._log_drifting(likelihood, times_s) == pytest.approx(math.log(np.mean(evidence)))


# rate, duration, loss -> the density under three hypotheses, of which the second jitters and the third never stalls
DENSITIES = {
    (0.97e9, 1.0, 0.001): (738.7152532628211, 0.04900993366533776, 0.05),
    (1.02e9, 1.0, 0.03): (16.37672135799085, 20.51947923149746, 7.055331230523285),
    (1.02e9, 10.0, 0.012): (8.718745556637952, 5.73180225396031, 9.87422078015742),
    (0.9e9, 1.0, 0.0): (0.18626220998589124, 0.04900993366533776, 0.05),
    (0.95e9, 0.5, 0.2): (0.058961462294486226, 0.06840484532561923, 0.05000000000026446),
    (1.5e9, 2.0, 0.4): (0.06614744954637666, 0.04830894868074553, 11.853839856144171),
}


@pytest.mark.parametrize(("rate_bps", "duration_s", "loss"), DENSITIES)
def test_the_density_of_a_loss_is_held(rate_bps: float, duration_s: float, loss: float) -> None:
    parts = (
        *((20.7, 20.73, 20.75), (0.02, 0.01, 0.03), (0.01, 0.05, 0.001), (0.001, 0.0, 0.003)),
        *((0.01, 0.02, 0.0), (0.0, 0.004, 0.001), (0.0, 0.5, 0.2)),
    )
    sent = rate_bps * duration_s / PACKET_BITS
    trial = SearchTrial(rate_bps, rate_bps, duration_s, sent, sent * (1 - loss), "estimate")
    found = Devices(*map(np.array, parts)).likelihood(trial, 0.01)
    assert found == pytest.approx(DENSITIES[rate_bps, duration_s, loss], rel=1e-6)


def test_what_is_believed_of_a_device_is_held() -> None:
    device = Device(1e9, noise=0.02, floor=0.001)
    found = Posterior(0.01, 1e9, 1.0, trials(1, device)).estimate()
    assert (found.low_bps, found.rate_bps, found.high_bps) == pytest.approx((992.4178e6, 1003.2113e6, 1011.8073e6))
    assert (found.careful_bps, found.capacity_bps) == pytest.approx((995.2018e6, 1001.1413e6))
    assert (found.noise, found.jitter, found.floor) == pytest.approx((0.01860815, 9.323245e-4, 6.770978e-5), rel=1e-5)
    assert (found.stalls_per_s, found.livelock) == pytest.approx((9.544410e-3, 5.098667e-2), rel=1e-5)
    assert (found.startup_s, found.due_to_startup) == pytest.approx((1.032857e-5, 1.821384e-4), rel=1e-5)
    assert found.no_throughput == 0
    assert found.relative_width == pytest.approx((1011.8073 - 992.4178) / 2 / 1003.2113, rel=1e-4)


def test_what_is_believed_after_more_trials_and_a_guess_is_held() -> None:
    device = Device(1e9, noise=0.01, floor=0.002)
    belief = Posterior(0.01, 1.02e9, 1.0, trials(2, device)[:12], startup_s=0.002)
    for trial in trials(3, device):
        belief.update(trial)
    found = belief.estimate()
    assert belief.effective == pytest.approx(0.1093819, rel=1e-4)
    assert (found.low_bps, found.rate_bps, found.high_bps) == pytest.approx((1000.3978e6, 1005.5138e6, 1010.2773e6))
    assert (found.noise, found.jitter, found.floor) == pytest.approx((0.01155740, 2.516885e-3, 6.231519e-5), rel=1e-4)
    assert found.startup_s == pytest.approx(7.669654e-6, rel=1e-4)


def test_a_device_that_always_loses_too_much_has_no_throughput() -> None:
    rates_bps = np.geomspace(0.1e9, 0.95e9, 30)
    lossy = [
        SearchTrial(rate, rate, 1.0, rate / PACKET_BITS, 0.95 * rate / PACKET_BITS, "estimate") for rate in rates_bps
    ]
    assert Posterior(0.01, 1e9, 1.0, lossy).estimate().no_throughput > 0.99


@pytest.mark.parametrize(
    ("kind", "parts", "deviation", "time_s"),
    [
        ("plain", {}, 0.0059902601580924, 7.061880692642433),
        ("jitter", {"jitter": 0.05}, 0.007635590544254815, 11.25730338815713),
        ("livelock", {"livelock": 0.6}, 0.0065689327290373535, 8.570828362933645),
        ("startup", {"startup_s": 0.01}, 0.006214596388033122, 7.559897855066285),
    ],
)
def test_the_bound_is_held(kind: Kind, parts: dict[str, float], deviation: float, time_s: float) -> None:
    """That it is right, an ideal search shows to within a sixth, in test_search_posterior.py."""
    found = Bound(Device(1e9, noise=0.02, floor=0.001, stalls_per_s=0.005, kind=kind, **parts))  # type: ignore[arg-type]
    assert found.deviation(20.0) == pytest.approx(deviation, rel=1e-5)
    assert found.time_s(0.01) == pytest.approx(time_s, rel=1e-5)
    assert found.best(20.0)[1].sum() == pytest.approx(1)


def test_the_bounds_time_has_its_limits() -> None:
    found = Bound(Device(1e9, noise=0.02, floor=0.001))
    assert found.time_s(1.0) == 1.3
    assert found.time_s(1e-6) == 3600
    for time_s in (1.35, 1.8, 2000.0):
        assert found.time_s(found.deviation(time_s)) == pytest.approx(time_s, rel=0.02)
