"""``vpneval bisect``: which commit made a VPN slower. git bisect(1) chooses the commits; each is built and measured
beside the good one, turn by turn."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from runner.cli.options import tell
from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.data.files import read_bytes, word, write_text
from runner.data.own_program import again
from runner.lab.software.builds import parse_build

GIT = ("git", "-c", "safe.directory=*")  # root may look into what another user cloned
FINE, WORSE, CANNOT_TELL = 0, 1, 6  # how a run of two builds ends
SKIP, ABORT, ONLY_SKIPPED = 125, 128, 2  # git-bisect(1), run; the last one is its own exit code
STOPPED = 4
STEP = "bisect.json"
PROGRAM = tuple(again("bisect-step"))  # of git's steps


class Bisection(BaseModel):
    """What each step needs to know. ``build``: ``VPN=PATH`` of what ``command`` makes in the work tree; ``good``: the
    copy of what it made of the good commit; ``folder``: where the runs of the steps are."""

    build: str
    good: Path
    command: str
    levels: tuple[str, ...]
    deadline_s: float
    folder: Path

    @property
    def product(self) -> Path:
        """What the command makes."""
        return parse_build(self.build)[2]


def bisect(asked: Bisection, good: str, bad: str) -> int:
    """Find the first commit between ``good`` and ``bad`` whose build is worse than the good one's, and say it. The work
    tree is as it was afterwards. Returns the exit code. Raises UsageError."""
    first, last = _commits(good, bad)
    asked.folder.mkdir(parents=True, exist_ok=True)
    with _as_it_was():
        _git("checkout", "--quiet", "--detach", first)
        if not _make_build(asked):
            raise UsageError(f"the command of --build fails at the good commit {good}: {asked.command}")
        if asked.product.is_dir():
            shutil.copytree(asked.product, asked.good, symlinks=True)
        else:
            asked.good.parent.mkdir()
            shutil.copy2(asked.product, asked.good)
        write_text(asked.folder / STEP, asked.model_dump_json(indent=1))
        _git("checkout", "--quiet", "--detach", last)
        if (code := step(asked)) != WORSE:
            if code in (FINE, CANNOT_TELL):
                tell(f"{bad} is not measurably worse than {good}: there is no commit to find. Try a longer --deadline")
            return CANNOT_TELL if code in (FINE, SKIP) else code
        return _search(asked, first, last)


def _search(asked: Bisection, first: str, last: str) -> int:
    _git("bisect", "start", last, first)
    words = [*GIT, "bisect", "run", *PROGRAM, str(asked.folder / STEP)]
    done = subprocess.run(words, stdout=2, check=False)
    good_ones = _git("for-each-ref", "--format=%(refname)", "refs/bisect/good-*").split()
    left = _git("rev-list", "refs/bisect/bad", "--not", *good_ones)
    commits = [_git("show", "--no-patch", "--format=%h %s", commit) for commit in left.split()]
    if done.returncode == 0:
        print(f"The first commit that is worse: {commits[0]}")
        return FINE
    if done.returncode != ONLY_SKIPPED:
        tell("git bisect has stopped, for the reason above.")
        return STOPPED
    print("\n".join(["The first commit that is worse is one of these. Some cannot be built, or told apart:", *commits]))
    return CANNOT_TELL


def step(asked: Bisection) -> int:
    """Build the commit that is checked out, and measure it beside the good one. Returns the exit code of the run, or
    SKIP where it cannot be built."""
    from runner.cli.commands.run.work import measure
    from runner.cli.options import Shown

    here = _git("show", "--no-patch", "--format=%h %s", "HEAD")
    if not _make_build(asked):
        tell(f"{here}: cannot be built, and is passed over")
        return SKIP
    tell(f"{here}: is measured beside the good one, for {asked.deadline_s:g} s at most")
    vpn, name, path = parse_build(asked.build)
    folder = asked.folder / here.partition(" ")[0]
    code = measure(
        AskedRun(
            experiments=("builds",),
            builds=(f"{vpn}@good={asked.good}", f"{vpn}@{name}={path}"),
            levels=asked.levels,
            deadline_s=asked.deadline_s,
            until_significant=True,
            out=folder,
        ),
        Shown(quiet=True),
    )
    words = {FINE: "not worse", WORSE: "worse", CANNOT_TELL: "cannot be told from the good one"}
    tell(f"{here}: {words.get(code, f'its run ended with exit code {code}')}. vpneval compare {word(folder)} shows it")
    return code


def step_of(file: Path) -> int:
    """A step of git's search. Returns what git bisect(1) wants to know."""
    code = step(Bisection.model_validate_json(read_bytes(file)))
    return code if code in (FINE, WORSE, SKIP) else SKIP if code in (5, CANNOT_TELL) else min(ABORT + code, 255)


def _make_build(asked: Bisection) -> bool:
    """Run the user's command in the work tree. Does it end well, and is its product there?"""
    done = subprocess.run(["sh", "-c", asked.command], stdout=2, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and asked.product.exists()


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
