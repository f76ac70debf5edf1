"""Ratios and their errors held to the published formulas, worked out by another library or by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from scipy.stats import mstats

from runner.evidence.estimates import (
    INSTANCE_PRIOR,
    WINSORISED,
    Estimate,
    Pooled,
    RoundValues,
    alone,
    components,
    independent,
)
from runner.evidence.estimates import estimate_pair as pair_of
from runner.evidence.stats import block_values, compare_blocks, compare_independent, lead_of_differences
from tests.unit.synthetic import make_trial

# Twenty log ratios that turn their sign from round to round, so that no round is like the one before it.
TURNING = [0.01, -0.02, 0.03, -0.01, 0.05, -0.03, 0.02, -0.04, 0.04, -0.02, 0.01, -0.05, 0.02, -0.01, 0.03, -0.02,
           0.9, -0.03, 0.01, -0.04]  # fmt: skip


def turns(logs: Sequence[float], instances: Sequence[int] | None = None) -> RoundValues:
    """Rounds with these logarithms, by default all of one instance."""
    values = {number: math.exp(log) for number, log in enumerate(logs)}
    return RoundValues(values, dict(enumerate(instances or [0] * len(logs))))


ONES = turns([0.0] * 20)


def yuen(logs: Sequence[float]) -> tuple[float, float]:
    """Trimmed mean and the variance that Yuen (1974) gives it, by SciPy: a tenth on each side."""
    cut = len(logs) // 10
    wins = mstats.winsorize(np.array(logs), limits=(0.1, 0.1))
    return float(stats.trim_mean(logs, 0.1)), float(np.var(wins, ddof=1)) * len(logs) / (len(logs) - 2 * cut) ** 2


def test_rounds_of_one_instance_have_a_trimmed_mean_its_variance_and_that_of_instances_elsewhere() -> None:
    found = pair_of(turns(TURNING), ONES)
    assert found is not None
    centre, variance = yuen(TURNING)
    instances = 2 * INSTANCE_PRIOR**2  # of the one tunnel and of the other
    assert found.centre == pytest.approx(centre)
    assert found.error == pytest.approx(math.sqrt(variance + instances))
    # Welch and Satterthwaite: 16 rounds are kept, and two degrees of freedom stand behind what is known from elsewhere
    freedom = (variance + instances) ** 2 / (variance**2 / 15 + instances**2 / 2)
    assert found.freedom == pytest.approx(freedom)
    assert found.blocks == 20


def test_the_interval_is_students_and_wider_for_more_confidence() -> None:
    found = Estimate(0.5, 0.1, 7.0, 8)
    reach = float(stats.t.ppf(0.975, 7)) * 0.1
    assert found.interval() == pytest.approx((0.5 - reach, 0.5 + reach))
    reach = float(stats.t.ppf(0.995, 7)) * 0.1
    assert found.interval(0.99) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_one_vpn_alone_has_the_instances_of_one() -> None:
    found = alone(turns(TURNING))
    assert found is not None
    assert found.error == pytest.approx(math.sqrt(yuen(TURNING)[1] + INSTANCE_PRIOR**2))


def test_where_each_round_has_a_tunnel_of_its_own_no_spread_of_instances_comes_on_top() -> None:
    found = pair_of(turns(TURNING, range(20)), turns([0.0] * 20, range(20)))
    assert found is not None
    assert found.error == pytest.approx(math.sqrt(yuen(TURNING)[1]))
    assert found.freedom == pytest.approx(15)


def test_equal_rounds_have_no_error() -> None:
    found = pair_of(turns([0.2] * 20), ONES)
    assert found is not None
    assert (found.centre, found.error, found.blocks) == pytest.approx((0.2, 0, 20))
    assert compare_blocks(turns([0.2] * 20), ONES).significant
    assert compare_blocks(ONES, turns([0.2] * 20)).significant
    assert not compare_blocks(ONES, ONES).significant


@pytest.mark.parametrize("pair", [{1: 2.0}, {1: 2.0, 2: 0.0}, {1: 2.0, 5: 3.0}, {}])
def test_without_two_shared_positive_blocks_there_is_no_ratio(pair: dict[int, float]) -> None:
    other = {1: 1.0, 2: 1.0, 3: 1.0}
    assert pair_of(pair, other) is None
    assert pair_of(RoundValues(pair, dict.fromkeys(pair, 0)), RoundValues(other, dict.fromkeys(other, 0))) is None


def test_repetitions_are_paired_as_the_t_test_of_related_samples_does() -> None:
    a, b = [2.0, 2.2, 2.6, 2.1], [1.0, 1.2, 1.1, 1.3]
    found = pair_of(dict(enumerate(a)), dict(enumerate(b)))
    assert found is not None
    expected = stats.ttest_rel(np.log(a), np.log(b)).confidence_interval(0.95)
    assert found.interval() == pytest.approx((expected.low, expected.high))
    assert (found.freedom, found.blocks) == (3, 4)
    assert pair_of(dict(enumerate([2.0, 3.0])), dict(enumerate([1.0, 1.0]))) is not None, "two are enough"


def test_what_stands_alone() -> None:
    assert alone({1: 5.0}) is None
    assert alone({1: 5.0, 2: 0.0}) is None
    assert alone({1: 5.0, 2: 6.0}) is not None
    found = alone({1: 1.0, 2: math.e, 3: math.e**2})
    assert found is not None
    assert (found.centre, found.error, found.freedom) == pytest.approx((1, 1 / math.sqrt(3), 2))
    assert found.blocks == 3
    found = alone(Pooled({3: math.e**2}, 0.05))
    assert found is not None
    assert (found.error, found.freedom, found.blocks) == (0.05, math.inf, 1)
    assert found.centre == pytest.approx(2)
    assert alone(Pooled({3: 0.0}, 0.05)) is None


def test_what_shares_nothing_has_welchs_degrees_of_freedom() -> None:
    found = independent(Estimate(1.0, 0.3, 5.0, 6), Estimate(0.4, 0.4, 9.0, 10))
    assert (found.centre, found.error, found.blocks) == pytest.approx((0.6, 0.5, 6))
    assert found.freedom == pytest.approx(0.25**2 / (0.09**2 / 5 + 0.16**2 / 9))
    assert independent(Estimate(1.0, 0.3, 5.0, 6), Estimate(1.0, 0.3, 5.0, 6)).freedom == pytest.approx(10)
    assert math.isinf(independent(Estimate(1.0, 0.0, 5.0, 6), Estimate(0.4, 0.0, 9.0, 10)).freedom)


def test_a_search_is_compared_with_another_as_two_independent_numbers() -> None:
    found = compare_blocks(Pooled({1: 200e6}, 0.03), Pooled({2: 100e6}, 0.04))
    assert found.ratio == pytest.approx(2)
    assert (found.low, found.high) == pytest.approx((2 * math.exp(-1.959964 * 0.05), 2 * math.exp(1.959964 * 0.05)))
    assert found.significant
    assert not compare_blocks(Pooled({1: 105e6}, 0.03), Pooled({2: 100e6}, 0.04)).significant


def test_the_parts_of_a_spread_are_those_of_an_analysis_of_variance() -> None:
    """Of a table of four VPNs by forty rounds, winsorised: what is left over, and what the rounds have beyond it."""
    random = np.random.default_rng(5)
    table = 0.05 * random.standard_normal(40) + 0.02 * random.standard_normal((4, 40))
    found = components({f"vpn{number}": turns(row.tolist()) for number, row in enumerate(table)})
    assert found is not None
    rows = np.array([mstats.winsorize(row - row.mean(), limits=(0.1, 0.1)) for row in table])
    of_rounds = 4 * float(((rows.mean(axis=0) - rows.mean()) ** 2).sum()) / 39
    in_all = float(((rows - rows.mean()) ** 2).sum())
    of_vpns = 40 * float(((rows.mean(axis=1) - rows.mean()) ** 2).sum())
    left_over = (in_all - 39 * of_rounds - of_vpns) / (3 * 39)
    assert found.slice == pytest.approx(math.sqrt(left_over / WINSORISED))
    assert found.round == pytest.approx(math.sqrt((of_rounds - left_over) / 4 / WINSORISED))
    assert found.instance is None, "one instance of each"


def test_a_spread_has_parts_from_two_vpns_and_four_rounds_on() -> None:
    four, three = turns([0.1, 0.2, 0.1, 0.4]), turns([0.1, 0.2, 0.1])
    assert components({"a": four, "b": four}) is not None
    assert components({"a": four, "b": three}) is None
    assert components({"a": four}) is None
    assert components({"a": four, "b": {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}}) is None, "repetitions are no rounds"
    assert components({}) is None


def test_two_runs_of_one_repetition_have_a_ratio_and_no_interval() -> None:
    found, p = compare_independent([2.0, 8.0], [16.0])
    assert found.ratio == pytest.approx(4)
    assert (found.low, found.high, found.blocks, p) == (None, None, 0, None)
    assert not found.significant
    assert found.method == "not separable: needs two repetitions on both sides"
    found, p = compare_independent([2.0, 0.0], [16.0, 4.0])
    assert (found.ratio, p, found.method) == (None, None, "not separable: a value is not positive")


@pytest.mark.filterwarnings("ignore:Precision loss")
def test_one_run_that_does_not_vary_is_compared_with_one_that_does() -> None:
    steady, varying = [5.0, 5.0, 5.0], [5.5, 6.5, 6.1]
    for a, b in ((steady, varying), (varying, steady)):
        found, p = compare_independent(a, b)
        assert p == pytest.approx(float(stats.ttest_ind(np.log(b), np.log(a), equal_var=False).pvalue))
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.high


def test_two_runs_that_do_not_vary_differ_or_do_not() -> None:
    found, p = compare_independent([5.0, 5.0, 5.0], [6.0, 6.0])
    assert (found.ratio, found.low, found.high, p) == pytest.approx((1.2, 1.2, 1.2, 0))
    assert (found.significant, found.blocks) == (True, 2)
    assert not compare_independent([5.0, 5.0], [5.0, 5.0])[0].significant


def test_who_leads_where_values_have_no_ratio() -> None:
    ahead = {0: 1.0, 1: 1.0, 2: 1.0}
    assert lead_of_differences(ahead, {0: 0.0, 1: 0.0, 2: 0.0}) == 1
    assert lead_of_differences({0: 0.0, 1: 0.0, 2: 0.0}, ahead) == -1
    assert lead_of_differences(ahead, {0: 1.0, 1: 0.0, 2: 1.0}) == 0
    assert lead_of_differences(ahead, {0: 0.0, 7: 0.0}) == 0, "one shared block"
    assert lead_of_differences(ahead, {7: 0.0}) == 0


def test_of_a_block_counts_what_is_ok_and_of_the_metric_and_twice_measured_is_a_geometric_mean() -> None:
    def trial(block: int, position: str = "within", status: str = "ok", **values: float) -> object:
        return make_trial("none", {}, block, values, position=position, status=status)  # type: ignore[arg-type]

    baseline = [trial(2, "first", rtt=4.0), trial(2, "last", rtt=9.0), trial(1, rtt=7.0, jitter=1.0)]
    assert block_values([*baseline, trial(3, status="failed", rtt=5.0), trial(4, jitter=2.0)], "rtt") == {  # type: ignore[list-item]
        1: 7.0,
        2: pytest.approx(6),
    }
    zero = [trial(1, "first", rtt=0.0), trial(1, "last", rtt=3.0)]
    assert block_values(zero, "rtt") == {1: 1.5}, "the arithmetic mean, where a value has no logarithm"  # type: ignore[arg-type]
