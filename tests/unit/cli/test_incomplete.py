"""A run folder of which something is missing is reported all the same, and says so in every form."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.cli.main import main

EXAMPLE = Path(__file__).parents[3] / "results" / "examples" / "two-cores-quick"
FORMS = ("md", "html", "json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not EXAMPLE.exists():
        pytest.skip("the example run is not there")
    for name in ("run.json", "trials.jsonl", "slices.jsonl"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    return tmp_path


def report(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), *options])
    assert not ended.value.code
    found = capsys.readouterr()
    return " ".join(found.out.split()), " ".join(found.err.split())


def test_a_whole_run_folder_says_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Warning" not in report(folder, capsys)[1]


def test_a_cut_line_and_missing_slices_are_said_in_every_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "slices.jsonl").unlink()
    trials = folder / "trials.jsonl"
    trials.write_bytes(trials.read_bytes()[:-100])
    for options in ((), *(("--format", form) for form in FORMS)):
        out, err = report(folder, capsys, *options)
        for said in ("trials.jsonl is cut off, so a trial is missing", "slices.jsonl is missing"):
            assert said in err, options
            assert said in out or not options, options


def test_a_run_without_trials_says_that_they_are_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trials.jsonl").unlink()
    assert "trials.jsonl is missing, so nothing that was measured is known" in report(folder, capsys)[1]
