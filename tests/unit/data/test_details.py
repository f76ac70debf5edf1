"""What an instrument says beside its numbers: what reports read has its kind, and what is missing breaks none."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runner.cli.reading import report_of
from runner.data.errors import UsageError
from runner.data.store import load_run, read_trials
from runner.data.trials import Measurement, Value
from runner.report.forms.registry import FORMS
from tests.campaign.fields import SOURCES, prepare_fields

OTHER_KINDS: list[tuple[dict[str, Any], str]] = [
    ({"trials": ["x"]}, "trials"),
    ({"trials": [{"offered_rate_bps": "1", "loss_ratio": 0.0}]}, "offered_rate_bps"),
    ({"trials": [{"loss_ratio": 0.0}]}, "offered_rate_bps"),
    ({"kind": ["at_once"]}, "kind"),
    ({"inconclusive": {"rtt": "why"}}, "inconclusive.rtt"),
    ({"sources": [["a"]]}, "sources"),
    ({"paper_asterisks": 10**9}, "paper_asterisks"),
    ({"lost": 2**50}, "lost"),
    ({"failures": True}, "failures"),
    ({"joining": {"0": {"files": 1, "routes": 1, "keys": 1, "effort": 1}}}, "joining"),
    ({"sizes": {"2": {"up_s": "1"}}}, "up_s"),
    ({"sizes": {"1": {}}}, "sizes"),
    ({"captured_lengths": {"60": -1}}, "captured_lengths"),
    ({"interval_bps": {"low": 1}}, "interval_bps"),
]


@pytest.mark.parametrize(("detail", "where"), OTHER_KINDS)
def test_a_detail_of_another_kind_is_refused_with_its_name(detail: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where.replace(".", r"\.")):
        Measurement(metric="rtt", value=1.0, unit="ms", better="lower", detail=detail)


def test_an_instrument_says_what_else_it_wants() -> None:
    detail = {"trials": 3, "of": "x", "mine": {"trials": ["x"]}, "kind": "good", "sizes": {"2": {"up_s": 1, "own": []}}}
    assert Value(metric="mine", value=1.0, detail=detail).detail == detail


def test_the_line_and_the_field_are_named(tmp_path: Path) -> None:
    prepare_fields(tmp_path)
    path = tmp_path / "paths" / "trials.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    number = next(n for n, line in enumerate(lines) if any("kind" in m.get("detail", {}) for m in line["measurements"]))
    found = next(m for m in lines[number]["measurements"] if "kind" in m["detail"])
    found["detail"]["kind"] = {"at_once": 1}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(
        UsageError, match=rf"line {number + 1}: measurements\.\d+\.detail: .*kind is \{{'at_once': 1\}}"
    ):
        load_run(tmp_path / "paths")


@pytest.mark.parametrize("source", [*SOURCES])
def test_a_report_needs_no_detail(source: str, tmp_path: Path) -> None:
    """Every second detail is missing, at each depth: no report breaks."""
    prepare_fields(tmp_path / "all")
    for which in (0, 1):
        folder = tmp_path / f"{source}{which}"
        shutil.copytree(tmp_path / "all" / source, folder)
        lines = [json.loads(text) for text in (folder / "trials.jsonl").read_text().splitlines()]
        for line in lines:
            for found in line["measurements"]:
                found["detail"] = halved(found.get("detail", {}), which)
            line["attempt"] = {**line.get("attempt", {}), "inconclusive": {"nothing": {"reason": "of no metric"}}}
        (folder / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert read_trials(folder / "trials.jsonl")
        made = report_of([folder], "")
        for form in ("md", "json"):
            assert FORMS[form].text(made, folder)


def halved(detail: dict[str, Any], which: int) -> dict[str, Any]:
    return {name: value for number, (name, value) in enumerate(sorted(detail.items())) if number % 2 == which}


def test_a_detail_is_checked_as_it_will_stand_in_the_file() -> None:
    """An instrument may count by numbers and hand over tuples, of which JSON makes texts and lists."""
    value = Value(metric="overhead", value=1.0, detail={"captured_lengths": {608: 3}, "flags": ("unconfirmed",)})
    assert value.detail["captured_lengths"] == {608: 3}
