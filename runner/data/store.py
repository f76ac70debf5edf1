"""The run folder: run.json and an append-only trials.jsonl, each line on the disk before the next trial starts."""

from __future__ import annotations

import errno
import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from runner.data.checksum import with_checksum
from runner.data.errors import UsageError
from runner.data.files import (
    cut_torn,
    from_json,
    hold_lock,
    is_folder,
    is_there,
    lines_of,
    no_link,
    open_file,
    open_to_read,
    read_bytes,
    short,
)
from runner.data.metric import Metric, impossible
from runner.data.remarks import of_older
from runner.data.rows import first_of, other_version, read_line
from runner.data.slices import AT, curve_of, values_of
from runner.data.trials import CPU, SCHEMA_VERSION, Measurement, Run, Slice, Trial

IN_BLOCK = ("slices.jsonl", "trials.jsonl")
BLOCK_NOTE = ".block"  # how long the files were before a block of a farm was added
ENDED = ("ok", "unsupported")  # trials that are not measured again
FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
DISK = (*FULL, errno.EROFS, errno.EIO)


class Store:
    """A run folder that is being written. Use it through ``open_store``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trials: dict[str, Trial] = {}
        self._made = _inode(folder)

    @property
    def trials(self) -> list[Trial]:
        """All trials except those under way; of a trial that was measured again, the last line."""
        return [trial for trial in self._trials.values() if trial.status != "interrupted"]

    @trials.setter
    def trials(self, trials: Sequence[Trial]) -> None:
        self._trials = {trial.id: trial for trial in trials}

    def is_there(self) -> bool:
        """Is the folder still the one that was opened?"""
        return self._made is not None and _inode(self.folder) == self._made

    def removed_by(self, error: OSError) -> bool:
        """Did somebody remove the folder, or begin to? Then a file in it, which existed a moment ago, is missing."""
        missing = error.filename if error.errno == errno.ENOENT else None
        return not self.is_there() or (isinstance(missing, str | Path) and Path(missing).is_relative_to(self.folder))

    def is_own(self, error: OSError) -> bool:
        """Is the error about this folder, or its disk? It says nothing of what was being measured."""
        names = [name for name in (error.filename, error.filename2) if isinstance(name, str | Path)]
        about = any(Path(name).is_relative_to(self.folder) for name in names)
        return error.errno in DISK or about or self.removed_by(error)

    def trouble(self, error: OSError) -> str:
        """Why the folder cannot be written, and what to do, as a sentence."""
        if self.removed_by(error):
            return f"the run folder {self.folder} is gone: somebody removed or moved it; start again"
        if error.errno in FULL:
            return f"the disk of {self.folder} is full ({error.strerror}): make room there"
        mend = "make it writable" if error.errno in NOT_WRITABLE else "see what is wrong with its disk"
        return f"the run folder {self.folder} cannot be written any more ({error.strerror}): {mend}"

    def save_run(self, run: Run) -> None:
        """Replace run.json in one step."""
        partial = self.folder / "run.json.partial"
        with open_file(partial, "w") as file:
            file.write(run.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.rename(no_link(self.folder / "run.json"))

    def append(self, trial: Trial) -> None:
        """Add one line to trials.jsonl and wait until it is on the disk. Raises OSError on a full disk."""
        self._append("trials.jsonl", _lines([trial]))
        self._trials.pop(trial.id, None)
        self._trials[trial.id] = trial

    def _append(self, name: str, lines: bytes) -> None:
        with open_file(self.folder / name, "ab", buffering=0) as file:
            whole = file.tell()
            try:
                if file.write(lines) != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(whole)  # half a line is no line
                raise

    def append_slices(self, slices: Sequence[Slice]) -> None:
        """Add rows to slices.jsonl and wait until they are on the disk. Raises OSError on a full disk."""
        if slices:
            self._append("slices.jsonl", _lines(slices))

    def append_block(self, trials: Sequence[Trial], slices: Sequence[Slice]) -> None:
        """Add trials that belong together, with their slices: all of them, or none if this process is killed.

        They are not added to ``trials``: a farm has many, and nobody needs them in memory. Raises OSError on a full
        disk.
        """
        note = self.folder / BLOCK_NOTE
        sizes = {name: _size(self.folder / name) for name in IN_BLOCK}
        with open_file(note, "w") as file:
            file.write(json.dumps(sizes))
            file.flush()
            os.fsync(file.fileno())
        try:
            self.append_slices(slices)
            self._append("trials.jsonl", _lines(trials))
        except OSError:
            undo_block(self.folder)
            raise
        note.unlink()

    def logs(self, name: str) -> Path:
        """A fresh folder for one tunnel's commands and daemon logs."""
        base = folder = no_link(self.folder / "logs") / name
        number = 1
        while os.path.lexists(folder):  # an earlier call of this run was interrupted here; its logs stay
            number += 1
            folder = base.with_name(f"{base.name}-{number}")
        base.parent.mkdir(exist_ok=True)  # the run folder itself is not made again
        folder.mkdir()
        return folder


