"""The verdicts on what the path repeats and loses, from what arrived and what did not."""

import pytest

from runner.instruments.path.numbers import NumbersHeard
from runner.instruments.path.repeats import of_bursts
from runner.instruments.path.verdict import NoControl

LOST = (3, 4)


def heard(*missing: int, planned: int = 2) -> NumbersHeard:
    return NumbersHeard(sent=10, got=10 - len(missing), twice=0, planned=planned, missing=missing)


@pytest.mark.parametrize(("missing", "kind", "share"), [((3, 4), "exact", 1.0), ((3, 4, 7, 8), "more_lost", 0.75)])
def test_loss_in_bursts(missing: tuple[int, ...], kind: str, share: float) -> None:
    verdict = of_bursts(heard(*missing), heard(*LOST), LOST)
    assert (verdict.kind, verdict.value) == (kind, share)


@pytest.mark.parametrize("other", [(3, 5), (3,), (3, 5, 7), ()])
def test_a_relay_that_lost_another_packet_than_planned_is_no_verdict(other: tuple[int, ...]) -> None:
    for through, bare in ((other, LOST), (LOST, other)):
        with pytest.raises(NoControl):
            of_bursts(heard(*through, planned=len(other)), heard(*bare), LOST)


def test_where_the_bare_path_loses_more_there_is_no_verdict() -> None:
    with pytest.raises(NoControl):
        of_bursts(heard(*LOST), heard(*LOST, 7), LOST)
