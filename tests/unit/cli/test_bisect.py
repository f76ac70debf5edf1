"""``vpneval bisect``: what is wrong is said before anything is built, and each commit is marked by the side on which it
is."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from questions.nearer import Side
from runner.cli import bisecting
from runner.cli.bisecting import Bisection, bisect
from runner.cli.commands.run import work
from runner.data.asked import AskedRun
from runner.data.errors import Interrupted, LabError, UsageError


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
    return Bisection(
        vpn="wireguard_go",
        product=Path("made").resolve(),
        command=command,
        levels=(),
        deadline_s=60,
        folder=Path("runs").resolve(),
    )


def number_of(build: str) -> int:
    """Which commit a build of a run is of."""
    return int(Path(build.partition("=")[2]).read_text().split()[-1])


class Measured:
    """In the place of runs: commits from ``slow`` on are slow, and those ``alike`` lie in the middle. ``ended``: the
    folders of the runs that are over; ``stop_at``: the commit at which the user ends the run."""

    def __init__(self, slow: int = 7, alike: tuple[int, ...] = (), stop_at: int = -1, code: int = 0) -> None:
        self.slow, self.alike, self.stop_at, self.code = slow, alike, stop_at, code
        self.runs: list[AskedRun] = []

    def measure(self, run: AskedRun, *_: object) -> int:
        if number_of(run.builds[-1]) == self.stop_at:
            raise Interrupted("of this run only")
        self.runs.append(run)
        assert run.out
        run.out.mkdir()
        (run.out / "run.json").write_text("{}")
        return self.code

    def load_run(self, folder: Path) -> tuple[object, list[object]]:
        run = next(run for run in self.runs if run.out == folder)
        metrics = {"paced_cpu": SimpleNamespace(measure="paced")}
        return SimpleNamespace(asked=run, metrics=metrics, invocations=[SimpleNamespace(outcome="complete")]), []

    def judge(self, evidence: object) -> object:
        run = evidence.run.asked  # type: ignore[attr-defined]
        last = number_of(run.builds[-1])
        if run.question == "nearer":
            side = None if last in self.alike else "second" if last >= self.slow else "first"
            return Side(nearer_to=side)
        ratio = SimpleNamespace(ratio=1.5, low=1.4, high=1.6)
        change = SimpleNamespace(metric="paced_cpu", verdict="regression", ratio=ratio)
        worse = last >= self.slow
        outcome = "worse" if worse else "cannot tell"
        return SimpleNamespace(comparisons=[SimpleNamespace(changes=[change] * worse, outcome=outcome)])


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    made = Measured()
    monkeypatch.setattr(work, "measure", made.measure)
    monkeypatch.setattr(bisecting, "load_run", made.load_run)
    monkeypatch.setattr(bisecting, "questions", lambda: {"compare": made, "nearer": made})
    return made


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
    with pytest.raises(UsageError, match=r"fails at the commit [0-9a-f]+: false"):
        bisect(asked("false"), "HEAD~1", "HEAD")
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_a_bad_commit_that_is_not_worse_ends_the_search(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits()
    assert bisect(asked(), "HEAD~2", "HEAD") == 6
    assert "HEAD is not measurably worse than HEAD~2" in capsys.readouterr().err
    (run,) = measured.runs
    assert (run.experiments, run.question) == (("builds",), "compare")
    assert [build.partition("=")[0] for build in run.builds] == ["wireguard_go@good", "wireguard_go@bad"]
    assert [number_of(build) for build in run.builds] == [0, 2]
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_each_commit_is_asked_to_which_it_is_nearer(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits(12)
    assert bisect(asked(), "HEAD~11", "HEAD") == 0
    assert capsys.readouterr().out.split("worse: ")[1].endswith("commit 7\n")
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert not Path(".git/BISECT_LOG").exists()
    both, *steps = measured.runs
    assert len(steps) <= 4, "the commits between are halved"
    for run in steps:
        assert run.question == "nearer"
        assert run.levels == ("measure=paced",), "where the bad one is worse"
        assert run.builds[:2] == both.builds, "beside each commit"


@pytest.mark.parametrize("slow", range(1, 8))
def test_any_commit_is_found(slow: int, measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits(8)
    measured.slow = slow
    assert bisect(asked(), "HEAD~7", "HEAD") == 0
    assert capsys.readouterr().out.endswith(f"commit {slow}\n")


def test_what_cannot_be_told_may_be_it(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits(12)
    measured.alike = (6,)
    assert bisect(asked(), "HEAD~11", "HEAD") == 6
    assert [line[-1] for line in capsys.readouterr().out.splitlines()[1:]] == ["7", "6"]


def test_what_cannot_be_built_is_passed_over(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits(12)
    assert (
        bisect(asked("tail -1 source | grep -q ' 6' && exit 1; cp source made; chmod +x made"), "HEAD~11", "HEAD") == 6
    )
    assert "cannot be built" in capsys.readouterr().err


def test_a_build_that_is_equal_is_not_measured(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """As of a commit that changes a comment."""
    commits(12)
    even = "n=$(tail -1 source | cut -c3-); [ $n -lt 7 ] && n=0 || n=9; echo '#!/bin/sh' > made; echo '#' $n >> made"
    assert bisect(asked(f"{even}; chmod +x made"), "HEAD~11", "HEAD") == 0
    assert len(measured.runs) == 1
    assert "its build is that of the good commit" in capsys.readouterr().err


def test_an_interruption_names_a_command_that_goes_on(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    commits(12)
    measured.stop_at = 8
    with pytest.raises(Interrupted, match=r"same command with --out \S*runs$") as ended:
        bisect(asked(), "HEAD~11", "HEAD")
    assert ended.value.exit_code == 130
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    measured.stop_at, before = -1, len(measured.runs)
    assert bisect(asked(), "HEAD~11", "HEAD") == 0
    assert len({run.out for run in measured.runs}) == len(measured.runs) > before, "nothing twice"
    with pytest.raises(UsageError, match="fails at the commit"):
        bisect(asked("false"), "HEAD~11", "HEAD~1")


def test_a_lab_that_breaks_ends_the_search(measured: Measured) -> None:
    commits(4)
    measured.code = 4
    with pytest.raises(LabError, match="broke"):
        bisect(asked(), "HEAD~3", "HEAD")
    assert git("symbolic-ref", "--short", "HEAD") == "main"
