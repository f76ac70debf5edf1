"""Claims about a kind of VPN: their interval is over the members, not over the repetitions."""

from __future__ import annotations

import pytest

from questions.papers.findings import needs
from runner.papers.findings import Data, NotMeasured
from runner.papers.members import group_mean, group_ratio
from tests.unit.synthetic import make_run

HALF = (0.4, 0.6)
DATA = Data(make_run(("ipsec",)), [])


def group(*values: float) -> dict[str, dict[int, float]]:
    """VPN -> block -> value, in repetitions that hardly differ."""
    return {f"vpn{number}": {1: value, 2: value, 3: value} for number, value in enumerate(values)}


@pytest.mark.parametrize(
    ("members", "verdict"),
    [
        ((49.0, 50.0, 51.0), "reproduced"),
        ((30.0, 50.0, 70.0), "undecided"),  # the same mean, and one member more or less would change it
        ((89.0, 90.0, 91.0), "not reproduced"),
    ],
)
def test_a_claim_about_a_group_is_as_sure_as_its_members_are_alike(members: tuple[float, ...], verdict: str) -> None:
    others = group(99.0, 100.0, 101.0)
    judged = group_ratio(DATA, group(*members), others, HALF, published=0.5)
    assert (judged.verdict, judged.published) == (verdict, 0.5)
    alone = group_mean(DATA, {vpn: {1: value[1] / 100} for vpn, value in group(*members).items()}, HALF)
    assert alone.verdict == verdict


def test_one_member_has_no_interval_and_an_empty_group_no_mean() -> None:
    for judged in (group_ratio(DATA, group(50.0), group(99.0, 101.0), HALF), group_mean(DATA, group(0.5), HALF)):
        assert (judged.verdict, judged.low, judged.longer) == ("undecided", None, None)
        assert "one VPN" in judged.reason
    with pytest.raises(NotMeasured):
        group_ratio(DATA, {}, group(1.0), HALF)
    with pytest.raises(NotMeasured):
        group_mean(DATA, {}, HALF)


def test_no_more_repetitions_are_promised_where_the_members_differ() -> None:
    for judged in (
        group_ratio(DATA, group(30.0, 50.0, 70.0), group(99.0, 100.0, 101.0), HALF),
        group_ratio(DATA, group(50.0), group(99.0, 101.0), HALF),
        group_mean(DATA, group(0.3, 0.5, 0.7), HALF),
    ):
        assert judged.members
        assert "no more repetitions narrow it" in needs(judged, make_run(("ipsec",)), 3)


def test_the_interval_over_two_members_is_wide() -> None:
    """A bootstrap of two draws only three different pairs, and covers three quarters; Student's t covers what it
    says."""
    few, many = group_ratio(DATA, group(40.0, 60.0), group(90.0, 110.0), HALF), group(*([40.0, 60.0] * 10))
    assert few.low is not None
    assert few.high is not None
    assert few.low < 0.2
    assert few.high > 1
    wide = group_ratio(DATA, many, group(*([90.0, 110.0] * 10)), HALF)
    assert wide.low is not None
    assert 0.4 < wide.low < 0.5, "control"
