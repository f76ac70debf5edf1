"""Folders on a command line that are no run folder: what they hold is read, and what holds nothing is passed over."""

import json
import os
import shutil
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.data.errors import UsageError
from runner.data.merge import distinct, merge_runs
from runner.data.store import load_run

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
    code, _, err = vpneval(capsys, "report", "results/first", "results/papers/reroute")
    assert code == 2
    assert "results/first and results/papers/reroute hold the same measurements" in err
    for name in ("one/host", "other/host", "third/host"):  # of equal names, as make compare makes them
        another(Path("results") / name)
    code, out, err = vpneval(capsys, "report", *(f"results/{name}/host" for name in ("one", "other", "third")))
    assert (code, err) == (0, "")
    assert headings(out) == []
    assert "vpneval report results/one/host results/other/host results/third/host" in " ".join(out.split())


def another(folder: Path) -> None:
    """The same run at another time."""
    shutil.copytree(RUN, folder)
    run = json.loads((folder / "run.json").read_text()) | {"run_id": folder.name}
    (folder / "run.json").write_text(json.dumps(run))
    decade = {"one": "203", "other": "204"}.get(folder.parent.name, "205")
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    for trial in trials:
        trial["started_at"] = trial["started_at"].replace("202", decade)
    (folder / "trials.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))


def test_trials_of_runs_of_one_name_stay_apart(tmp_path: Path) -> None:
    names = [tmp_path / name / "host" for name in ("one", "other", "third")]
    for name in names:
        another(name)
    loaded = [load_run(name) for name in names]
    for folders, logs in ((names, "other/host/logs/"), ([], "host (2)/logs/")):
        runs = distinct([run for run, _ in loaded], folders)
        merged, trials = merge_runs([(run, its) for run, (_, its) in zip(runs, loaded, strict=True)])
        assert len({trial.id for trial in trials}) == len(trials) == sum(len(its) for _, its in loaded)
        assert any(trial.log.startswith(logs) for trial in trials)
        assert len({trial.log for trial in trials if trial.log}) == 3 * len({t.log for t in loaded[0][1] if t.log})
        assert merged.run_id.count(" + ") == 2
    runs = distinct([loaded[0][0], loaded[1][0].model_copy(update={"profile": "full"})], names[:2])
    with pytest.raises(UsageError, match=r"runs one/host and other/host cannot be ranked together: profile differs"):
        merge_runs([(run, []) for run in runs])


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


def test_report_takes_the_latest_run(capsys: CapSys) -> None:
    code, _, err = vpneval(capsys, "report")
    assert (code, "vpneval report DIR" in " ".join(err.split())) == (2, True)
    shutil.copytree(RUN, "results/mine")
    assert vpneval(capsys, "report", "--format", "md") == vpneval(capsys, "report", "results/mine", "--format", "md")
