"""``vpneval bisect``: which commit made a VPN slower. git bisect(1) chooses the commits; each is built and measured
between the good one and the bad one, turn by turn: to which of the two is it nearer?"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from questions import questions
from runner.catalogue import load_run
from runner.cli.commands.run import work
from runner.cli.options import Shown, tell
from runner.data.asked import AskedRun
from runner.data.errors import Interrupted, LabError, UsageError
from runner.data.files import is_there, word
from runner.data.streams import document
from runner.data.trials import Run
from runner.design.question import Evidence
from runner.lab.software.builds import parse_build
from runner.sweep.builds import load_build

GIT = ("git", "-c", "safe.directory=*")  # root may look into what another user cloned
FOUND, BROKEN, NOT_FOUND = 0, 4, 6  # exit codes
GOES_ON = "To go on: the same command with"
ONLY_SKIPPED = 2  # git-bisect(1)
MARKS = {"first": "good", "second": "bad", None: "skip"}  # of the side on which a build is
WORDS = {"first": "is nearer to the good one", "second": "is nearer to the bad one", None: "cannot be told from both"}


@dataclass(frozen=True)
class Bisection:
    """What is searched: builds of ``vpn``, each the ``product`` of ``command`` in the work tree. ``folder``: where
    the runs are, and each commit's build."""

    vpn: str
    product: Path
    command: str
    levels: tuple[str, ...]
    deadline_s: float
    folder: Path


def bisect(asked: Bisection, good: str, bad: str) -> int:
    """Find the commit between ``good`` and ``bad`` after which builds are nearer to the bad one, and say it. The work
    tree is as it was afterwards, and what is in the folder already is not measured again. Returns the exit code. Raises
    UsageError, LabError and Interrupted."""
    first, last = _commits(good, bad)
    asked.folder.mkdir(parents=True, exist_ok=True)
    try:
        with _as_it_was():
            builds = [f"{asked.vpn}@{name}={_build_of(asked, at)}" for name, at in (("good", first), ("bad", last))]
            tell(f"The good and the bad commit are measured, for {asked.deadline_s:g} s at most.")
            between = _worse_in(_measure(asked, builds, "compare", asked.levels))
            if between is None:
                tell(f"{bad} is not measurably worse than {good}: there is no commit to find. Try a longer --deadline")
                return NOT_FOUND
            return _search(asked, first, last, builds, between)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(
            "bisect was interrupted. The work tree is as it was, and what was measured is safe. "
            f"{GOES_ON} --out {word(asked.folder)}"
        ) from None


def _worse_in(found: Evidence) -> str | None:
    """The instrument of the metric in which the bad build is most surely worse than the good one; empty where the bad
    one gives no number at all; None where it is not worse."""
    (compared,) = questions()["compare"].judge(found).comparisons
    sure = {
        change.metric: abs(math.log(change.ratio.ratio)) / math.log(change.ratio.high / change.ratio.low)
        for change in compared.changes
        if change.verdict == "regression" and change.ratio and change.ratio.low and change.ratio.high
    }
    if sure:
        return found.run.metrics[max(sure, key=lambda metric: sure[metric])].measure
    return "" if compared.outcome == "worse" else None


def _search(asked: Bisection, first: str, last: str, builds: Sequence[str], measure: str) -> int:
    """Let git choose commits, and mark each, until one is found. Returns the exit code."""
    _git("bisect", "start", last, first)
    while len(_candidates()) > 1:
        here = _git("show", "--no-patch", "--format=%h %s", "HEAD")
        side, why = _side_of(asked, here, builds, measure)
        tell(f"{here}: {why}")
        done = _run_git("bisect", MARKS[side])
        if done.returncode == ONLY_SKIPPED:
            break
        if done.returncode:
            raise LabError(f"git bisect {MARKS[side]}: {done.stderr.strip() or done.stdout.strip()}")
    shown = [_git("show", "--no-patch", "--format=%h %s", commit) for commit in _candidates()]
    if len(shown) == 1:
        document(f"The first commit that is worse: {shown[0]}\n")
        return FOUND
    said = ["The first commit that is worse is one of these. Some cannot be built, or told apart:", *shown]
    document("".join(f"{line}\n" for line in said))
    return NOT_FOUND


