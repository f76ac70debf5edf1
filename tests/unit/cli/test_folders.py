"""Folders on a command line that are no run folder: what they hold is read, and what holds nothing is passed over."""

import os
import shutil
from pathlib import Path

import pytest

from runner.cli.main import main

RUN = Path(__file__).parents[3] / "results" / "papers" / "reroute"  # a small one
CapSys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """results/ as it is cloned: pages, and runs that came with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("results/published").mkdir(parents=True)
    Path("results/README.md").touch()
    for name in ("examples/quick", "papers/reroute"):
        shutil.copytree(RUN, Path("results") / name)


def vpneval(capsys: CapSys, *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    with pytest.raises(SystemExit) as exit_:
        main(list(argv))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return int(exit_.value.code or 0), out, err


def matches() -> list[str]:
    """What a shell makes of results/*."""
    return sorted(str(path) for path in Path("results").iterdir())


def headings(out: str) -> list[str]:
    """Of the reports that follow each other: the end of each run's path."""
    return [name for line in out.splitlines() if line.startswith("─") and "/" in (name := line.strip("─ "))]


def test_results_stands_for_the_runs_in_it(capsys: CapSys) -> None:
    code, out, err = vpneval(capsys, "report", "results/")
    assert (code, err) == (0, "")
    assert headings(out) == [
        "examples/quick",
        "papers/reroute",
    ]


@pytest.mark.parametrize("named", ["all", "the folder"])
def test_beside_runs_of_ones_own_those_that_came_with_vpneval_are_passed_over(capsys: CapSys, named: str) -> None:
    for name in ("both/host", "both/uml", "first"):
        shutil.copytree(RUN, Path("results") / name)
    code, out, err = vpneval(capsys, "report", *(["results"] if named == "the folder" else matches()), "--full")
    assert code == 0
    assert headings(out) == [
        "both/host",
        "both/uml",
        "results/first",
    ]
    assert "passes over the runs that came with it. To read them, name their folder: results/examples, results/p" in err
    assert ("passes over what holds no run: results/README.md, results/published." in err) == (named == "all")
    assert len(err.splitlines()) == (2 if named == "all" else 1)


def test_runs_that_are_named_make_one_report(capsys: CapSys) -> None:
    shutil.copytree(RUN, "results/first")
    code, out, err = vpneval(capsys, "report", "results/first", "results/papers/reroute")
    assert (code, err) == (0, "")
    assert headings(out) == []


@pytest.mark.parametrize("several", [False, True])
def test_a_history_of_results(capsys: CapSys, several: bool) -> None:
    code, out, _ = vpneval(capsys, "history", *(matches() if several else ["results"]))
    assert code == 0
    assert "</html>" in out


def test_where_nothing_is_left_a_run_folder_is_explained(capsys: CapSys) -> None:
    code, out, err = vpneval(capsys, "report", "results/README.md", "results/published")
    assert (code, out) == (2, "")
    assert "none of results/README.md, results/published is a run folder, or holds one: a folder with a run.json" in err
    assert "`make compare` or `vpneval run` makes one" in err


def test_what_is_not_there_is_not_passed_over(capsys: CapSys) -> None:
    code, _, err = vpneval(capsys, "report", "results/examples", "resluts")
    assert code == 2
    assert "resluts is not a run folder: it is not there" in err


def test_a_run_may_be_named_by_the_folder_that_holds_only_it(capsys: CapSys) -> None:
    code, _, err = vpneval(capsys, "compare", "results/examples", "results")
    assert code == 2
    assert "results holds several runs. Name one of results/examples/quick, results/papers/reroute" in err
    code, _, err = vpneval(capsys, "compare", "results/examples", "results/papers")
    assert "results/examples/quick and results/papers/reroute hold the same measurements" in err


def test_one_page_is_of_one_run(capsys: CapSys) -> None:
    code, out, err = vpneval(capsys, "report", "results", "--format", "html")
    assert (code, out) == (2, "")
    assert "--format html takes one run. Name one of results/examples/quick, results/papers/reroute" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_is_not_ours_to_read_holds_nothing(capsys: CapSys) -> None:
    Path("results/closed").mkdir(mode=0)
    assert vpneval(capsys, "report", "results")[0] == 0
