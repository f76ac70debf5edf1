"""Ratios and their intervals, by simulation where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runner.data.trials import Trial
from runner.evidence.estimates import (
    Estimate,
    Pooled,
    RoundValues,
    components,
    estimate_pair,
    estimate_pairs,
    independent,
)
from runner.evidence.stats import block_values, compare_blocks
from tests.bench.decide import MACHINES, coverage
from tests.bench.simulated_rounds import Machine, play
from tests.unit.synthetic import CBC, UDP, make_trial


def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def turns(a: list[float], instances: int = 1) -> RoundValues:
    return RoundValues(dict(enumerate(a)), {number: number * instances // len(a) for number in range(len(a))})


@pytest.mark.parametrize(
    "name", ["slices of 20 %", "instances of 2 %", "no drift, no theft", "a tenth of the slices stolen"]
)
def test_intervals_cover_what_they_say(name: str) -> None:
    """93 to 97 %; wider by three standard errors of so few simulations. ``make bench-decide`` has 2,000."""
    for shape in ((5, 2, 20), (3, 3, 20)):
        assert 0.92 < coverage(MACHINES[name], shape, 120, rng()).ratio < 0.98


def test_stolen_slices_are_outvoted() -> None:
    """One slice in ten lost half, all of one VPN: the ratio moves by less than the two per cent that it would be off in
    the median case, and not by the seven of the mean."""
    clean = [1.0 + 0.01 * (number % 5 - 2) for number in range(40)]
    stolen = [value / 2 if number % 10 == 3 else value for number, value in enumerate(clean)]
    ratio = compare_blocks(turns(stolen, 2), turns([1.0] * 40, 2))
    assert ratio.ratio == pytest.approx(1.0, abs=0.02)
    assert math.exp(float(np.log(stolen).mean())) < 0.94


def test_what_moves_the_machine_moves_no_ratio() -> None:
    pace = np.exp(np.cumsum(rng().normal(0, 0.2, 30)))
    estimate = estimate_pair(turns((1.1 * pace).tolist(), 2), turns(pace.tolist(), 2))
    assert estimate is not None
    assert math.exp(estimate.centre) == pytest.approx(1.1)
    assert estimate.error < 1e-9


def test_instances_that_differ_widen_the_interval() -> None:
    """The same rounds, one of two tunnels of a VPN 10 % faster than its other."""
    noise = rng().normal(0, 0.02, 40)
    other = turns([1.0] * 40, 2)
    alike = estimate_pair(turns(np.exp(noise).tolist(), 2), other)
    unlike = estimate_pair(turns(np.exp(noise + np.repeat([0.05, -0.05], 20)).tolist(), 2), other)
    assert alike is not None
    assert unlike is not None
    assert unlike.error > 2 * alike.error


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    """The same log ratios in another order: random, and each round like the one before."""
    steps = rng().normal(0, 0.1, 40)
    slow = [0.0]
    for step in steps[1:]:
        slow.append(0.9 * slow[-1] + float(step))
    ones = turns([1.0] * 40)
    shuffled = estimate_pair(turns(np.exp(rng().permutation(slow)).tolist()), ones)
    in_order = estimate_pair(turns(np.exp(slow).tolist()), ones)
    assert shuffled is not None
    assert in_order is not None
    assert in_order.error > 1.5 * shuffled.error


def freedoms(sds: list[float], rounds: int = 12) -> list[float]:
    """Of the pairs of VPNs with such slices, the degrees of freedom; the mean of fifty runs."""
    draws = rng()
    found = []
    for _ in range(50):
        values = {str(vpn): turns(list(np.exp(draws.normal(0, sd, rounds)))) for vpn, sd in enumerate(sds)}
        found.append([one.freedom for one in estimate_pairs(values).values()])
    return [float(mean) for mean in np.mean(found, axis=0)]


def test_pairs_that_are_alike_lend_each_other_degrees_of_freedom() -> None:
    alone = freedoms([0.2] * 3)
    alike, unlike = freedoms([0.2] * 5), freedoms([0.01, 0.02, 0.1, 0.5, 2.0])
    assert max(alike) <= 2 * max(alone) + 1
    assert min(alike) > 1.5 * max(alone)
    assert np.mean(unlike) < 1.25 * max(alone), "variances that differ tell nothing of each other"


def test_a_variance_that_was_small_by_chance_is_not_believed() -> None:
    draws = rng()
    values = {str(vpn): turns(list(np.exp(draws.normal(0, 0.2, 6)))) for vpn in range(5)}
    lucky = {vpn: turns(list(np.exp(np.log(list(values[vpn].values())) * 0.1))) for vpn in ("0", "1")}
    own = estimate_pair(lucky["0"], lucky["1"])
    among = estimate_pairs(values | lucky)["0", "1"]
    assert own is not None
    assert among.centre == own.centre
    assert among.error > 1.3 * own.error


def test_components_are_found_again() -> None:
    machine = Machine(slice=0.1, instance=0.08, drift=0.3, memory=0.2, unlike=0.0, stolen=0.0)
    found = [
        components(dict(zip("abcde", play(machine, [0.0] * 5, 3, 20, one), strict=True)))
        for one in np.random.default_rng(3).spawn(30)
    ]
    slices, drifts, instances = (
        float(np.mean([getattr(one, part) or 0.0 for one in found])) for part in ("slice", "round", "instance")
    )
    assert 0.1 < slices < 0.35  # its own, and what the machine drifts within a round
    assert instances == pytest.approx(0.08, abs=0.02)
    assert drifts < 0.3
    quiet = Machine(slice=0.1, instance=0.0, drift=0.0, stolen=0.0)
    still = components(dict(zip("abc", play(quiet, [0.0] * 3, 1, 60, rng()), strict=True)))
    assert still is not None
    assert still.slice == pytest.approx(0.1, abs=0.015)
    assert still.round < 0.04
    assert still.instance is None


def test_repetitions_are_compared_as_they_were() -> None:
    a, b = {0: 1.0, 1: 1.2, 2: 0.9}, {0: 0.8, 1: 1.0, 2: 0.85}
    ratio, estimate = compare_blocks(a, b), estimate_pair(a, b)
    assert estimate is not None
    assert (ratio.low, ratio.high) == pytest.approx(tuple(map(math.exp, estimate.interval())))
    assert estimate_pair(a, {0: 1.0}) is None
    assert estimate_pair(a, {0: 1.0, 1: 0.0, 2: 1.0}) is None


def test_a_search_that_went_on_counts_once() -> None:
    """Its last repetition is about all; the ratio of two is that of independent log-normals."""
    trials = [
        searched("openvpn", block, 100.0 + block, (90e6, 110e6) if block < 2 else (99e6, 101e6)) for block in range(3)
    ]
    values = block_values(trials, "udp_throughput")
    assert isinstance(values, Pooled)
    assert values == {2: 102.0}
    assert values.error == pytest.approx(math.log(101 / 99) / 3.92, rel=1e-3)
    estimate = estimate_pair(values, Pooled({2: 51.0}, values.error))
    assert estimate is not None
    assert (math.exp(estimate.centre), estimate.error) == pytest.approx((2.0, values.error * math.sqrt(2)))
    assert block_values([t.model_copy(update={"repetition": 9}) for t in trials[:1]], "udp_throughput") == {9: 100.0}


def searched(vpn: str, block: int, value: float, interval: tuple[float, float]) -> Trial:
    trial = make_trial(vpn, CBC | UDP, block, {"udp_throughput": value})
    detail = {"interval_bps": list(interval), "pooled": True}
    return trial.model_copy(
        update={"measurements": [m.model_copy(update={"detail": detail}) for m in trial.measurements]}
    )


def test_independent_numbers_are_compared_by_welch() -> None:
    both = independent(Estimate(1.0, 0.3, 4, 5), Estimate(0.5, 0.4, 4, 5))
    assert (both.centre, both.error) == pytest.approx((0.5, 0.5))
    assert both.freedom == pytest.approx(0.25**2 / (0.09**2 / 4 + 0.16**2 / 4))
    assert estimate_pairs({}) == {}
