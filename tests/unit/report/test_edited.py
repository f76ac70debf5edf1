"""Run folders edited so that a VPN gains: dropping, failing, cutting or repeating its own trials improves nothing that
is said of it, in any form."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.cli.reading import report_of
from runner.data.irregular import load_told
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.report.answer import answers
from runner.report.forms.registry import FORMS
from runner.report.model import Report
from runner.report.why import why

EXAMPLE = Path(__file__).parents[3] / "results/examples/two-cores-quick"
VPNS = ("openvpn", "ssh_tun", "wireguard_go")
FAILED = {"status": "failed", "measurements": [], "curve": [], "reason": "the tunnel broke down"}


def failing(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield line | FAILED


def dropping(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from ()


def cutting(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A third of the rounds is left."""
    for found in line["measurements"]:
        if found.get("rounds"):
            left = max(1, len(found["rounds"]) // 3)
            found |= {"rounds": found["rounds"][:left], "samples": found["samples"][:left]}
    yield line


def repeating(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield line
    yield line | {"id": f"{line['id'].rpartition('-r')[0]}-r77", "repetition": 77}


EDITS = {edit.__name__: edit for edit in (failing, dropping, cutting, repeating)}


def edited(folder: Path, vpn: str, how: str, repetition: int) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("logs", "report*"))
    path = folder / "trials.jsonl"
    written = list[dict[str, Any]]()
    for text in path.read_text().splitlines():
        line = json.loads(text)
        mine = (line["vpn"], line["repetition"], line["status"]) == (vpn, repetition, "ok")
        written += EDITS[how](line) if mine else [line]
        if mine and how == "dropping":
            written = [other for other in written if other["id"] != line["id"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    return folder


def standings(report: Report, vpn: str) -> dict[str, tuple[float, float]]:
    """Configuration -> place, and how often it is not best: the lower, the better."""
    return {
        ranking.configuration: (standing.place or 99, 1 - (standing.best_probability or 0))
        for ranking in report.rankings
        for standing in ranking.standings
        if standing.vpn == vpn
    }


@pytest.fixture(scope="module")
def whole() -> Report:
    return report_of([EXAMPLE], "")


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("vpn", VPNS)
def test_no_edit_of_its_own_trials_improves_a_vpns_rank(tmp_path: Path, whole: Report, vpn: str, how: str) -> None:
    repetition = 2 if (how, vpn) in (("cutting", "ssh_tun"), ("dropping", "ssh_tun")) else 1
    after = standings(report_of([edited(tmp_path / "run", vpn, how, repetition)], ""), vpn)
    for configuration, (place, not_best) in standings(whole, vpn).items():
        now = after.get(configuration, (99, 1.0))
        assert now[0] >= place, configuration
        assert now[1] >= not_best - 1e-9, configuration


@pytest.mark.parametrize("how", ["failing", "dropping", "cutting"])
def test_a_vpn_with_failed_trials_is_named_with_them_in_every_form(tmp_path: Path, how: str) -> None:
    report = report_of([edited(tmp_path / "run", "openvpn", how, 1)], "")
    sentence = "openvpn gave no number in 1 repetition of "
    assert any(sentence in caveat for caveat in report.caveats)
    assert any(sentence in line for answer in answers(report) for line in answer.broke)
    for name in ("html", "md", "json"):
        assert sentence in FORMS[name].text(report, tmp_path), name
    rows = list(csv.DictReader(io.StringIO(FORMS["csv"].text(report, tmp_path))))
    assert any(row["vpn"] == "openvpn" and row["status"] == "failed" for row in rows)
    run, trials, _ = load_told(tmp_path / "run")
    assert any(sentence in line for line in why(run, trials, "openvpn", "ssh_tun"))


def test_a_first_try_that_failed_stays_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("logs", "report*"))
    lines = (folder / "trials.jsonl").read_text().splitlines()
    ok = [json.loads(line) for line in lines if '"status":"ok"' in line]
    one = next(line for line in ok if line["vpn"] == "openvpn")
    failures = [one | FAILED | {"reason": f"no payload came\nlog {number}"} for number in (1, 2)]
    (folder / "trials.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [*failures, *map(json.loads, lines)])
    )
    found: Trial = next(trial for trial in load_run(folder)[1] if trial.id == one["id"])
    assert found.warnings[-1] == "failed 2 times, then ok: no payload came"
    assert any("failed 2 times, then ok: no payload came (openvpn" in line for line in report_of([folder], "").warnings)
