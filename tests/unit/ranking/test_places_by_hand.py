"""Places, ties and pairs of a ranking, from draws that are written down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from runner.data.numbers import chance
from runner.ranking import ranking
from runner.ranking.draws import DRAWS, Order
from runner.ranking.model import Standing


def standing(vpn: str, average: float | None = None, place: int | None = None, best: float | None = None) -> Standing:
    return Standing(
        vpn=vpn,
        levels={},
        ranks={},
        blocks={},
        average=average,
        at_least=[],
        missing={},
        place=place,
        best_probability=best,
    )


def order(*shares: tuple[float, Sequence[float]], vpns: str = "ab") -> Order:
    """The average ranks of ``vpns``, in this share of the draws each."""
    rows = [np.tile(np.array(row, dtype=float), (round(share * DRAWS), 1)) for share, row in shares]
    return Order(tuple(vpns), np.concatenate(rows))


def test_a_place_is_one_more_than_those_ahead_equals_share_it_and_the_unranked_come_last() -> None:
    every = [standing("d"), standing("c", 2.5), standing("b", 1.5), standing("a", 1.5 + 1e-12), standing("e", 1.0)]
    found = ranking._with_places(every)
    assert [(one.vpn, one.place) for one in found] == [("e", 1), ("a", 2), ("b", 2), ("c", 4), ("d", None)]


def test_one_ranked_alone_has_no_place() -> None:
    found = ranking._with_places([standing("b", 1.0), standing("a")])
    assert [(one.vpn, one.place, one.average) for one in found] == [("a", None, None), ("b", None, None)]


def test_two_in_their_order_have_the_share_of_the_draws_in_which_it_holds() -> None:
    """Ahead on average by a few large leads, and behind in most draws: who has the better place stands first."""
    draws = order((0.4, (1, 4)), (0.6, (2, 1)))
    found = ranking._pair(standing("a", 1.6, 1), standing("b", 2.2, 2), draws)
    assert (found.first, found.second, found.probability, found.equal) == ("a", "b", 0.4, 0)
    assert not found.separated


def test_of_two_that_share_a_place_the_likelier_order_is_told() -> None:
    draws = order((0.3, (1, 2)), (0.1, (1, 1)), (0.6, (2, 1)))
    found = ranking._pair(standing("a", 1.5, 1), standing("b", 1.5, 1), draws)
    assert (found.first, found.second) == ("b", "a")
    assert (found.probability, found.equal) == pytest.approx((0.6, 0.1))
    even = order((0.4, (1, 2)), (0.1, (1, 1)), (0.5, (2, 1)))
    assert ranking._pair(standing("a", 1.5, 1), standing("b", 1.5, 1), even).first == "a"


@pytest.mark.parametrize(
    ("ahead", "tied", "separated"), [(0.95, 0.05, True), (0.94, 0.0, False), (0.05, 0.9, False), (0.5, 0.5, False)]
)
def test_two_are_separated_where_the_order_holds_in_95_per_cent(ahead: float, tied: float, separated: bool) -> None:
    draws = order((ahead, (1, 2)), (tied, (1, 1)), (round(1 - ahead - tied, 9), (2, 1)))
    found = ranking._pair(standing("a", 1.1, 1, 0.9), standing("b", 1.9, 2, 0.1), draws)
    assert found.separated is separated
    later = ranking._pair(standing("a", 1.1, 1, 0.1), standing("b", 1.9, 2, 0.9), draws)
    assert not later.separated, "the second is more often the best of all"


def test_without_draws_nothing_is_separated() -> None:
    found = ranking._pair(standing("a", 1.0, 1), standing("b", 2.0, 2), None)
    assert (found.first, found.second, found.probability, found.separated) == ("a", "b", None, False)
    ties = ranking._with_chances([standing("a", 1.0, 1), standing("b", 2.0, 2), standing("c")], None)
    assert [one.ties for one in ties] == [["b"], ["a"], []]
    assert [one.best_probability for one in ties] == [None, None, None]


def test_who_is_ranked_has_a_chance_an_interval_of_its_place_and_its_ties() -> None:
    draws = order((0.96, (1, 2, 3)), (0.04, (2, 1, 3)), vpns="abc")
    placed = [standing("a", 1.0, 1), standing("b", 2.0, 2), standing("c", 3.0, 3), standing("d")]
    a, b, c, d = ranking._with_chances(placed, draws)
    assert (a.best_probability, b.best_probability, c.best_probability, d.best_probability) == (0.96, 0.04, 0, None)
    assert (a.place_interval, b.place_interval, c.place_interval) == ((1, 2), (1, 2), (3, 3))
    assert (a.ties, b.ties, c.ties) == ([], [], [])
    unsure = order((0.9, (1, 2, 3)), (0.1, (2, 1, 3)), vpns="abc")
    assert [one.ties for one in ranking._with_chances(placed, unsure)] == [["b"], ["a"], [], []]


def test_equals_stand_by_their_chance_and_tie_and_a_place_lies_in_its_interval() -> None:
    draws = order((0.4, (1, 2, 3)), (0.6, (2, 1, 3)), vpns="abc")
    found = ranking._with_chances([standing("a", 1.5, 1), standing("b", 1.5, 1), standing("c", 3.0, 3)], draws)
    assert [one.vpn for one in found] == ["b", "a", "c"]
    assert [one.ties for one in found] == [["a"], ["b"], []]
    certain = order((1, (2, 1)))
    late, early = ranking._with_chances([standing("a", 1.5, 1), standing("b", 1.6, 2)], certain)
    assert (late.place_interval, early.place_interval) == ((1, 2), (1, 2)), "an average may come after what it beats"


@pytest.mark.parametrize(
    ("probability", "said"),
    [(None, "–"), (0.0, "<1 %"), (0.009, "<1 %"), (0.01, "1 %"), (0.99, "99 %"), (0.991, ">99 %"), (1.0, ">99 %")],
)
def test_draws_show_no_certainty(probability: float | None, said: str) -> None:
    assert chance(probability) == said