def _lines(rows: Sequence[BaseModel]) -> bytes:
    return b"".join(with_checksum(row.model_dump_json()) for row in rows)


def _inode(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """Open the run folder: make it if it is missing, lock it against a second writer, cut a torn last line off.

    Raises UsageError where the folder is something else, or in use, or has a symbolic link among its files.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file. --out needs a folder")
        for path in folder.iterdir() if folder.exists() else ():
            no_link(path)
        ours = any((folder / name).exists() for name in (".lock", "run.json"))
        if folder.exists() and any(folder.iterdir()) and not ours:
            raise UsageError(f"{folder} is neither empty nor a run folder. Choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
        lock = open_file(folder / ".lock", "a")
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be used: {error.strerror}") from None
    with lock:
        if not hold_lock(lock, wait=False):
            raise UsageError(f"another vpneval is writing to {folder}. Wait until it ends, or choose another --out")
        store = Store(folder)
        undo_block(folder)
        repair(folder / "trials.jsonl")
        repair(folder / "slices.jsonl")
        if is_there(folder / "trials.jsonl"):
            trials = read_trials(folder / "trials.jsonl")
            if trials and not is_there(folder / "run.json"):
                raise UsageError(
                    f"{folder} has trials but no run.json, which says how they were measured. Put run.json back, "
                    "or choose another --out"
                )
            store.trials = complete_trials(folder, trials, read_run(folder / "run.json")) if trials else []
        yield store


def is_being_written(folder: Path) -> bool:
    """Does another vpneval measure in this run folder? Raises CannotRunHere where its file system has no locks."""
    if not is_there(folder / ".lock"):
        return False
    with open_to_read(folder / ".lock") as lock:
        return not hold_lock(lock, shared=True, wait=False)


def repair(path: Path) -> None:
    """Cut off a last line that was not written whole."""
    if path.exists():
        cut_torn(path)


def undo_block(folder: Path) -> None:
    """Cut off the part of a block that was not written whole."""
    note = folder / BLOCK_NOTE
    if not is_there(note):
        return
    try:
        sizes = from_json(read_bytes(note))
    except ValueError:  # killed while the note was written: nothing was added yet
        sizes = {}
    if not isinstance(sizes, dict) or not sizes.keys() <= {*IN_BLOCK} or not all(map(_is_size, sizes.values())):
        raise UsageError(
            f"{note} is not what vpneval writes there: the sizes of {' and '.join(IN_BLOCK)} before a block of a farm "
            "was added. If you know where the folder is from, remove that file"
        )
    for name, size in sizes.items():
        if _size(folder / name) > size:
            with open_file(folder / name, "r+b") as file:
                file.truncate(size)
    note.unlink()


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _size(path: Path) -> int:
    return path.stat().st_size if is_there(path) else 0


def load_run(
    folder: Path, told: list[str] | None = None, today: Callable[[], Mapping[str, Metric]] = dict
) -> tuple[Run, list[Trial]]:
    """A run folder as data, read only. ``told`` gets what ``read_trials`` tells; ``today``: see ``read_run``. Raises
    UsageError that says what is wrong, and where."""
    check_run_folder(folder)
    run = read_run(folder / "run.json", today)
    path = folder / "trials.jsonl"
    return run, complete_trials(folder, read_trials(path, told, run.metrics), run) if is_there(path) else []


def complete_trials(folder: Path, trials: Sequence[Trial], run: Run) -> list[Trial]:
    """The trials, those that were under way when the run ended made of their slices: ok where the slices give a value
    of each metric that they name, else to be measured again."""
    if all(trial.status != "interrupted" for trial in trials):
        return list(trials)
    slices = read_slices(folder, run.metrics)
    return [
        _complete_trial(trial, slices.get(trial.id, []), run) if trial.status == "interrupted" else trial
        for trial in trials
    ]


def _complete_trial(trial: Trial, slices: Sequence[Slice], run: Run) -> Trial:
    named = dict.fromkeys(name for row in slices for name in row.values if name in run.metrics)
    values = values_of(slices, named)
    if not values:
        return trial.model_copy(update={"status": "lab_error", "reason": "the run ended while this was measured"})
    measurements = [
        Measurement(unit=run.metrics[value.metric].unit, better=run.metrics[value.metric].better, **dict(value))
        for value in values
    ]
    warning = f"the run ended while this was measured: {len(slices)} slices"
    spent_s = sum(row.duration_s for row in slices)
    update = {"status": "ok", "measurements": measurements, "warnings": [warning], "measuring_s": round(spent_s, 3)}
    update["curve"] = curve_of(slices)
    return trial.model_copy(update=update)


def last_round(trials: Sequence[Trial]) -> int:
    """The highest number of a round in these trials."""
    return max((n for trial in trials for measurement in trial.measurements for n in measurement.rounds), default=0)


def check_run_folder(folder: Path) -> None:
    """Raise UsageError, which names some run folders near by, unless ``folder`` is a run folder."""
    if is_there(folder / "run.json"):
        return
    why = "it has no run.json" if is_folder(folder) else "it is a file" if is_there(folder) else "it is not there"
    runs = [run for place in (folder, Path("results")) for run in place.glob("*/run.json") if run.exists()]
    latest = [str(run.parent) for run in sorted(runs, key=lambda run: run.stat().st_mtime)[-3:]]
    near = f"Run folders near by: {', '.join(latest)}" if latest else "`make compare` or `vpneval run` makes one"
    raise UsageError(f"{short(folder)} is not a run folder: {why}. {near}")


def read_run(path: Path, today: Callable[[], Mapping[str, Metric]] = dict) -> Run:
    """run.json as data. ``today``: the metrics as they are now, of which an older run takes what it does not tell of
    its own. Raises UsageError for invalid data, or another schema version."""
    text = read_bytes(path)
    try:
        run = Run.model_validate_json(text, strict=True)
    except ValidationError as wrong:
        raise UsageError(other_version(str(path), text) or f"{path}: {first_of(wrong)}") from None
    if run.schema_version != SCHEMA_VERSION:
        raise UsageError(other_version(str(path), text))
    if all(metric.model_fields_set == Metric.model_fields.keys() for metric in run.metrics.values()):
        return run
    now = today()
    told = {name: metric.model_dump(exclude_unset=True) for name, metric in run.metrics.items()}
    whole = {name: now[name].model_copy(update=told[name]) for name in run.metrics.keys() & now}
    return run.model_copy(update={"metrics": run.metrics | whole})


def _with_remarks(trial: Trial) -> Trial:
    """The trial; of an older one, the remarks that its sentences are."""
    if trial.remarks or not (trial.reason or trial.warnings):
        return trial
    warnings, remarks = of_older(trial.reason, trial.warnings, trial.status == "unsupported")
    return trial.model_copy(update={"warnings": warnings, "remarks": remarks}) if remarks else trial


def read_trials(path: Path, told: list[str] | None = None, metrics: Mapping[str, Metric] | None = None) -> list[Trial]:
    """All whole lines of trials.jsonl; of lines with the same id (a trial measured again) the last. ``told`` gets
    sentences on lines of trials that were well before: nothing measures those again. Raises UsageError for an invalid
    line, and for values beyond the bounds of ``metrics``."""
    trials: dict[str, Trial] = {}
    failures: dict[str, list[str]] = {}
    with without_collector():
        for number, line in enumerate(lines_of(path), start=1):
            if not line.endswith(b"\n"):  # torn: only the last can be
                break
            trial = read_line(Trial, path, number, line)
            if trial.schema_version != SCHEMA_VERSION:
                raise UsageError(other_version(f"{path}, line {number}", line))
            if why := _beyond(trial, metrics or {}):
                raise UsageError(f"{path}, line {number}: {why}")
            for model in (trial, trial.evidence, trial.proof, trial.noise, *trial.measurements):
                if model is not None:  # nobody asks which fields were given: of 100,000 trials that is 400 MB
                    model.model_fields_set.clear()
            trial = _with_remarks(trial)
            before = trials.pop(trial.id, None)
            if trial.status == "failed":
                failures.setdefault(trial.id, []).append((trial.reason.splitlines() or [""])[0])
            elif trial.status == "ok" and (failed := failures.get(trial.id)):
                first = f"failed {'once' if len(failed) == 1 else f'{len(failed)} times'}, then ok: {failed[0]}"
                trial = trial.model_copy(update={"warnings": [*trial.warnings, first]})
            if told is not None and before and before.status in ENDED:
                told.append(
                    f"{path}, line {number}: the trial {trial.id} had ended before ({before.status}), and has another "
                    "line, which counts: the file was edited, or two programs wrote it."
                )
            trials[trial.id] = trial
    return list(trials.values())


def read_slices(folder: Path, metrics: Mapping[str, Metric] | None = None) -> dict[str, list[Slice]]:
    """The slices of each trial of a run folder, by the trial's id; of a trial measured again, those of the last time.

    Raises UsageError for an invalid row, and for impossible values of ``metrics``.
    """
    slices = dict[str, list[Slice]]()
    for slice_ in each_slice(folder, metrics):
        if slice_.number == 1:
            slices[slice_.trial] = []
        slices.setdefault(slice_.trial, []).append(slice_)
    return slices


def each_slice(folder: Path, metrics: Mapping[str, Metric] | None = None) -> Iterator[Slice]:
    """The whole rows of slices.jsonl in their order. Raises as ``read_slices`` does."""
    path = folder / "slices.jsonl"
    for number, row in enumerate(lines_of(path) if is_there(path) else (), start=1):
        if not row.endswith(b"\n"):
            break
        slice_ = read_line(Slice, path, number, row)
        if why := _impossible(slice_, metrics or {}):
            raise UsageError(f"{path}, line {number}: {why}")
        yield slice_


def _beyond(trial: Trial, metrics: Mapping[str, Metric]) -> str:
    """Which value of this trial is beyond the bounds of its metric, or ""."""
    for one in trial.measurements:
        if one.metric in metrics and (why := metrics[one.metric].refusal(one.value)):
            return f"{one.metric} is {why}"
    return ""


def _unit(name: str, metrics: Mapping[str, Metric]) -> str:
    if name in metrics:
        return metrics[name].unit
    return "s" if name.partition(AT)[0].endswith(CPU) else ""


def _impossible(slice_: Slice, metrics: Mapping[str, Metric]) -> str:
    """Why this slice cannot have been measured, or ""."""
    for name, value in {"at_s": slice_.at_s, "duration_s": slice_.duration_s, **slice_.values}.items():
        if why := impossible([value], _unit(name, metrics)):
            return f"{name} is {why}"
    return ""


@contextmanager
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off within the context. Where a million objects are made and kept without cycles, its
    search for cycles takes more time than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
