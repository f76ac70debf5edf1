"""Orders from draws that are written down, and draws whose means and spreads are known beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from runner.evidence.estimates import Estimate, Pooled, RoundValues
from runner.evidence.intervals import Array
from runner.ranking.draws import DRAWS, DrawnRanks, Order, draw_from_pairs, draw_means, draw_ranks, order_of
from tests.unit.synthetic import METRICS

VPNS = ("a", "b", "c")


def rows(*shares: tuple[float, Sequence[float]]) -> Array:
    """Each row in this share of the draws."""
    return np.concatenate([np.tile(np.array(row, dtype=float), (round(share * DRAWS), 1)) for share, row in shares])


def drawn(*shares: tuple[float, Sequence[float]], vpns: tuple[str, ...] = VPNS) -> DrawnRanks:
    return DrawnRanks(vpns, (2 * rows(*shares)).astype(np.uint16))


def test_the_expected_rank_is_the_mean_and_ties_have_half_ranks() -> None:
    found = drawn((0.5, (1, 2, 3)), (0.25, (1.5, 1.5, 3)), (0.25, (3, 2, 1)))
    assert found.mean_ranks() == {"a": 0.5 + 0.375 + 0.75, "b": 1 + 0.375 + 0.5, "c": 1.5 + 0.75 + 0.25}


def test_who_ties_for_the_best_shares_the_chance() -> None:
    order = Order(VPNS, rows((0.5, (1, 2, 3)), (0.25, (1.5, 1.5 + 1e-12, 3)), (0.25, (2, 2, 2))))
    assert order.chances_of_best() == pytest.approx({"a": 0.5 + 0.125 + 1 / 12, "b": 0.125 + 1 / 12, "c": 1 / 12})


def test_a_place_has_the_interval_of_95_per_cent_of_the_draws() -> None:
    rare = Order(VPNS, rows((0.02, (3, 1, 2)), (0.96, (1, 2, 3)), (0.02, (2, 1, 3))))
    assert rare.place_intervals() == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    rarer = Order(VPNS, rows((0.024, (3, 1, 2)), (0.976, (1, 2, 3))))
    assert rarer.place_intervals() == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}
    enough = Order(VPNS, rows((0.026, (3, 1, 2)), (0.974, (1, 2, 3))))
    assert enough.place_intervals() == {"a": (1, 3), "b": (1, 2), "c": (2, 3)}


def test_equals_share_the_better_place() -> None:
    assert Order(VPNS, rows((1, (1.5, 1.5 + 1e-12, 3)))).place_intervals() == {"a": (1, 1), "b": (1, 1), "c": (3, 3)}


def test_a_pair_is_ahead_or_equal_in_a_share_of_the_draws() -> None:
    order = Order(VPNS, rows((0.5, (1, 2, 3)), (0.3, (2, 2 + 1e-12, 3)), (0.2, (3, 2, 1))))
    assert order.pair("a", "b") == (0.5, 0.3)
    assert order.pair("b", "a") == (0.2, 0.3)
    assert order.pair("c", "a") == (0.2, 0)


def test_ranks_are_averaged_by_their_weights() -> None:
    found = order_of(
        {"rtt": drawn((1, (1, 2, 3))), "jitter": drawn((0.5, (2, 1, 3)), (0.5, (1, 2, 3)))},
        {"rtt": 3.0, "jitter": 1.0},
        ("b", "a"),
    )
    assert found.vpns == ("b", "a")
    assert found.averages[0].tolist() == [(3 * 2 + 1) / 4, (3 * 1 + 2) / 4]
    assert found.averages[-1].tolist() == [(3 * 2 + 2) / 4, (3 * 1 + 1) / 4]


def spread_of_t(freedom: float) -> float:
    return math.sqrt(freedom / (freedom - 2))


def test_the_mean_of_two_that_share_their_blocks_differs_as_a_paired_t_test_says() -> None:
    """The blocks move both alike by much; what is left is the half of their difference in each."""
    difference = np.array([0.02, 0.06, 0.03, 0.05, 0.04, 0.01, 0.07])
    blocks = np.array([1.0, -2.0, 0.5, 3.0, -1.0, 0.3, -0.8])
    values = {
        "a": {number: math.exp(log) for number, log in enumerate(blocks + difference)},
        "b": {number: math.exp(log) for number, log in enumerate(blocks)},
    }
    means = draw_means(values, np.random.default_rng(1))
    found = means[:, 0] - means[:, 1]
    assert found.mean() == pytest.approx(difference.mean(), abs=0.001)
    paired = difference.std(ddof=1) / math.sqrt(7) * spread_of_t(6)
    assert found.std() == pytest.approx(paired, rel=0.03)
    assert means.shape == (DRAWS, 2)


def test_the_mean_of_one_alone_has_the_spread_of_its_own_blocks() -> None:
    logs = np.array([0.1, 0.3, 0.2, 0.5, 0.4, 0.0])
    means = draw_means({"a": dict(enumerate(np.exp(logs).tolist()))}, np.random.default_rng(1))
    assert means.mean() == pytest.approx(logs.mean(), abs=0.003)
    assert means.std() == pytest.approx(logs.std(ddof=1) / math.sqrt(6) * spread_of_t(5), rel=0.03)


def test_values_that_have_no_logarithm_are_taken_as_they_are() -> None:
    means = draw_means({"a": {0: 0.0, 1: 2.0, 2: 4.0, 3: 2.0, 4: 0.0, 5: 4.0}}, np.random.default_rng(1))
    assert means.mean() == pytest.approx(2, abs=0.05)


def test_draws_from_pairs_differ_as_the_pairs_say_and_no_vpn_has_a_negative_variance() -> None:
    """Variances of 0.01, 0.04 and 0.09: those of the ratios are their sums. Their centres agree with each other."""
    pairs = {
        ("a", "b"): Estimate(0.5, math.sqrt(0.05), math.inf, 9),
        ("a", "c"): Estimate(0.8, math.sqrt(0.10), math.inf, 9),
        ("b", "c"): Estimate(0.3, math.sqrt(0.13), math.inf, 9),
    }
    values = {vpn: RoundValues({0: 1.0, 1: 1.0}, {0: 0, 1: 0}) for vpn in VPNS}
    found = draw_from_pairs(values, pairs, np.random.default_rng(1))
    assert found is not None
    assert found.std(axis=0).tolist() == pytest.approx([0.1, 0.2, 0.3], rel=0.03)
    assert (found[:, 0] - found[:, 1]).mean() == pytest.approx(0.5, abs=0.01)
    assert (found[:, 1] - found[:, 2]).mean() == pytest.approx(0.3, abs=0.01)
    uneven = pairs | {("b", "c"): Estimate(0.3, 0.6, math.inf, 9)}
    found = draw_from_pairs(values, uneven, np.random.default_rng(1))
    assert found is not None
    assert found[:, 0].std() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("freedom", "tails"), [(5.0, True), (math.inf, False)])
def test_a_vpn_is_drawn_with_the_fewest_degrees_of_freedom_of_its_pairs(freedom: float, tails: bool) -> None:
    """Of Student's t with five, 40 in 10,000 draws lie beyond five deviations; of a normal variable hardly ever one."""
    known = {
        pair: Estimate(0.0, 0.1 * math.sqrt(2), math.inf if pair == ("a", "b") else freedom, 9)
        for pair in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    values = {vpn: RoundValues({0: 1.0, 1: 1.0}, {0: 0, 1: 0}) for vpn in VPNS}
    found = draw_from_pairs(values, known, np.random.default_rng(1))
    assert found is not None
    for column in range(3):
        assert bool((np.abs(found[:, column]) > 5 * 0.1).mean() > 0.002) is tails


def test_two_searches_that_share_nothing_are_drawn_as_independent() -> None:
    values = {"a": Pooled({0: 2.0}, 0.03), "b": Pooled({1: 1.0}, 0.04)}
    found = draw_from_pairs(values, {}, np.random.default_rng(1))
    assert found is not None
    apart = found[:, 0] - found[:, 1]
    assert (apart.mean(), apart.std()) == pytest.approx((math.log(2), 0.05), rel=0.02)


def test_what_nothing_connects_has_no_order() -> None:
    single = {0: 1.0}
    values = {
        "a": RoundValues({0: 1.0, 1: 1.1}, {0: 0, 1: 0}),
        "b": RoundValues(single, {0: 0}),
        "c": RoundValues(single, {0: 0}),
    }
    assert draw_from_pairs(values, {("a", "b"): Estimate(0.0, 0.1, 5.0, 2)}, np.random.default_rng(1)) is None
    assert draw_ranks(METRICS["rtt"], values, set(), 1) is None
    assert draw_ranks(METRICS["rtt"], {}, set(), 1) is None
    alone = draw_from_pairs({"a": values["a"]}, {}, np.random.default_rng(1))
    assert alone is not None
    assert alone.shape == (DRAWS, 1)


@pytest.mark.parametrize(("metric", "first"), [("tcp_throughput", "b"), ("rtt", "a")])
def test_more_is_better_or_less_is(metric: str, first: str) -> None:
    values = {"a": {0: 1.0, 1: 1.01, 2: 0.99}, "b": {0: 2.0, 1: 2.02, 2: 1.98}}
    found = draw_ranks(METRICS[metric], values, set(), 1)
    assert found is not None
    assert found.mean_ranks()[first] == pytest.approx(1, abs=0.01)


def test_who_is_known_from_below_is_outranked_by_nobody_where_more_is_better() -> None:
    values = {"a": {0: 1.0, 1: 1.01, 2: 0.99}, "b": {0: 2.0, 1: 2.02, 2: 1.98}}
    found = draw_ranks(METRICS["tcp_throughput"], values, {"a"}, 1)
    assert found is not None
    assert found.mean_ranks()["a"] == 1
    less = draw_ranks(METRICS["rtt"], values, {"b"}, 1)
    assert less is not None
    assert less.mean_ranks()["b"] == pytest.approx(2, abs=0.01)
