"""Run folders edited so that a VPN gains: dropping, failing, cutting or repeating its own trials improves nothing that
is said of it, in any form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from questions.rank.why import why
from questions.rank.words import answers
from runner.catalogue import load_run, load_told
from runner.cli.reading import report_of
from runner.data.trials import Trial
from runner.report.forms.registry import FORMS
from runner.report.model import Report
from tests.campaign.gains import EDITS, EXAMPLE, FAILED, copy, edited, gained
from tests.unit.whole_report import ranked_of

VPNS = ("openvpn", "ssh_tun", "wireguard_go")


def edited_repetition(folder: Path, vpn: str, how: str, repetition: int) -> Path:
    trials = load_run(EXAMPLE)[1]
    mine = {trial.id for trial in trials if (trial.vpn, trial.repetition, trial.status) == (vpn, repetition, "ok")}
    return edited(folder, how, mine)


@pytest.fixture(scope="module")
def whole() -> Report:
    return report_of([EXAMPLE], "")


CASES = [  # each edit once in the gate
    pytest.param(vpn, how, marks=[] if number % len(VPNS) == VPNS.index(vpn) else [pytest.mark.slow])
    for number, how in enumerate(EDITS)
    for vpn in VPNS
]


@pytest.mark.parametrize(("vpn", "how"), CASES)
def test_no_edit_of_its_own_trials_improves_a_vpns_rank(tmp_path: Path, whole: Report, vpn: str, how: str) -> None:
    repetition = 2 if (how, vpn) in (("cutting", "ssh_tun"), ("dropping", "ssh_tun")) else 1
    after = report_of([edited_repetition(tmp_path / "run", vpn, how, repetition)], "")
    assert not gained(whole, after, vpn)


@pytest.mark.parametrize(
    "how", ["failing", *(pytest.param(how, marks=pytest.mark.slow) for how in ("dropping", "cutting"))]
)
def test_a_vpn_with_failed_trials_is_named_with_them_in_every_form(tmp_path: Path, how: str) -> None:
    report = report_of([edited_repetition(tmp_path / "run", "openvpn", how, 1)], "")
    sentence = "openvpn gave no number in 1 repetition of "
    assert any(sentence in caveat for caveat in report.caveats)
    assert any(sentence in line for answer in answers(ranked_of(report)) for line in answer.broke)
    for name in ("html", "md", "json"):
        assert sentence in FORMS[name].text(report, tmp_path), name
    rows = list(csv.DictReader(io.StringIO(FORMS["csv"].text(report, tmp_path))))
    assert any(row["vpn"] == "openvpn" and row["status"] == "failed" for row in rows)
    run, trials, _ = load_told(tmp_path / "run")
    assert any(sentence in line for line in why(run, trials, "openvpn", "ssh_tun"))


def test_a_first_try_that_failed_stays_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    lines = copy(folder)
    one = next(line for line in lines if (line["vpn"], line["status"]) == ("openvpn", "ok"))
    failures = [one | FAILED | {"reason": f"no payload came\nlog {number}"} for number in (1, 2)]
    written = "".join(json.dumps(line) + "\n" for line in [*failures, *lines])
    (folder / "trials.jsonl").write_text(written)
    found: Trial = next(trial for trial in load_run(folder)[1] if trial.id == one["id"])
    assert found.warnings[-1] == "failed 2 times, then ok: no payload came"
    assert any("failed 2 times, then ok: no payload came (openvpn" in line for line in report_of([folder], "").warnings)
