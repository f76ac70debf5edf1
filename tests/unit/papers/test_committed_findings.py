"""results/papers/findings.md is made from the committed runs beside it: what a reader must be able to rely on."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from questions.papers.conclusions import UNDECIDED, decidable, outcome, put_to_the_test
from questions.papers.deciding import DecidingWay, in_words, ways
from questions.papers.page import LONGEST_CELL, by_letters, findings_text, rows_of, runs_of
from questions.papers.plot import published_against_measured
from runner.catalogue import load_run
from runner.cli.commands.plan.work import expected_time
from runner.data.invocation import command
from runner.papers.judges import every_finding
from runner.papers.published import names, paper
from runner.report.model import Report
from runner.report.plots.vega import svg
from runner.sweep.request import resolve
from tests.unit.asking import by_the_command
from tests.unit.findings_worlds import ROOT
from tests.unit.whole_report import build

RESULTS = ROOT / "results" / "papers"
OPEN_AT_MOST = 1 / 4  # of the conclusions that a host and its guest kernels can decide
TESTBED = """
[host1]
address = "192.0.2.1"
lan = "eth1"
[gw1]
address = "192.0.2.2"
lan = "eth1"
wan = "eth2"
[gw2]
address = "192.0.2.3"
lan = "eth1"
wan = "eth2"
[host2]
address = "192.0.2.4"
lan = "eth1"
"""


@cache
def reports() -> dict[str, Report]:
    runs = sorted(path.parent for path in RESULTS.glob("*/run.json"))
    return by_letters([build(*load_run(run)) for run in runs])


@cache
def page() -> str:
    return findings_text([*reports().values()], expected_time)


def open_ones() -> dict[str, list[DecidingWay]]:
    """Each open conclusion, and what would decide it."""
    rows, runs = rows_of(reports()), runs_of(reports(), expected_time)
    return {
        f"{name}: {conclusion.says}": ways(conclusion, rows, runs)
        for name, conclusion in put_to_the_test()
        if outcome(conclusion, rows) == "open"
    }


def test_the_committed_page_and_picture_are_those_of_the_committed_runs() -> None:
    """Made anew by ``vpneval report results/papers --format findings``, and ``findings-plot``."""
    assert (RESULTS / "findings.md").read_text() == page()
    picture = svg(published_against_measured(rows_of(reports())).spec)
    assert rounded((RESULTS / "findings.svg").read_text()) == rounded(picture)


def rounded(picture: str) -> str:
    """With coordinates to a thousandth of a pixel: the last digits are the CPU's."""
    return re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.3f}", picture.rstrip())


def test_the_page_is_read_in_a_quarter_of_an_hour() -> None:
    assert len(page().split()) <= 5000


def test_the_committed_runs_decide_conclusions_of_every_paper() -> None:
    rows = rows_of(reports())
    decided = {name for name, conclusion in put_to_the_test() if outcome(conclusion, rows) not in UNDECIDED}
    assert decided == {*names()}


def test_of_the_conclusions_that_this_kind_of_machine_can_decide_at_most_one_in_four_is_open() -> None:
    """Not among them: those that need machines of their own for a share or a waiting time, and those that no single run
    decides (NO_RUN)."""
    rows, runs = rows_of(reports()), runs_of(reports(), expected_time)
    here = [conclusion for _, conclusion in put_to_the_test() if decidable(conclusion, rows, runs)]
    undecided = {conclusion: by for conclusion, by in open_ones().items() if any(way.here for way in by)}
    told = "\n".join(f"{conclusion}: {in_words(by)}" for conclusion, by in undecided.items())
    assert len(undecided) <= OPEN_AT_MOST * len(here), f"{len(undecided)} of {len(here)} are open:\n{told}"


def test_every_open_conclusion_names_a_command_that_vpneval_accepts_or_the_machines_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "testbed.toml").write_text(TESTBED)
    monkeypatch.chdir(tmp_path)
    for conclusion, by in open_ones().items():
        assert by, conclusion
        for way in by:
            commands = re.findall(r"`vpneval run ([^`]*)`", f"{way.why}: {way.commands}")
            assert commands or (way.why and not way.here), way
            for line in commands:
                assert resolve(by_the_command(line)).cells, line
            if way.here:
                assert way.command
                assert [by_the_command(line) for line in commands] == [way.command]
                assert "`, about " in way.commands, "and how long it takes"


def test_every_findings_command_is_one_that_vpneval_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "testbed.toml").write_text(TESTBED)
    monkeypatch.chdir(tmp_path)
    for asked in dict.fromkeys(asked for one in every_finding() for asked in (one.run, *one.elsewhere) if asked):
        assert resolve(asked).cells, asked
        assert by_the_command(command(asked)) == asked, "and so does its command"


def test_no_cell_of_the_findings_is_longer_than_a_reader_takes_in() -> None:
    _, _, findings = page().partition("\n## The findings\n")
    cells = [cell.strip() for line in findings.splitlines() if line.startswith("|") for cell in line.split(" | ")]
    assert max(map(len, cells)) <= LONGEST_CELL + len("| ")


def test_every_paper_has_its_conclusions_and_its_findings() -> None:
    sections = {section.split("\n", 1)[0]: section for section in page().split("\n### ")}
    for name in names():
        title = paper(name).title
        section = sections[title[0].upper() + title[1:]]
        assert section.count("\n| ") > 2, "a head, a line, and findings"
        mine = [line for line in page().splitlines() if line.startswith("| *") and f"* ({name}, " in line]
        assert len(mine) == sum(name == of for of, _ in put_to_the_test())


def test_no_number_of_two_data_planes_from_user_mode_linux_is_on_the_page() -> None:
    guests = {run: report for run, report in reports().items() if any(f.value == "uml" for f in report.facts)}
    across = [(run, row) for run, row in rows_of(guests) if row.kind == "scale"]
    assert len({row.id for _, row in across}) > 5, "control: such runs are here"
    _, _, findings = page().partition("\n## The findings\n")
    for run, row in across:
        lines = [line for line in findings.splitlines() if f"{row.experiment}/{row.id})" in line]
        assert not any(f"{run}: {row.measured_words}" in line for line in lines), row.id
        assert row.verdict == "incomparable"
