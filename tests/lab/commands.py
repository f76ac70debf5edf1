"""Commands of vpneval that a test runs to their end, or beside itself until something has come."""

import subprocess
import sys
from collections.abc import Callable, Sequence, Set
from pathlib import Path

import pytest

from runner.data.checksum import check_line
from runner.data.slices import values_of
from runner.data.store import load_run, read_slices
from runner.data.trials import Slice, Trial
from runner.lab.node import PATIENCE, wait_until

VPNEVAL = [sys.executable, "-m", "runner"]


def vpneval(*argv: object, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [*VPNEVAL, *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout * PATIENCE)


def lines(folder: Path) -> list[str]:
    """The trials on the disk; a line that is being written, which a guest does in pieces, is none yet."""
    return _whole(folder / "trials.jsonl")


def rows(folder: Path) -> list[str]:
    """The slices on the disk, so too."""
    return _whole(folder / "slices.jsonl")


def _whole(path: Path) -> list[str]:
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def wrong_slices(folder: Path, before: Sequence[str], done: Set[str]) -> list[str]:
    """What a call that went on after the rows ``before`` has lost or doubled: it leaves them as they were, measures no
    trial again that was ``done``, and others from their first slice on, each slice once. In the end each slice is that
    of a trial, and what was found in rounds is what the slices say."""
    found = rows(folder)
    wrong = [] if found[: len(before)] == list(before) else ["rows of slices.jsonl have changed"]
    numbers: dict[str, list[int]] = {}
    for row in found[len(before) :]:
        one = Slice.model_validate_json(check_line(f"{row}\n".encode()))
        numbers.setdefault(one.trial, []).append(one.number)
    wrong += [f"{name}: slices {of}" for name, of in numbers.items() if of != [*range(1, len(of) + 1)]]
    wrong += [f"{name} was measured again" for name in sorted(done & numbers.keys())]
    run, trials = load_run(folder)
    slices = read_slices(folder, run.metrics)
    wrong += [f"slices of {name}, which has no line" for name in slices.keys() - {trial.id for trial in trials}]
    for trial in trials:
        said = values_of(slices.get(trial.id, []), run.metrics)
        told = {one.metric: (one.samples, one.rounds) for one in said}
        measured = [one for one in trial.measurements if one.rounds]
        wrong += [
            f"{trial.id}: {one.metric} is not what its slices say"
            for one in measured
            if told.get(one.metric) != (one.samples, one.rounds)
        ]
    return wrong


def trials_of(folder: Path, vpn: str) -> list[Trial]:
    return [trial for trial in load_run(folder)[1] if trial.vpn == vpn]


def start(out: Path, *argv: object) -> subprocess.Popen[str]:
    """A run that goes on beside the test, in ``out``."""
    command = [*VPNEVAL, "run", *map(str, argv), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], condition: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
    """As wait_until; a run that has ended meanwhile fails the test at once, with its last words."""

    def seen() -> bool:
        if condition():
            return True
        if (code := process.poll()) is not None:
            pytest.fail(f"{what}: the run has ended with {code} before it: {''.join(process.communicate())[-2000:]}")
        return False

    wait_until(seen, what, deadline_s)


def measuring(out: Path) -> bool:
    """Is a run inside its first trial?"""
    return any("iperf3 --client" in path.read_text() for path in out.glob("logs/*/commands.log"))
