"""Which runs are meant by the folders on a command line, and by none.

What it works with is imported where it begins its work, as in runner/cli/commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from runner.cli.options import tell
from runner.data.errors import UsageError
from runner.data.files import is_folder, is_there, word
from runner.data.named import HOST

SHIPPED = ("choice", "evidence", "examples", "papers", "published", "sweep")  # in results/, and no run of the user's
DEEPEST = 3  # folders below the one that was named: results/, a run under several kernels, one of them


def runs_in(folders: Sequence[Path]) -> list[Path]:
    """The run folders among ``folders``; a folder that is no run folder but holds some stands for those.

    A folder without a run is skipped where others have one, and so are the runs that came with vpneval where a folder
    holds them beside the user's own. Standard error names both. Raises UsageError for a path that does not exist or is
    named twice, and where nothing is left.
    """
    from runner.data.store import check_run_folder

    resolved = [folder.resolve() for folder in folders]
    twice = {str(folder) for folder, path in zip(folders, resolved, strict=True) if resolved.count(path) > 1}
    if twice:
        raise UsageError(f"named twice: {', '.join(sorted(twice))}. Every trial would count twice; name each run once")
    held = [(folder, _folders_in(folder)) for folder in folders]
    for folder, runs in held:
        if not is_there(folder) or (len(folders) == 1 and not runs):
            check_run_folder(folder)
    run_folders = [*dict.fromkeys(run for _, runs in held for run in runs)]
    if not run_folders:
        raise UsageError(
            f"none of {', '.join(map(str, folders))} is a run folder, or holds one: a folder with a run.json. "
            "`make compare` or `vpneval run` makes one, in results/"
        )
    if empty := [str(folder) for folder, runs in held if not runs]:
        tell(f"vpneval passes over what holds no run: {', '.join(empty)}.")
    shipped = [run for run in run_folders if is_shipped(run) and run not in folders]
    if 0 < len(shipped) < len(run_folders):
        beside = dict.fromkeys(str(run.parent) for run in shipped)
        tell(f"vpneval passes over the runs that came with it. To read them, name their folder: {', '.join(beside)}.")
        run_folders = [run for run in run_folders if run not in shipped]
    return run_folders


def one_run(folder: Path) -> Path:
    """The one run folder that ``folder`` is, or holds. Raises UsageError where it holds several, or none."""
    runs = runs_in([folder])
    if len(runs) > 1:
        raise UsageError(f"{folder} holds several runs. Name one of {', '.join(map(word, runs))}")
    return runs[0]


def the_run(command: str, last: Path | None, option: Path | None, *vpns: str) -> Path:
    """The run folder that a command is about: its last word, what --run names, or the latest in results/ that has
    numbers of ``vpns``. Raises UsageError for two names, and where there is no one run."""
    _, named = without_run("", last, option)
    return one_run(named) if named else latest(command, *vpns)


def without_run(first: str, last: Path | None, option: Path | None) -> tuple[str, Path | None]:
    """The first word of a command that needs none, and the run folder that its last word or --run names. Raises
    UsageError for two names."""
    if first and last is None and is_there(Path(first) / "run.json"):
        first, last = "", Path(first)
    if last and option:
        raise UsageError(f"--run {word(option)} and {word(last)} both name a run folder: leave one of them out")
    return first, last or option


def is_shipped(run: Path) -> bool:
    """Did this run come with vpneval?"""
    parts = run.resolve().parts
    return any(parent == "results" and child in SHIPPED for parent, child in pairwise(parts))


def _folders_in(folder: Path, deepest: int = DEEPEST) -> list[Path]:
    """The run folders that ``folder`` is or holds."""
    if is_there(folder / "run.json"):
        return [folder]
    from runner.data.parent import indexed_runs

    if (together := indexed_runs(folder)) is not None:
        return together
    if not deepest or not is_folder(folder):
        return []
    try:
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:  # not ours to read
        return []
    return [run for path in below for run in _folders_in(path, deepest - 1)]


def latest(command: str, *vpns: str) -> Path:
    """The run folder in results/ that was written to last, for a ``command`` that names none. Of runs under several
    kernels it is that of the machine's own kernel, unless only another has numbers of all these VPNs. Raises UsageError
    where there is none."""
    from runner.catalogue import load_run
    from runner.data.parent import indexed_runs

    own = [run for run in _folders_in(Path("results")) if not is_shipped(run)]
    if not own:
        raise UsageError(
            "results/ has no run of yours yet. Measure one with `make compare` or `vpneval run`, or name a run folder: "
            f"vpneval {command} DIR"
        )
    last = max(own, key=lambda run: (run / "run.json").stat().st_mtime)
    together = sorted(indexed_runs(last.parent) or [last], key=lambda run: run.name != HOST)

    def has_all(run: Path) -> bool:
        return {*vpns} <= {trial.vpn for trial in load_run(run)[1] if trial.status == "ok"}

    return next(filter(has_all, together), together[0])
