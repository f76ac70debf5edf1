"""What no run writes and a file of one may have all the same: sentences on what is missing, cut off or there twice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from runner.data.files import is_there, open_to_read
from runner.data.store import last_round, load_run
from runner.data.trials import Run, Trial

MOST_TOLD = 3  # sentences of one kind about a file


def load_told(folder: Path) -> tuple[Run, list[Trial], list[str]]:
    """A run folder as data, as ``load_run`` has it, with sentences on what its files lack and what they have twice."""
    twice: list[str] = []
    run, trials = load_run(folder, twice)
    return run, trials, incomplete(folder, trials) + _some(twice) + _some(repeated(folder, trials))


def incomplete(folder: Path, trials: Sequence[Trial]) -> list[str]:
    """Sentences on what the files of a run folder lack; ``trials``: as they were read from it."""
    problems = []
    if not is_there(folder / "trials.jsonl"):
        problems.append(f"{folder}/trials.jsonl is missing, so nothing that was measured is known.")
    for name, what in (("trials.jsonl", "a trial"), ("slices.jsonl", "a slice")):
        if is_cut(folder / name):
            problems.append(f"The last line of {folder}/{name} is cut off, so {what} is missing from this run.")
    if not is_there(folder / "slices.jsonl") and last_round(trials):
        problems.append(
            f"{folder}/slices.jsonl is missing. The numbers are those of trials.jsonl; trials that were under way when "
            "the run ended are lost."
        )
    return problems


def is_cut(path: Path) -> bool:
    """Has the file a last line that does not end?"""
    if not (is_there(path) and path.stat().st_size):
        return False
    with open_to_read(path) as file:
        file.seek(-1, os.SEEK_END)
        return bool(file.read() != b"\n")


def repeated(folder: Path, trials: Sequence[Trial]) -> list[str]:
    """Sentences on rounds that a trial has twice, or that two trials of one cell share: no run plays a round again."""
    problems, first = [], dict[tuple[str, str, str], dict[int, str]]()
    for trial in trials:
        for measurement in trial.measurements:
            seen = first.setdefault((trial.cell, trial.position, measurement.metric), {})
            fresh = set(measurement.rounds)
            others = sorted({seen[number] for number in fresh & seen.keys()})
            seen |= dict.fromkeys(fresh, trial.id)
            if len(fresh) < len(measurement.rounds) or others:
                whose = f"that {others[0]} has, too" if others else "twice"
                problems.append(
                    f"{folder}/trials.jsonl: the trial {trial.id} has rounds of {measurement.metric} {whose}, so the "
                    "intervals are narrower than what was measured allows: the file was edited."
                )
                break
    return problems


def _some(sentences: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(sentences) - MOST_TOLD
    return sentences[:MOST_TOLD] + ([f"{more} more lines of that kind are in the same file."] if more > 0 else [])
