"""What a page begins with: the answer as its heading, and the VPNs that are compared first; of very many, the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from questions.choose.blocks import say
from questions.choose.words import NOTHING, ON_LINE, UNKNOWN, by_line
from questions.rank import verdict_words
from questions.rank.page import context, pairs
from questions.rank.words import answers
from runner.catalogue import load_run
from runner.choice.model import Band, Grade
from runner.data.needs import Needs
from runner.design.blocks import Table
from runner.design.question import Page
from tests.unit.reports import realistic
from tests.unit.whole_report import build, choice_of, ranked_of

CHOICE = Path(__file__).parents[3] / "results" / "choice" / "two-cores"


def band(low_bps: float, high_bps: float, *named: str, **more: object) -> Band:
    fields = {"low_bps": low_bps, "high_bps": high_bps, "named": [*named], "grade": Grade.FITS, "certainty": "sure"}
    return Band.model_validate(fields | more)


@pytest.mark.parametrize(
    ("bands", "heading"),
    [
        ([], ON_LINE),
        ([band(1e7, 1e10, "a", "b")], "From 10 Mbit/s on take a."),
        (
            [
                band(1e7, 1e8, "a", "b"),
                band(2e8, 1e9, "a", grade=Grade.LITTLE),
                band(2e9, 1e10, "a", grade=Grade.SHORT),
            ],
            f"Up to 1 Gbit/s take a; from 2 Gbit/s on {NOTHING}.",
        ),
        (
            [band(1e7, 1e8, "a"), band(2e8, 1e9, "a", certainty="probably"), band(2e9, 1e10, unknown=["b"])],
            f"Up to 100 Mbit/s take a; up to 1 Gbit/s take probably a; from 2 Gbit/s on {UNKNOWN}.",
        ),
    ],
)
def test_without_a_line_the_heading_says_which_vpn_up_to_which_rate(bands: list[Band], heading: str) -> None:
    assert by_line(bands) == heading


def test_a_choice_gives_its_vpns_in_order() -> None:
    run, trials = load_run(CHOICE)
    made = choice_of(build(run.model_copy(update={"needs": Needs(line_bps=1e9, traffic="files")}), trials))
    assert made.answer
    said = say(made, "x")
    assert [*said.order][: len(made.answer.named)] == made.answer.named
    assert {*said.order} == made.devices.keys()


def test_of_very_many_vpns_the_pairs_of_the_first_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = ranked_of(realistic())
    first = answers(ranked)[0].ranking
    whole = verdict_words.section(ranked.verdicts, ranked.spreads, first, ranked.metrics)
    monkeypatch.setattr(verdict_words, "COMPARED", 3)
    few = verdict_words.section(ranked.verdicts, ranked.spreads, first, ranked.metrics)
    assert [len(block.rows) for block in few if isinstance(block, Table)] == [3]
    assert len(few) == len(whole) + 1, "it says so"
    listed = verdict_words.first_vpns(first)
    number = ranked.rankings.index(first)
    assert {pair["a"] for pair in pairs(ranked)[number]["pairs"]} <= {*listed}
    tables: list[dict[str, str]] = [{} for _ in ranked.rankings]
    assert context(ranked, "x", Page({}, {}, tables))["first_two"] == listed[:2]
