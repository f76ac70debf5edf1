"""The verdicts on what the path repeats and loses, from counts."""

import pytest

from runner.instruments.path.numbers import NumbersHeard
from runner.instruments.path.repeats import of_bursts
from runner.instruments.path.verdict import NoControl


def heard(got: int, missing: tuple[int, ...], planned: int = 2) -> NumbersHeard:
    return NumbersHeard(sent=10, got=got, twice=0, planned=planned, missing=missing)


BARE = heard(8, (3, 4))


@pytest.mark.parametrize(
    ("through", "kind", "share"),
    [
        (heard(8, (3, 4)), "exact", 1.0),
        (heard(8, (3, 5)), "exact", 1.0),  # 4 and 5 left the host in the other order
        (heard(9, (3,), planned=1), "exact", 1.0),  # the last of the plan was not reached
        (heard(6, (3, 4, 7, 8)), "more_lost", 0.75),
        (heard(8, (3, 7), planned=1), "more_lost", 8 / 9),  # the VPN lost 7, and the plan's end was not reached
    ],
)
def test_loss_in_bursts_is_told_by_counts(through: NumbersHeard, kind: str, share: float) -> None:
    verdict = of_bursts(through, BARE)
    assert (verdict.kind, verdict.value) == (kind, share)


def test_where_the_bare_path_loses_more_there_is_no_verdict() -> None:
    assert of_bursts(heard(8, (3, 4)), heard(8, (3, 5))).kind == "exact"
    with pytest.raises(NoControl, match="7 of 8"):
        of_bursts(heard(8, (3, 4)), heard(7, (3, 4, 5)))
