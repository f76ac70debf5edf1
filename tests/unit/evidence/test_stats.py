"""Intervals against hand calculation and against their own promise, 95 %."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from runner.evidence.model import ALL_EQUAL
from runner.evidence.stats import (
    block_values,
    compare_blocks,
    compare_independent,
    drift,
    lower_bounds,
    summarise,
    summarise_all,
)
from tests.unit.synthetic import CBC, IDLE, PLAIN, UDP, make_trial

T_2 = 4.302653  # Student's t, two-sided 95 %, 2 degrees of freedom


def test_interval_of_three_by_hand() -> None:
    summary = summarise([110.0, 100.0, 121.0])  # logarithms one step of ln 1.1 apart: their deviation is ln 1.1
    half = T_2 * math.log(1.1) / math.sqrt(3)
    assert summary.low == pytest.approx(110 * math.exp(-half), rel=1e-6)
    assert summary.high == pytest.approx(110 * math.exp(half), rel=1e-6)
    assert (summary.n, summary.median, summary.method) == (3, 110, "t interval on logarithms")
    assert summary.mean == pytest.approx(331 / 3)
    assert summary.variation == pytest.approx(np.std([100, 110, 121], ddof=1) / (331 / 3))


def test_one_repetition_has_no_interval_and_says_so() -> None:
    summary = summarise([5.0])
    assert (summary.low, summary.high, summary.variation) == (None, None, None)
    assert summary.method == "n=1, no interval"


@pytest.mark.parametrize(("n", "method"), [(9, "t interval on logarithms"), (10, "BCa bootstrap of the median")])
def test_bootstrap_from_ten(n: int, method: str) -> None:
    values = list(np.random.default_rng(1).lognormal(3, 0.2, n))
    summary = summarise(values)
    assert summary.method == method
    assert summary.low is not None
    assert summary.high is not None
    assert summary.low < summary.median < summary.high
    assert summarise(values) == summary  # the bootstrap is seeded


def test_the_interval_covers_the_median_as_often_as_it_promises() -> None:
    rng = np.random.default_rng(2)
    summaries = [summarise(list(rng.lognormal(0, 0.1, 3))) for _ in range(400)]
    covered = sum(s.low is not None and s.high is not None and s.low <= 1 <= s.high for s in summaries)
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize("n", [3, 9, 10, 15])
def test_the_interval_of_a_ratio_covers_it_as_often_as_it_promises(n: int) -> None:
    """Also where the method changes: a plain BCa bootstrap of ten values covers the truth in 90 of 100 runs."""
    rng = np.random.default_rng(n)
    ones = dict.fromkeys(range(n), 1.0)
    ratios = [compare_blocks(dict(enumerate(rng.lognormal(0, 0.1, n))), ones) for _ in range(400)]
    assert {ratio.method.split(",")[0] for ratio in ratios} == {
        "t interval on logarithms" if n < 10 else "studentised bootstrap on logarithms"
    }
    covered = sum(r.low is not None and r.high is not None and r.low <= 1 <= r.high for r in ratios)
    assert 0.925 <= covered / 400 <= 0.98


def test_a_bootstrap_of_mostly_equal_ratios_falls_back_to_student() -> None:
    ratio = compare_blocks(dict(enumerate([1.0] * 11 + [1.1])), dict.fromkeys(range(12), 1.0))
    assert ratio.method == "t interval on logarithms, paired within blocks"
    assert ratio.low is not None
    assert not ratio.significant


def test_equal_values_and_zeros_do_not_break() -> None:
    assert summarise([214.0] * 3).low == summarise([214.0] * 3).high == pytest.approx(214)
    assert summarise([214.0] * 12).method == ALL_EQUAL
    mostly = summarise([214.0] * 11 + [215.0])
    assert mostly.low is not None
    assert mostly.low >= 214 - 1e-9
    zero = summarise([0.0, 1.0, 2.0])
    assert "not all are positive" in zero.method
    assert zero.low == pytest.approx(1 - T_2 / math.sqrt(3), rel=1e-5)
    assert compare_blocks({0: 0.0, 1: 1.0}, {0: 1.0, 1: 1.0}).significant is False


def test_blocks_cancel_what_moves_all() -> None:
    """A machine that is at 100, 50 and 200 % speed in three blocks: b is 10 % faster in each of them."""
    a = {0: 100.0, 1: 50.5, 2: 199.0}
    b = {0: 110.0, 1: 55.0, 2: 220.0}
    ratio = compare_blocks(b, a)
    logs = [math.log(b[i] / a[i]) for i in a]
    half = T_2 * float(np.std(logs, ddof=1)) / math.sqrt(3)
    assert ratio.ratio == pytest.approx(math.exp(sum(logs) / 3))
    assert ratio.low == pytest.approx(math.exp(sum(logs) / 3 - half), rel=1e-6)
    assert ratio.significant
    assert compare_independent(list(a.values()), list(b.values()))[0].significant is False


@pytest.mark.parametrize("b", [{}, {7: 1.0}, {0: 1.0, 7: 1.0}])
def test_fewer_than_two_shared_blocks_are_not_separable(b: dict[int, float]) -> None:
    ratio = compare_blocks({0: 100.0, 1: 100.0}, b)
    assert not ratio.significant
    assert ratio.low is None
    assert ratio.method.startswith("not separable")


def test_two_shared_blocks_are_paired() -> None:
    found = compare_blocks({0: 100.0, 1: 110.0, 2: 7.0}, {0: 50.0, 1: 54.0})
    assert (found.blocks, found.method) == (2, "t interval on logarithms, paired within blocks")


def test_share_of_the_baseline_by_hand() -> None:
    """First and last of a block count as their geometric mean: √(100·400) = 200, of which 50 is a quarter."""
    params = PLAIN | IDLE
    baseline = [
        make_trial("none", params, block, {"rtt": value}, position=position)
        for block in (0, 1)
        for position, value in (("first", 100.0), ("last", 400.0))
    ]
    failed = make_trial("none", params, 1, {"rtt": 9.0}, status="failed")
    assert block_values([*baseline, failed], "rtt") == pytest.approx({0: 200, 1: 200})
    assert block_values(baseline, "jitter") == {}
    share = compare_blocks({0: 50.0, 1: 50.0}, block_values(baseline, "rtt"))
    assert share.ratio == pytest.approx(0.25)


@pytest.mark.parametrize(("last", "moved"), [((90, 91, 89), True), ((90, 110, 100), False)])
def test_drift_is_what_exceeds_its_interval(last: tuple[float, ...], moved: bool) -> None:
    params = PLAIN | IDLE
    trials = [make_trial("none", params, block, {"rtt": 100.0}, position="first") for block in range(3)]
    trials += [make_trial("none", params, block, {"rtt": v}, position="last") for block, v in enumerate(last)]
    found = drift(trials, "rtt")
    assert found.last.significant is found.moved is moved
    assert found.is_judged
    assert found.between.blocks == 0


@pytest.mark.parametrize(("blocks", "judged"), [(1, False), (2, True)])
def test_one_block_is_no_judge_of_drift(blocks: int, judged: bool) -> None:
    trials = [
        make_trial("none", PLAIN | IDLE, block, {"rtt": 100.0 + block}, position=position)
        for position in ("first", "last")
        for block in range(blocks)
    ]
    assert drift(trials, "rtt").is_judged is judged


@pytest.mark.parametrize(("middle", "moved"), [((130, 131, 129), True), ((130, 90, 100), False)])
def test_drift_sees_what_comes_and_goes_within_a_block(middle: tuple[float, ...], moved: bool) -> None:
    values = {"first": (100.0,) * 3, "between": middle, "last": (101.0, 100.0, 99.0)}
    trials = [
        make_trial("none", PLAIN | IDLE, block, {"rtt": value}, position=position)
        for position, found in values.items()
        for block, value in enumerate(found)
    ]
    found = drift(trials, "rtt")
    assert not found.last.significant
    assert found.between.significant is found.moved is moved
    if moved:
        assert found.between.ratio == pytest.approx(1.3, rel=0.01)


def test_lower_bounds_are_what_a_search_left_without_an_interval() -> None:
    def udp(block: int, **detail: object) -> object:
        trial = make_trial("openvpn", CBC | UDP, block, {"udp_throughput": 1e8, "jitter": 1.0})
        found = trial.measurements[0].model_copy(update={"detail": detail})
        return trial.model_copy(update={"measurements": [found, trial.measurements[1]]})

    trials = [
        udp(0, interval_bps=[1e8, 2e8], confirmed_rate_bps=None, flags=["unconfirmed"]),
        udp(1, interval_bps=None, confirmed_rate_bps=None, flags=["generator_limited"]),
        udp(2, interval_bps=None, confirmed_rate_bps=None, flags=["unconfirmed"]),  # the time was over
        udp(3, interval_bps=None, confirmed_rate_bps=1e8, flags=[]),
        udp(4),
    ]
    assert lower_bounds(trials, "udp_throughput") == {1, 2}  # type: ignore[arg-type]
    assert lower_bounds(trials, "jitter") == set()  # type: ignore[arg-type]


def test_independent_runs_by_welch() -> None:
    """Unequal spreads and counts, with the degrees of freedom of Welch and Satterthwaite by their formula."""
    a, b = [100.0, 101, 99], [80.0, 90, 70, 85]
    ratio, p = compare_independent(a, b)
    va, vb = (float(np.var(np.log(x), ddof=1)) / len(x) for x in (a, b))
    freedom = (va + vb) ** 2 / (va**2 / 2 + vb**2 / 3)
    centre = float(np.mean(np.log(b)) - np.mean(np.log(a)))
    half = float(scipy_stats.t.ppf(0.975, freedom)) * math.sqrt(va + vb)
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx(
        tuple(map(math.exp, (centre, centre - half, centre + half)))
    )
    assert p is not None
    assert (p < 0.05) is ratio.significant is True
    assert compare_independent([100.0], [80.0, 81.0])[1] is None
    assert compare_independent([5.0, 5.0], [5.0, 5.0])[1] == 1.0
    assert compare_independent([5.0, 5.0], [6.0, 6.0])[1] == 0.0


def test_verdicts_that_differ_have_no_interval_and_a_median_that_was_one() -> None:
    differ, same = summarise_all([[1280.0, 1400.0, 1400.0, 1500.0], [1400.0, 1400.0]], exact=True)
    assert (differ.median, differ.low, differ.high) == (1400.0, None, None)
    assert (same.low, same.high) == pytest.approx((1400.0, 1400.0))
    assert summarise_all([[1280.0, 1500.0]])[0].low is not None
