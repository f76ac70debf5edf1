"""Play cases, and say of each that failed how to repeat it.

Each must end in time with a documented exit code, without a traceback, with JSON alone on standard output where JSON
was asked for, with no control character in what it says, and with the folders that it only read as they were. A run
leaves no process, mount or control group behind; nothing is lost, nothing measured twice, and no secret is anywhere.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from runner.farm import dask
from runner.lab.places import rootless
from runner.stages import guests
from tests.campaign.commands import CommandCase, no_lab, no_lab_here, prepare
from tests.campaign.gains import GainCase
from tests.campaign.labs import LabCase

EVERY = 25  # case starts labs


def main() -> None:
    """Exits with 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--case", type=int, help="this one alone, with what it says")
    parser.add_argument("--only", choices=("commands", "labs"), help="the cases of this kind")
    asked = parser.parse_args()
    numbers = [asked.case] if asked.case is not None else range(asked.cases)
    if asked.only:
        numbers = [number for number in numbers if starts_labs(number) is (asked.only == "labs")]
    sys.exit(1 if campaign(asked.seed, numbers) else 0)


def starts_labs(number: int) -> bool:
    """Is it one of the cases with real labs?"""
    return number % EVERY == EVERY - 1


def without_other_labs() -> None:
    """A command that would start itself again elsewhere, or workers, is told that it cannot; and it soon gives up a
    scheduler that is not there."""
    rootless.enter = no_lab_here
    guests.this_command_under = no_lab
    dask._local = no_lab
    dask.CONNECT_S = 1


def play(seed: int, base: Path, number: int) -> tuple[str, list[str]]:
    """One case in words, and what is wrong with how it ended."""
    case: LabCase | CommandCase | GainCase
    if starts_labs(number):
        case = LabCase(seed, number, number // EVERY)
    elif number % EVERY == EVERY - 2:
        case = GainCase(seed, number)
    else:
        case = CommandCase(seed, number, base)
    wrong = case.run()
    return str(case), wrong  # by now it knows what happened to its folders


def campaign(seed: int, numbers: Sequence[int]) -> int:
    """How many of these cases fail; each is printed with the command that repeats it. As many are played at a time as
    this process may use cores (taskset(1)): each has its own folder and process, and looks for what is left of itself
    alone."""
    failed, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-base-") as base:
        prepare(Path(base))
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(len(os.sched_getaffinity(0)), fork, initializer=without_other_labs) as players:
            found = players.map(partial(play, seed, Path(base)), numbers)
            for played, (number, (said, wrong)) in enumerate(zip(numbers, found, strict=True), start=1):
                if wrong:
                    failed += 1
                    again = f"python -m tests.campaign --seed {seed} --case {number}"
                    print(f"{said}\n  {'; '.join(wrong)}\n  again: {again}\n", flush=True)
                elif len(numbers) == 1:
                    print(said)
                if played % 100 == 0:
                    print(f"{played} cases, {failed} failed, {time.monotonic() - started:.0f} s", flush=True)
    print(f"seed {seed}: {len(numbers)} cases, {failed} failed, {time.monotonic() - started:.0f} s")
    return failed


if __name__ == "__main__":
    main()
