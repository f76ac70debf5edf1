"""Claims about a kind of VPN: their interval is over the members, not over the repetitions."""

from __future__ import annotations

import pytest

from runner.papers.findings import NotMeasured
from runner.papers.members import group_mean, group_ratio
from runner.report.papers.findings import needs
from tests.unit.synthetic import make_run

HALF = (0.4, 0.6)


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
    judged = group_ratio(group(*members), others, HALF, published=0.5)
    assert (judged.verdict, judged.published) == (verdict, 0.5)
    assert judged == group_ratio(group(*members), others, HALF, published=0.5), "the draws are those of a seed"
    alone = group_mean({vpn: {1: value[1] / 100} for vpn, value in group(*members).items()}, HALF)
    assert alone.verdict == verdict


def test_one_member_has_no_interval_and_an_empty_group_no_mean() -> None:
    for judged in (group_ratio(group(50.0), group(99.0, 101.0), HALF), group_mean(group(0.5), HALF)):
        assert (judged.verdict, judged.low, judged.longer) == ("undecided", None, None)
        assert "one VPN" in judged.reason
    with pytest.raises(NotMeasured):
        group_ratio({}, group(1.0), HALF)
    with pytest.raises(NotMeasured):
        group_mean({}, HALF)


def test_no_more_repetitions_are_promised_where_the_members_differ() -> None:
    for judged in (
        group_ratio(group(30.0, 50.0, 70.0), group(99.0, 100.0, 101.0), HALF),
        group_ratio(group(50.0), group(99.0, 101.0), HALF),
        group_mean(group(0.3, 0.5, 0.7), HALF),
    ):
        assert needs(judged, make_run(("ipsec",)), 3).startswith("more repetitions do not decide it: ")
