"""Equal is equal: rounding makes neither a rank, nor an order, nor a verdict."""

import math

import numpy as np
import pytest

from runner.data.numbers import SAME, lead, same
from runner.evidence.model import ALL_EQUAL
from runner.evidence.stats import compare_blocks, compare_independent, lead_of_differences, summarise
from runner.evidence.ties import excludes_zero, in_order, ranks, settle_ties
from runner.papers.claims import LESS, MORE, compare, decide
from runner.papers.findings import ahead

ROUNDED = 1 + 4e-16


@pytest.mark.parametrize("size", [1e-7, 1.0, 9e12])
def test_the_tolerance_is_a_share_of_the_larger(size: float) -> None:
    assert same(size, size * (1 + 0.9 * SAME))
    assert (lead(size, size * ROUNDED), lead(size, size * (1 + 2 * SAME)), lead(size, 0.0)) == (0, -1, 1)
    assert ranks([size * ROUNDED, size / 2, size]).tolist() == [2.5, 1, 2.5]
    assert ranks([size * (1 + 2 * SAME), size / 2, size]).tolist() == [3, 1, 2]


def test_logarithms_around_zero_have_a_tolerance_of_their_own() -> None:
    assert ranks([1e-17, -1e-17, 1.0]).tolist() == [2, 1, 3]
    assert ranks([1e-17, -1e-17, 1.0], scale=1.0).tolist() == [1.5, 1.5, 3]
    assert not excludes_zero(1e-17, 1e-17)
    assert excludes_zero(2 * SAME, 1.0)
    assert excludes_zero(-1.0, -2 * SAME)


def test_equal_ones_become_one_number_row_by_row() -> None:
    rows = settle_ties(np.array([[3.0, 1.0, 3.0 * ROUNDED], [1.0 * ROUNDED, math.inf, 1.0]]))
    assert rows.tolist() == [[3.0, 1.0, 3.0], [1.0, math.inf, 1.0]]
    assert settle_ties([]).tolist() == []


@pytest.mark.parametrize("scale", [None, 1.0])
def test_few_numbers_are_settled_and_ranked_as_many_are(scale: float | None) -> None:
    """Lists of a few go another way than arrays; ranks are those that counting finds."""
    rng = np.random.default_rng(1)
    for length in (*range(1, 9), 40):
        near = 1 + rng.choice([0, 0.4 * SAME, 0.9 * SAME, 3 * SAME], size=(50, length))
        rows = rng.choice([-1.0, 0.0, 1.0, 1e9, 1e-9], size=(50, length)) * near
        many = settle_ties(rows, scale)
        assert [settle_ties(row, scale).tolist() for row in rows.tolist()] == many.tolist()
        below, equal = ((other(many[..., None], many[:, None])).sum(axis=-1) for other in (np.greater, np.equal))
        assert ranks(rows, scale).tolist() == (below + (equal + 1) / 2).tolist()


def test_equal_ones_stay_in_their_order() -> None:
    assert in_order("abc", [2.0 * ROUNDED, 2.0, 1.0]) == ["c", "a", "b"]
    assert in_order("ab", [math.inf, math.inf]) == ["a", "b"]
    assert in_order("", []) == []


def test_repetitions_that_differ_by_rounding_are_all_equal() -> None:
    for repetitions in (3, 12):
        values = [0.8 * ROUNDED**n for n in range(repetitions)]
        assert summarise(values).method == ALL_EQUAL
        assert summarise([value - 0.8 for value in values]).n == repetitions, "around zero there is no logarithm"


def test_rounding_makes_no_verdict() -> None:
    blocks = {n: 3.0 + n for n in range(4)}
    for rounded in ({n: value * ROUNDED for n, value in blocks.items()}, {n: v / ROUNDED for n, v in blocks.items()}):
        assert not compare_blocks(blocks, rounded).significant
        assert lead_of_differences(blocks, rounded) == 0
        assert not compare_independent([3.0, 3.0 * ROUNDED], [3.0 * ROUNDED] * 2)[0].significant
        assert {compare(blocks, rounded, bounds).verdict for bounds in (LESS, MORE)} == {"reproduced"}
        assert ahead(rounded[0], blocks[0]) is False


def test_an_interval_that_ends_at_a_bound_lies_within_it_however_it_was_rounded() -> None:
    for end in (1.0, ROUNDED, 1 / ROUNDED):
        assert decide(0.9, 0.8, end, LESS).verdict == "reproduced"
        assert decide(1.2, end, 1.3, MORE).verdict == "reproduced"
    assert decide(1.0, 0.9, 1.0 + 2 * SAME, LESS).verdict == "undecided"
