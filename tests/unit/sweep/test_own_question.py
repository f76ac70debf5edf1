"""A question of a user's own: the file is data's judge, checked like a plugin, and asked by the loop and the report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from questions import load_question, question_of, questions
from runner.data.errors import UsageError
from runner.data.levels import BASELINE
from runner.data.trials import Cell, Run, Trial
from runner.design.question import Evidence
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from tests.unit.asking import request
from tests.unit.synthetic import CBC, PLAIN, make_run, make_trial
from tests.unit.whole_report import build

OWN = Path(__file__).parents[3] / "docs/examples/back_first.py"
RESTARTED = {"measure": "recovery", "failure": "reboot"}
CELLS = [
    Cell(vpn=vpn, params=(PLAIN if vpn == BASELINE else CBC) | RESTARTED)
    for vpn in (BASELINE, "openvpn", "ssh_tun", "ipsec_user")
]


@pytest.fixture
def own(tmp_path: Path) -> str:
    """The example, outside of the tree."""
    return str(shutil.copy(OWN, tmp_path))


def restarts(**outages_ms: list[float]) -> tuple[Run, list[Trial]]:
    run = make_run((BASELINE, *outages_ms))
    return run, [
        make_trial(vpn, CBC | RESTARTED, repetition, {"outage_ms": value})
        for vpn, values in outages_ms.items()
        for repetition, value in enumerate(values, 1)
    ]


QUICK, NEAR, SLOW = [2500.0, 2600.0, 2550.0], [2400.0, 2900.0, 2600.0], [9000.0, 9500.0, 9100.0]


def test_those_that_may_be_as_quick_go_on_beside_the_first_one(own: str) -> None:
    question = load_question(own)
    evidence = Evidence(*restarts(openvpn=QUICK, ssh_tun=NEAR, ipsec_user=SLOW))
    going = question.going(evidence, question.judge(evidence), CELLS, 60.0)
    assert going.undecided == ["ssh_tun"]
    assert [cell.vpn for cell in going.cells] == [BASELINE, "openvpn", "ssh_tun"]


def test_it_ends_where_one_is_surely_first_and_goes_on_where_nothing_is_known(own: str) -> None:
    question = load_question(own)
    sure, nothing = Evidence(*restarts(openvpn=QUICK, ipsec_user=SLOW)), Evidence(*restarts())
    assert not question.going(sure, question.judge(sure), CELLS, 60.0).cells
    assert question.longer_s(sure, question.judge(sure)) == 0
    assert question.going(nothing, question.judge(nothing), CELLS, 60.0).undecided
    assert question.longer_s(nothing, question.judge(nothing)) is None
    assert question.say(question.judge(nothing), "run") is None


def test_every_form_has_its_answer(own: str) -> None:
    report = build(*restarts(openvpn=QUICK, ipsec_user=SLOW), questions=[load_question(own)])
    assert set(report.judgements) == {"back_first"}
    for text in (html_text(report), markdown_text(report), latex_text(report)):
        assert report.in_a_line.rstrip(".") in text.replace("\\_", "_")


def test_the_request_asks_what_was_named_and_else_what_is_measured(own: str) -> None:
    assert request("transport", question=own).question.name == "back_first"
    assert request("transport").question.name == "rank"
    assert request("choose").question.name == "choose"
    assert request("choose", question="rank").question.name == "rank"
    assert question_of(()) is questions()["rank"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "defines no subclass of runner.design.question.Question"),
        ("from runner.design.question import Question\nclass Mine(Question): name = 'mine'\n", "is not finished"),
        ("import nothing_like_this\n", "cannot be loaded"),
        ("raise ValueError('x')\n", "cannot be loaded"),
    ],
)
def test_a_file_that_is_no_question_is_an_error_of_its_user(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        request("transport", question=str(path))


def test_a_name_that_is_none_has_its_near_matches() -> None:
    with pytest.raises(UsageError, match="choose"):
        load_question("chose")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("return values[vpn]", r"is broken in `judge`: line \d+: NameError"),
        ("return {'outages_ms': {}}", "`judge` must return Strict, not dict"),
        ("raise UsageError('no restarts')", "no restarts"),
    ],
)
def test_what_a_question_raises_or_returns_wrongly_is_its_users(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        OWN.read_text().replace("class BackFirst(Question[Back])", "class Base(Question[Back])")
        + "\n\nfrom runner.data.errors import UsageError\n\n\nclass Mine(Base):\n"
        + f"    def judge(self, evidence):\n        {text}\n"
    )
    question = load_question(str(tmp_path / "mine.py"))
    with pytest.raises(UsageError, match=said):
        build(*restarts(openvpn=QUICK), questions=[question])