def _side_of(asked: Bisection, here: str, builds: Sequence[str], measure: str) -> tuple[str | None, str]:
    """On which side the commit that is checked out is, and why. Its build takes turns with both others, or has only to
    run, where the bad one does not."""
    at = _git("rev-parse", "HEAD")
    try:
        build = f"{asked.vpn}@{at[:12]}={_build_of(asked, at)}"
    except UsageError:
        return None, "cannot be built, and is passed over"
    good, bad, own = (load_build(text)[1] for text in (*builds, build))
    for side, other in (("first", good), ("second", bad)):
        if own.build and other.build and own.build.digest == other.build.digest:
            return side, f"its build is that of the {MARKS[side]} commit"
    tell(f"{here}: is measured between the good and the bad one, for {asked.deadline_s:g} s at most")
    if measure:
        found = _measure(asked, [*builds, build], "nearer", (*asked.levels, f"measure={measure}"))
        side = questions()["nearer"].judge(found).nearer_to
        return side, WORDS[side]
    found = _measure(asked, [builds[0], build], "compare", asked.levels)
    runs = any(trial.vpn == own.name and trial.status == "ok" for trial in found.trials)
    return ("first", "has numbers") if runs else ("second", "has no number")


def _candidates() -> list[str]:
    """The commits that may be the first bad one, by what is marked so far."""
    good_ones = _git("for-each-ref", "--format=%(refname)", "refs/bisect/good-*").split()
    return _git("rev-list", "refs/bisect/bad", "--not", *good_ones).split()


def _measure(asked: Bisection, builds: Sequence[str], question: str, levels: tuple[str, ...]) -> Evidence:
    """What a run of these builds measured. A run of the folder that has ended is read only. Raises LabError where it
    broke."""
    folder = asked.folder / "-".join(parse_build(build)[2].parent.name[:12] for build in builds)
    if not (is_there(folder / "run.json") and _has_ended(load_run(folder)[0])):
        code = work.measure(
            AskedRun(
                experiments=("builds",),
                builds=tuple(builds),
                question=question,
                levels=levels,
                deadline_s=asked.deadline_s,
                until_significant=True,
                out=folder,
            ),
            Shown(quiet=True),
        )
        if code == BROKEN:
            raise LabError(f"the run in {folder} broke, for the reason above. {GOES_ON} --out {word(asked.folder)}")
    tell(f"Measured: vpneval compare {word(folder)} shows it")
    return Evidence(*load_run(folder))


def _has_ended(run: Run) -> bool:
    return bool(run.invocations) and run.invocations[-1].outcome == "complete"


def _build_of(asked: Bisection, commit: str) -> Path:
    """The build of this commit, which is made unless it is kept from before. Raises UsageError where the user's command
    does not make it."""
    kept = asked.folder / "builds" / commit / asked.product.name
    if kept.exists():
        return kept
    _git("checkout", "--quiet", "--detach", commit)
    done = subprocess.run(["sh", "-c", asked.command], stdout=2, stdin=subprocess.DEVNULL, check=False)
    if done.returncode or not asked.product.exists():
        raise UsageError(f"the command of --build fails at the commit {commit[:12]}: {asked.command}")
    part = kept.parent.with_suffix(".part")  # an interrupted copy is no build
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if asked.product.is_dir():
        shutil.copytree(asked.product, part / kept.name, symlinks=True)
    else:
        shutil.copy2(asked.product, part)
    part.rename(kept.parent)
    return kept


def _commits(good: str, bad: str) -> tuple[str, str]:
    """Both revisions as commits. Raises UsageError where this is no clean work tree, a revision is unknown, or the good
    one does not come before the bad one."""
    if subprocess.run([*GIT, "rev-parse", "--is-inside-work-tree"], capture_output=True, check=False).returncode:
        raise UsageError(f"{Path.cwd()} is no git work tree. Change to the sources of the VPN")
    if _git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError("the work tree has changes that are not committed, and bisect checks out other commits")
    if Path(_git("rev-parse", "--git-path", "BISECT_LOG")).exists():
        raise UsageError("a git bisect is going on in this work tree. End it first: git bisect reset")
    commits = []
    for option, revision in (("--good", good), ("--bad", bad)):
        found = _run_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if found.returncode:
            raise UsageError(f"{option} {revision!r:.60} is no commit of this repository")
        commits.append(found.stdout.strip())
    if commits[0] == commits[1] or _run_git("merge-base", "--is-ancestor", *commits).returncode:
        raise UsageError(f"--good {good} does not come before --bad {bad}")
    return commits[0], commits[1]


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Check out afterwards what is checked out now."""
    branch = _run_git("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()
    back = branch or _git("rev-parse", "HEAD")
    try:
        yield
    finally:
        _run_git("bisect", "reset", back)
        _run_git("checkout", "--quiet", back)


def _git(*words: str) -> str:
    """What git says. Raises UsageError with its words where it fails."""
    done = _run_git(*words)
    if done.returncode:
        raise UsageError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _run_git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GIT, *words], capture_output=True, text=True, check=False)
