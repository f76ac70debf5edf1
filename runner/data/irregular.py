"""What no run writes and a file of one may have all the same: sentences on what is missing, cut off or there twice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runner.data.files import is_there, open_to_read
from runner.data.metric import Metric
from runner.data.store import each_slice, last_round, load_run
from runner.data.trials import Run, Trial

MOST_TOLD = 3  # sentences of one kind about a file


def load_told(folder: Path, today: Callable[[], Mapping[str, Metric]] = dict) -> tuple[Run, list[Trial], list[str]]:
    """A run folder as data, as ``load_run`` has it, with sentences on what its files lack and what they have twice.

    slices.jsonl tells what trials.jsonl should have. A trial whose line was taken out or cut counts as failed, and what
    is there twice counts once: nobody gains from an edited file.
    """
    told: list[str] = []
    run, trials = load_run(folder, told, today)
    lacks = incomplete(folder, trials)
    trials, cut = _restore_trials(folder, run, trials)
    trials, twice = _once(folder, trials)
    return run, trials, [*lacks, *_first_sentences(told), *_first_sentences(cut), *_first_sentences(twice)]


def _restore_trials(folder: Path, run: Run, trials: list[Trial]) -> tuple[list[Trial], list[str]]:
    """The trials with those whose line is missing or cut, as failed ones; and a sentence on each of these."""
    if not run.invocations or run.invocations[-1].outcome != "complete":  # killed between a slice and its trial's line
        return trials, []
    whole, rounds, told = list(trials), _rounds_of(folder), list[str]()
    at = {trial.id: number for number, trial in enumerate(trials)}
    alike = {_cell_of(trial.id): trial for trial in trials}
    for id_, played in rounds.items():
        if (own := at.get(id_)) is not None:
            kept = {number for measurement in trials[own].measurements for number in measurement.rounds}
            if trials[own].status == "ok" and kept and played - kept:
                why = f"its line has {len(kept)} of its {len(played)} rounds"
                whole[own] = _failed_trial(trials[own], why)
                told.append(f"{folder}/trials.jsonl: the trial {id_} counts as failed: {why}, so the file was edited.")
        elif (other := alike.get(_cell_of(id_))) and (number := re.search(r"-r(\d{1,9})(?:-\w+)?$", id_)):
            whole.append(
                _failed_trial(other, "its line is missing").model_copy(update={"id": id_, "repetition": int(number[1])})
            )
            told.append(
                f"{folder}/trials.jsonl: the line of the trial {id_} is missing, whose slices are there: the file was "
                "edited. It counts as failed."
            )
    return whole, told


def _failed_trial(trial: Trial, why: str) -> Trial:
    update = {"status": "failed", "measurements": [], "curve": [], "timelines": [], "loads": [], "attempt": {}}
    return trial.model_copy(update=update | {"reason": f"trials.jsonl was edited: {why}"})


def _cell_of(id_: str) -> str:
    return id_.rpartition("-r")[0]


def _rounds_of(folder: Path) -> dict[str, set[int]]:
    """The rounds of each trial in slices.jsonl, of its last attempt; without those that belong to none."""
    found: dict[str, set[int]] = {}
    for row in each_slice(folder):
        if row.number == 1:
            found[row.trial] = set()
        found.setdefault(row.trial, set()).add(row.round)
    return {trial: rounds for trial, rounds in found.items() if any(rounds)}


def _once(folder: Path, trials: Sequence[Trial]) -> tuple[list[Trial], list[str]]:
    """The trials without what is there twice: the same trial under another name, and rounds, which no run plays again;
    and a sentence on each."""
    kept, told = list[Trial](), list[str]()
    first: dict[tuple[str, str, str], dict[int, str]] = {}
    began: dict[str, Trial] = {}
    for trial in trials:
        where = f"{folder}/trials.jsonl: the trial {trial.id}"
        cell, other = (trial.cell, trial.position), began.get(trial.started_at)
        if trial.duration_s and other and trial == other.model_copy(update=_name_of(trial)):
            told.append(f"{where} is {other.id} once more: the file was edited. It counts once.")
            continue
        measurements, shared = [], ""
        for measurement in trial.measurements:
            seen = first.setdefault((*cell, measurement.metric), {})
            shared = shared or next((seen[number] for number in measurement.rounds if number in seen), "")
            fresh = {number: sample for number, sample in measurement.blocks if number not in seen}
            seen |= dict.fromkeys(fresh, trial.id)
            measurements.append(
                measurement.model_copy(update={"rounds": [*fresh], "samples": [*fresh.values()]})
                if len(fresh) < len(measurement.rounds)
                else measurement
            )
        if shared:
            told.append(f"{where} has rounds that {shared} has, too: the file was edited. They count once.")
            continue
        if any(len(new.rounds) < len(old.rounds) for new, old in zip(measurements, trial.measurements, strict=True)):
            told.append(f"{where} has a round twice: the file was edited. It counts once.")
            trial = trial.model_copy(update={"measurements": measurements})
        began[trial.started_at] = trial
        kept.append(trial)
    return kept, told


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


def _name_of(trial: Trial) -> dict[str, object]:
    """What tells a trial from a copy of it under another name."""
    return {"id": trial.id, "repetition": trial.repetition}


def _first_sentences(sentences: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(sentences) - MOST_TOLD
    return sentences[:MOST_TOLD] + ([f"{more} more lines of that kind are in the same file."] if more > 0 else [])
