"""Stores the blocks of the workers' answers in the run folder, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.data.checksum import check_line
from runner.data.files import no_link, open_file
from runner.data.rows import Row
from runner.data.store import Store
from runner.data.trials import Machine, Measurement, Run, Slice, Trial
from runner.farm.block import BlockError, unpack
from runner.sweep.settings import Outcome


@dataclass
class Keeper:
    """The run folder, and its run.json as it stands."""

    store: Store
    outcome: Outcome
    run: Run | None = None
    kept: set[int] = field(default_factory=set)  # blocks of this call
    _known: set[str] = field(default_factory=set)  # cells of which the folder has a line

    def __post_init__(self) -> None:
        self._known = {trial.cell for trial in self.store.trials}

    def begin(self, run: Run) -> None:
        """Write the run as it is described before its first block."""
        self.run = run
        self.save()

    def save(self, **update: Any) -> None:
        """Write run.json with these fields changed. Raises OSError."""
        assert self.run is not None
        self.run = self.run.model_copy(update=update)
        self.store.save_run(self.run)

    def join(self, name: str, machine: Machine) -> str:
        """Write down a machine of the farm. Returns why it may not take part, where it has changed since an earlier
        call; else ""."""
        assert self.run is not None
        known = self.run.machines.get(name)
        if known and known.kind != machine.kind:
            return f"{name} was {known.kind} in this run, and is {machine.kind} now"
        if known is None:
            self.save(machines=self.run.machines | {name: machine})
        return ""

    def keep(self, number: int, name: str, packed: object) -> None:
        """Store the answer of the machine ``name`` to the block ``number`` in the folder. A second answer changes
        nothing. Raises BlockError for an answer that is not to this block, and OSError."""
        if number in self.kept:
            return
        files = unpack(packed)
        run, trials, slices = _read(files)
        self._check(number, run, trials)
        place = f"logs/{name}-block-{number}"
        _write_logs(self.store.folder, place, files)
        # What this machine cannot measure, another may have: a line of repetition 1 would take that one's place.
        kept = [trial for trial in trials if trial.status != "unsupported" or trial.cell not in self._known]
        lines = [_line(trial, name, place) for trial in kept]
        ids = {trial.id for trial in lines}
        self.store.append_block(lines, [row for row in slices if row.trial in ids])
        self.kept.add(number)
        self._count(lines)
        self._describe(name, run, {trial.cell: trial.reason for trial in trials if trial.status == "unsupported"})

    def _describe(self, name: str, own: Run, lacks: Mapping[str, str]) -> None:
        """What the first block of a machine says of it is kept; the very first is also the run's. What it cannot
        measure is kept of every block."""
        assert self.run is not None
        update: dict[str, Any] = {}
        if "links" not in self.run.lab:  # until now it had what a machine says without a lab
            update["lab"] = own.lab
        known = self.run.machines.get(name)
        if known and (not known.lab or not lacks.keys() <= known.lacks.keys()):
            more = {"lab": known.lab or own.lab, "lacks": {**lacks, **known.lacks}}
            update["machines"] = self.run.machines | {name: known.model_copy(update=more)}
        if update:
            self.save(**update)

    def _check(self, number: int, run: Run, trials: list[Trial]) -> None:
        assert self.run is not None
        if any(trial.repetition != number and trial.status != "unsupported" for trial in trials):
            raise BlockError("it answers with trials of another block")
        for name, vpn in run.vpns.items():
            if name not in self.run.vpns or self.run.vpns[name].digest != vpn.digest:
                raise BlockError(f"its plugin {name} is another file than the coordinator's")

    def _count(self, trials: list[Trial]) -> None:
        for trial in trials:
            self._known.add(trial.cell)
            self.outcome.measured += trial.status == "ok"
            self.outcome.failed += trial.status in ("failed", "lab_error")
            self.outcome.measuring_s += trial.measuring_s


def _read(files: Mapping[str, bytes]) -> tuple[Run, list[Trial], list[Slice]]:
    try:
        run = Run.model_validate_json(files["run.json"], strict=True)
        trials = {(trial := _parse_row(Trial, line)).id: trial for line in _lines(files["trials.jsonl"])}
        slices = [_parse_row(Slice, line) for line in _lines(files.get("slices.jsonl", b""))]
    except ValueError as wrong:
        raise BlockError(f"its answer is not that of this vpneval: {wrong}") from None
    return run, [trial for trial in trials.values() if trial.status != "interrupted"], slices


def _parse_row(model: type[Row], line: bytes) -> Row:
    return model.model_validate_json(check_line(line), strict=True)


def _lines(text: bytes) -> Iterator[bytes]:
    return (line for line in text.splitlines(keepends=True) if line.strip())


def _line(trial: Trial, machine: str, place: str) -> Trial:
    log = trial.log.replace("logs", place, 1)
    own = [_alone(measurement) for measurement in trial.measurements]
    return trial.model_copy(update={"machine": machine, "log": log, "measurements": own})


def _alone(measurement: Measurement) -> Measurement:
    """Mark a search as not pooled: one that began and ended in this block says nothing of other machines' blocks."""
    if not measurement.detail.get("pooled"):
        return measurement
    return measurement.model_copy(update={"detail": measurement.detail | {"pooled": False}})


def _write_logs(folder: Path, place: str, files: Mapping[str, bytes]) -> None:
    for name, text in files.items():
        if not name.startswith("logs/"):
            continue
        path = folder / name.replace("logs", place, 1)
        for parent in reversed(path.relative_to(folder).parents):
            no_link(folder / parent).mkdir(exist_ok=True)
        with open_file(path, "wb") as file:
            file.write(text)
