"""The answer on one page: what somebody who was told nothing must find on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from questions import questions
from questions.choose import words
from questions.choose.blocks import next_steps
from questions.choose.judge import choice
from questions.choose.onepage import onepage as page_of_choice
from questions.rank.onepage import onepage as page_of_ranking
from runner.catalogue import load_run
from runner.data.needs import Needs
from runner.design.blocks import Block, Heading, Note, Paragraph, Table, cell
from runner.design.question import Evidence
from tests.unit.synthetic import realistic_run

CHOICE = Path(__file__).parents[3] / "results" / "choice" / "two-cores"


def text_of(blocks: Sequence[Block]) -> str:
    """All words of the blocks."""
    said = [block.words for block in blocks if isinstance(block, Heading | Paragraph)]
    said += [note.text for block in blocks if isinstance(block, list) for note in block if isinstance(note, Note)]
    return " ".join([*said, *(cell(one).words for table in tables(blocks) for row in table.rows for one in row)])


def tables(blocks: Sequence[Block]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


@pytest.mark.parametrize(
    "needs",
    [
        {"line_bps": 1e8, "path_rtt_ms": 20},
        {"line_bps": 1e9, "traffic": "files"},
        {"line_bps": 1e7, "traffic": "calls"},
        {"line_bps": 1e10},
        {},
    ],
    ids=str,
)
def test_a_choice_on_one_page_answers_for_every_vpn(needs: dict[str, object]) -> None:
    run, trials = load_run(CHOICE)
    made = choice(run.model_copy(update={"needs": Needs.model_validate(needs)}), trials)
    blocks = page_of_choice(made)
    first = blocks[0]
    assert isinstance(first, Heading)
    assert made.answer is None or first.words == words.headline(made)
    numbers = tables(blocks)[-1]
    assert {cell(row[0]).words for row in numbers.rows} == made.devices.keys()
    assert all("(" in cell(one).words or cell(one).words == "–" for row in numbers.rows for one in row[1:])
    reasons = text_of(blocks[blocks.index(numbers) + 1 :])
    named = made.answer.named[:1] if made.answer else ["wireguard_go"]
    others = {*made.devices, *made.absent, *(one.kernel for one in made.kin)} - {*named}
    assert {vpn for vpn in others if vpn not in reasons} == set()
    assert "wireguard: not measured" in reasons


def test_a_ranking_on_one_page_answers_for_every_vpn() -> None:
    run, trials = realistic_run(3)
    evidence = Evidence(run, trials)
    ranked = questions()["rank"].judge(evidence)
    blocks = page_of_ranking(ranked)
    assert isinstance(blocks[0], Heading)
    vpns = {vpn for vpn, record in run.vpns.items() if not record.reference}
    assert {vpn for vpn in vpns if vpn not in text_of(blocks)} == set()


def test_a_machine_that_forbids_an_answer_has_no_numbers() -> None:
    run, trials = load_run(CHOICE)
    made = choice(run, trials)
    busy = made.model_copy(update={"machine": made.machine.model_copy(update={"rounds": 1})})
    assert busy.machine.forbids
    assert [type(block) for block in page_of_choice(busy)] == [Heading]


def test_what_is_not_sure_for_want_of_a_watch_says_how_to_be_surer() -> None:
    run, trials = load_run(CHOICE)
    made = choice(run.model_copy(update={"needs": Needs(line_bps=1e8)}), trials)
    assert made.answer
    assert made.answer.candidate_of(made.answer.named[0]).watched_s is None
    commands = {step.word: step.command for step in next_steps(made, "here")}
    assert not made.unsettled
    assert commands["Be surer"] == "vpneval more here"
    first = made.answer.candidate_of(made.answer.named[0]).model_copy(update={"watched_s": 60.0})
    others = [one for one in made.answer.candidates if one.vpn != first.vpn]
    watched = made.model_copy(update={"answer": made.answer.model_copy(update={"candidates": [first, *others]})})
    assert "Be surer" not in {step.word for step in next_steps(watched, "here")}
