"""Play cases, and say of each that failed how to repeat it.

Each must end in time with a documented exit code, without a traceback, with JSON alone on standard output where JSON
was asked for, with no control character in what it says, and with the folders that it only read as they were. A run
leaves no process, mount or control group behind; nothing is lost, nothing measured twice, and no secret is anywhere.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from pathlib import Path

import runner
from runner.farm import dask
from runner.lab.places import rootless
from runner.stages import examination, guests
from tests.campaign.commands import CommandCase, no_lab, no_lab_here, prepare
from tests.campaign.fields import FieldCase, prepare_fields
from tests.campaign.gains import GainCase
from tests.campaign.labs import LabCase
from tests.campaign.lies import LyingCase

EVERY = 25  # case starts labs
LYING = 4  # case has a folder that lies, or slow machines
FIELDS = 4  # of so many cases, one is about a field
NAMED = 5  # of the slowest


def main() -> None:
    """Exits with 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="go on from this one")
    parser.add_argument("--case", type=int, help="this one alone, with what it says")
    parser.add_argument("--only", choices=("commands", "labs", "fields"), help="the cases of this kind")
    asked = parser.parse_args()
    # What a script starts in its background has Ctrl-C ignored, and nohup the hang-up; so would be what is played.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    numbers = [asked.case] if asked.case is not None else range(asked.first, asked.cases)
    if asked.only:
        numbers = [number for number in numbers if kind(number) == asked.only]
    sys.exit(1 if campaign(asked.seed, numbers) else 0)


def kind(number: int) -> str:
    """Of which kind a case is: one with real labs, with a hostile field of a run folder, with a command line."""
    if number % EVERY == EVERY - 1:
        return "labs"
    return "fields" if number % FIELDS == 1 else "commands"


def without_other_labs() -> None:
    """A command that would start itself again elsewhere, or workers, is told that it cannot; and it soon gives up a
    scheduler that is not there."""
    rootless.enter = no_lab_here
    guests.this_command_under = no_lab
    examination.guest_kernels = lambda: []  # it starts them
    dask._local = no_lab
    dask.CONNECT_S = 1


def load_all() -> None:
    """Load what any command may load, once: a case is a process that begins as a copy of this one."""
    for module in pkgutil.walk_packages(runner.__path__, "runner."):
        if not module.name.startswith("runner.lab.probes.") and not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()


def play(seed: int, base: Path, number: int) -> tuple[str, list[str], float]:
    """One case in words, what is wrong with how it ended, and the seconds that it took."""
    started = time.monotonic()
    case: LabCase | CommandCase | GainCase
    if kind(number) == "labs":
        case = LabCase(seed, number, number // EVERY)
    elif kind(number) == "fields":
        case = FieldCase(seed, number, base)
    elif number % EVERY == EVERY - 2:
        case = GainCase(seed, number)
    elif number % LYING == 0:
        case = LyingCase(seed, number, base)
    else:
        case = CommandCase(seed, number, base)
    try:
        wrong = case.run()
    except Exception:  # one case says nothing of the others
        wrong = [f"the campaign itself: {traceback.format_exc()}"]
    return str(case), wrong, time.monotonic() - started  # by now it knows what happened to its folders


def campaign(seed: int, numbers: Sequence[int]) -> int:
    """How many of these cases fail; each is printed with the command that repeats it. Two are played at a time for each
    core that this process may use (taskset(1)), because they mostly wait: each has its own folder and process, and
    looks for what is left of itself alone."""
    load_all()
    failed, started, slowest = 0, time.monotonic(), list[tuple[float, int]]()
    played = 0
    with tempfile.TemporaryDirectory(prefix="campaign-base-") as base:
        prepare(Path(base))
        prepare_fields(Path(base) / "fields")
        for said, wrong, took_s in outcomes(seed, Path(base), numbers):
            number = numbers[played]
            played += 1
            slowest = sorted([*slowest, (took_s, number)], reverse=True)[:NAMED]
            if wrong:
                failed += 1
                again = f"python -m tests.campaign --seed {seed} --case {number}"
                print(f"{said}\n  {'; '.join(wrong)}\n  again: {again}\n", flush=True)
            elif len(numbers) == 1:
                print(said)
            if played % 100 == 0:
                print(f"{played} cases, {failed} failed, {time.monotonic() - started:.0f} s", flush=True)
    named = ", ".join(f"{number} {took_s:.0f} s" for took_s, number in slowest)
    print(f"seed {seed}: {len(numbers)} cases, {failed} failed, {time.monotonic() - started:.0f} s; slowest: {named}")
    return failed


def outcomes(seed: int, base: Path, numbers: Sequence[int]) -> Iterator[tuple[str, list[str], float]]:
    """What ``play`` says of each case. Where a process that plays them is ended, the first case that was not over has
    failed, and the others are played by new ones."""
    fork, left = multiprocessing.get_context("fork"), list(numbers)
    while left:
        with ProcessPoolExecutor(2 * len(os.sched_getaffinity(0)), fork, initializer=without_other_labs) as players:
            try:
                for outcome in players.map(partial(play, seed, base), left):
                    left.pop(0)
                    yield outcome
            except BrokenProcessPool:
                yield f"case {left.pop(0)}, or one beside it", ["it ended the process that played it"], 0.0


if __name__ == "__main__":
    main()
