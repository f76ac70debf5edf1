"""``vpneval bisect``: what is wrong is said before anything is built, and git learns what a step found."""

import subprocess
from pathlib import Path

import pytest

from runner.cli import bisecting
from runner.cli.bisecting import Bisection, bisect, step_of
from runner.cli.commands.run import work as measuring
from runner.data.asked import AskedRun
from runner.data.errors import UsageError


def git(*words: str) -> str:
    me = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    return subprocess.run(["git", *me, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with three commits, whose build is the file ``made``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def commits(number: int = 3) -> None:
    git("init", "--quiet", "--initial-branch=main")
    for at in range(number):
        Path("source").write_text(f"#!/bin/sh\n# {at}\n")
        git("add", "source")
        git("commit", "--quiet", "-m", f"commit {at}")


def asked(command: str = "cp source made; chmod +x made") -> Bisection:
    folder = Path("runs").resolve()
    return Bisection(
        build=f"wireguard_go@new={Path('made').resolve()}",
        good=folder / "good" / "made",
        command=command,
        levels=(),
        deadline_s=60,
        folder=folder,
    )


def measured(monkeypatch: pytest.MonkeyPatch, codes: dict[str, int]) -> list[AskedRun]:
    """In the place of a run: its exit code by what the sources say."""
    runs: list[AskedRun] = []

    def measure(run: AskedRun, *_: object, **__: object) -> int:
        runs.append(run)
        return codes[Path("source").read_text().split()[-1]]

    monkeypatch.setattr(measuring, "measure", measure)
    return runs


def test_where_there_is_no_work_tree() -> None:
    with pytest.raises(UsageError, match="is no git work tree"):
        bisect(asked(), "HEAD", "HEAD")


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("nothing", "HEAD", "--good 'nothing' is no commit"),
        ("HEAD~1", "--all", "--bad '--all' is no commit"),
        ("HEAD", "HEAD~1", "--good HEAD does not come before --bad HEAD~1"),
        ("HEAD", "HEAD", "does not come before"),
    ],
)
def test_revisions_that_do_not_do(good: str, bad: str, says: str) -> None:
    commits()
    with pytest.raises(UsageError) as wrong:
        bisect(asked(), good, bad)
    assert says in str(wrong.value)


def test_nothing_of_the_users_is_lost() -> None:
    commits()
    Path("source").write_text("mine")
    with pytest.raises(UsageError, match="changes that are not committed"):
        bisect(asked(), "HEAD~1", "HEAD")
    git("checkout", "--quiet", "source")
    git("bisect", "start")
    with pytest.raises(UsageError, match="git bisect reset"):
        bisect(asked(), "HEAD~1", "HEAD")


def test_a_good_commit_that_cannot_be_built() -> None:
    commits()
    with pytest.raises(UsageError, match="fails at the good commit HEAD~1: false"):
        bisect(asked("false"), "HEAD~1", "HEAD")
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_a_bad_commit_that_is_not_worse_ends_the_search(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits()
    runs = measured(monkeypatch, {"2": 0})
    assert bisect(asked(), "HEAD~2", "HEAD") == 6
    assert "HEAD is not measurably worse than HEAD~2" in capsys.readouterr().err
    assert [run.experiments for run in runs] == [("builds",)]
    good, new = (build.partition("=") for build in runs[0].builds)
    assert (good[0], new[0]) == ("wireguard_go@good", "wireguard_go@new")
    assert Path(good[2]).read_text().endswith("# 0\n"), "the copy of the good build"
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def searched(monkeypatch: pytest.MonkeyPatch, steps: str) -> int:
    """The exit code of a search through twelve commits, whose steps are this script in the place of a run."""
    commits(12)
    measured(monkeypatch, {"11": 1})
    monkeypatch.setattr(bisecting, "PROGRAM", ("sh", "-c", f"n=$(tail -n1 source | cut -c3-); {steps}", "sh"))
    return bisect(asked(), "HEAD~11", "HEAD")


def test_git_finds_the_commit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(monkeypatch, "[ $n -lt 7 ]") == 0
    assert capsys.readouterr().out.split("worse: ")[1].endswith("commit 7\n")
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert not Path(".git/BISECT_LOG").exists()


def test_what_cannot_be_told_may_be_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(monkeypatch, "[ $n = 6 ] && exit 125; [ $n -lt 7 ]") == 6
    assert [line[-1] for line in capsys.readouterr().out.splitlines()[1:]] == ["7", "6"]


def test_a_search_that_breaks_off_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert searched(monkeypatch, "exit 132") == bisecting.STOPPED
    assert "git bisect has stopped" in capsys.readouterr().err
    assert git("symbolic-ref", "--short", "HEAD") == "main"


@pytest.mark.parametrize(("code", "to_git"), [(0, 0), (1, 1), (6, 125), (5, 125), (4, 132), (2, 130)])
def test_what_git_learns(code: int, to_git: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good, bad, passed over, and that nothing can be measured any more (git-bisect(1))."""
    commits(1)
    measured(monkeypatch, {"0": code})
    file = Path("asked.json")
    file.write_text(asked().model_dump_json())
    assert step_of(file) == to_git
    file.write_text(asked("false").model_dump_json())
    assert step_of(file) == bisecting.SKIP
