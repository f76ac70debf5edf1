"""One trial between its first slice and its line in the store, whoever has a turn between its slices."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from runner.catalogue import describe_fault
from runner.data.errors import (
    CommandError,
    InstrumentError,
    LabError,
    MeasurementError,
    PluginError,
    ProofError,
    TooLongError,
)
from runner.data.foreign import caught
from runner.data.remarks import LOST, Remark
from runner.data.slices import curve_of, foreign_ratio, values_of, with_values
from runner.data.store import DISK
from runner.data.trials import Noise, Slice
from runner.instruments.instrument import Asked, Go, Measuring
from runner.instruments.result import Measured
from runner.lab.node.logs import tail
from runner.lab.node.probing import own_fault
from runner.lab.readings import noise
from runner.lab.readings.awake import Awake
from runner.lab.shape.site_to_site import check_alive
from runner.sweep.plan import Planned
from runner.sweep.records import Records
from runner.tunnel.bring_up import Bench, Tunnel, refuse_damage

# How an instrument says that it has no number, that the lab is broken, or that the tunnel could not be made anew.
SAID = (TooLongError, MeasurementError, CommandError, TimeoutError, LabError, ProofError)
ATTEMPTS = 2  # a trial that takes turns is begun again after its first failure
REPAIRS = 2  # any trial is begun again after what measures has died, so often


@dataclass
class RunningTrial:
    """A trial that is being measured in a standing tunnel. ``too_long``: the keys of the cells whose packets do not fit
    their tunnel; only the first trial of each says so. ``over``: the trial's line is in the store. ``usable``: may
    other trials go on in the same tunnel?"""

    planned: Planned
    bench: Bench
    asked: Asked
    records: Records
    folder: Path
    log: str
    too_long: set[str]
    instance: int = 1
    every: int = 1  # in rounds
    times: int = 1  # as many turns as usual in such a round
    over: bool = False
    usable: bool = True
    spent_s: float = 0.0
    rows: list[Slice] = field(default_factory=list)
    _stored: int = 0
    _attempts: int = 0
    _repairs: int = 0
    _begun: bool = False
    _failure: str = ""  # the last one
    _saw: dict[str, Any] = field(default_factory=dict)  # what the measurement that failed last saw
    _notes: list[str] = field(default_factory=list)
    _remarks: list[Remark] = field(default_factory=list)
    _measuring: Measuring | None = None

    def __post_init__(self) -> None:
        self.up: Tunnel = self.bench.tunnel  # later ones of the same trial are the same, only newer
        self._quiet, self._began = noise.snapshot(lab=self.bench.lab), time.monotonic()
        self.turning = self.planned.instrument.takes_turns(self.asked.params, self.asked.profile)
        self.over = self.planned.cell.key in self.too_long

    def note(self, text: str) -> None:
        """Add a warning to the trial's line."""
        self._notes.append(text)

    @property
    def has_begun(self) -> bool:
        """Has the trial had a turn?"""
        return self._attempts > 0

    def turn(self, round_: int = 1) -> None:
        """Measure the next slice. Where that was the last one, or the trial has failed for good, write the trial's
        line.

        Raises LabError and ProofError where the lab is broken or the tunnel could not be made anew, and OSError.
        """
        self._attempt(Go.ON, round_)

    def end(self) -> None:
        """Tell the instrument to end with what it has, and write the trial's line, unless it had no turn. Raises as
        ``turn`` does."""
        if not self.over and self._measuring is not None:
            self._attempt(Go.END, 0)
        if not self.over and (self.rows or self._failure):
            reason = self._failure or "the run ended in the middle of a slice"
            self._ended_early(reason, noise.noise_since(self._quiet, lab=self.bench.lab), self._saw)

    def end_without(self, reason: str) -> None:
        """End the trial where nothing can be measured any more. Writes its line where it has slices. Raises OSError."""
        if self.rows and self.turning and not self.over:
            self._ended_early(reason, noise.noise_since(self._quiet, lab=self.bench.lab))

    def close(self) -> None:
        """Let the instrument clean up. Where it cannot, the next trial gets another tunnel. Raises LabError."""
        measuring, self._measuring = self._measuring, None
        with caught(self._left_behind, LabError):
            if isinstance(measuring, Generator):
                measuring.close()

    @property
    def has_samples(self) -> bool:
        """Has the trial several slices that are samples of a metric? Then a part of it is worth keeping."""
        names = {metric.name for metric in self.planned.instrument.metrics}
        return len(self.rows) > 1 and not names.isdisjoint(self.rows[-1].values)

    @property
    def is_new(self) -> bool:
        """Is no slice of the trial in the store yet?"""
        return not self._stored

    def fresh(self) -> list[Slice]:
        """Return the slices that are not in the store yet, and count them as stored."""
        rows, self._stored = self.rows[self._stored :], len(self.rows)
        return rows

    def _attempt(self, go: Go, round_: int) -> None:
        started, ended, awake = time.monotonic(), False, Awake(self.bench.lab)
        try:
            with caught(self._broke, *SAID):
                result, ended = self._next(go)
                awake.refuse()
                if ended:
                    self._finish(result)
                elif go is Go.END:
                    raise MeasurementError("the instrument did not end when it was told to")
                else:
                    self._add(result, round_, started)
        except TooLongError as refused:
            self.too_long.add(self.planned.cell.key)
            self._write(status="unsupported", reason=str(refused))
        except (MeasurementError, CommandError, TimeoutError) as error:
            try:
                awake.refuse()  # whatever failed then
                self._handle_failure(error, no_result=ended or go is Go.END)
            except InstrumentError as died:
                self._repair(died, ending=go is Go.END)
        except KeyboardInterrupt:  # it went through the instrument, which cannot go on
            self._measuring = None
            raise
        finally:
            self.spent_s += time.monotonic() - started

    def _broke(self, error: BaseException) -> None:
        """Fail the trial by a mistake of the instrument or the plugin. Raises the error of a full disk, and LabError
        where a node is gone: whatever follows from that is no fault of theirs."""
        if isinstance(error, OSError) and error.errno in DISK:
            raise error
        check_alive(self.bench.lab)
        self._left_behind(error)
        explained = isinstance(error, PluginError)
        self._write(status="failed", reason=str(error) if explained else describe_fault(self.planned.instrument, error))

    def _left_behind(self, error: BaseException) -> None:
        """Let the next trial get another tunnel: nobody knows what an instrument left in this one that ended so."""
        self.usable = False

    def _next(self, go: Go) -> tuple[Any, bool]:
        """What the instrument yields or returns, and whether it has returned."""
        if self._measuring is None:
            if self._attempts and self.planned.instrument.spends_tunnel:
                self.bench.renew()
            self._attempts, self._begun = self._attempts + 1, False
            self._measuring = self.planned.instrument.measure(self.bench, self.asked)
            if not isinstance(self._measuring, Generator):
                raise MeasurementError(
                    "measure() is not a generator: it has no yield. For one that measures in one piece, see Whole"
                )
        begun, self._begun = self._begun, True
        try:
            return (self._measuring.send(go) if begun else next(self._measuring)), False
        except StopIteration as done:
            return done.value, True

    def _add(self, result: Any, round_: int, started: float) -> None:
        numbers = result.values() if isinstance(result, Mapping) else [None]
        if not all(isinstance(value, Real) and math.isfinite(value) for value in numbers):
            raise MeasurementError(f"a slice must map names to finite numbers, and is {result!r}")
        self.rows.append(
            Slice(
                trial=self.planned.id,
                number=len(self.rows) + 1,
                round=round_,
                instance=self.instance,
                at_s=round(started - self._began, 4),
                duration_s=round(time.monotonic() - started, 4),
                values=result,
            )
        )
        self.records.tell_found(self.planned, self.rows[-1].values)

    def _finish(self, measured: Any) -> None:
        around = noise.noise_since(self._quiet, lab=self.bench.lab)
        if isinstance(measured, Measured) and self.turning:
            metrics = [metric.name for metric in self.planned.instrument.metrics]
            measured.measurements = with_values(measured.measurements, self.rows, metrics)
        self.records.check(self.planned, measured)
        measured.warnings += self._notes
        measured.remarks += self._remarks + noise.remarks(around, loaded=self.planned.instrument.full_load)
        self.usable = not self.planned.instrument.spends_tunnel
        self._write(measured=measured, around=around)

    def _handle_failure(self, error: Exception, no_result: bool) -> None:
        """Handle a failed slice: begin the trial again, or end it with the slices that it has, or without a number.
        ``no_result``: the instrument failed to give its result, not a slice."""
        around = noise.noise_since(self._quiet, lab=self.bench.lab)
        check_alive(self.bench.lab)
        if isinstance(error, InstrumentError):
            raise error
        if own_fault(error, self.gateways):
            raise InstrumentError(str(error)) from error
        refuse_damage(self.bench.lab, self.asked.vpn)
        reason, self.usable = str(error), self._carries_payload()
        if not self.usable:
            check_alive(self.bench.lab)  # that a node is gone shows at its interfaces first, then at its process
            reason += f"; {LOST}{tail(self.folder)}"
            self._remarks.append(Remark(kind="no payload"))
        self.close()
        self._measuring, self._failure = None, reason
        self._saw = error.attempt if isinstance(error, MeasurementError) else {}
        if no_result and isinstance(error, MeasurementError):  # what the slices come to is not to be trusted
            spent = Measured(attempt=self._saw)
            spent.remarks = self._remarks + noise.remarks(around, loaded=False)
            self._write(measured=spent, status="failed", reason=reason, around=around)
        elif self.turning and not no_result and self._attempts - self._repairs < ATTEMPTS:
            self._notes.append(f"begun again after {len(self.rows)} slices: {reason}")
        else:
            self._ended_early(reason, around, self._saw)

    def _repair(self, died: InstrumentError, *, ending: bool) -> None:
        """Handle the death of a measuring program, for which the VPN is not to blame: begin the trial again, or end it
        with the slices that it has, or leave it to be measured another time."""
        self.close()
        self._failure, self._repairs = str(died), self._repairs + 1
        if not ending and self._repairs <= REPAIRS:
            self._notes.append(f"begun again after {len(self.rows)} slices: {died}")
        elif self.turning and self.rows:
            self._ended_early(str(died), noise.noise_since(self._quiet))
        else:
            self.usable = False  # the next trial gets another lab
            self._write(status="lab_error", reason=str(died))
            self.records.machine.add(self.planned.cell.vpn, str(died), of_tunnel=False)

    @property
    def gateways(self) -> list[str]:
        """The names of the nodes whose commands are the VPN's."""
        return [site.name for site in self.bench.lab.sites]

    def _carries_payload(self) -> bool:
        try:
            return self.bench.carries_payload()
        except (CommandError, TimeoutError):  # the host did not even say that there was no answer
            return False

    def _ended_early(self, reason: str, around: Noise, attempt: dict[str, Any] | None = None) -> None:
        """Write the trial's line, with the slices that it has, or without a number."""
        spent = Measured(attempt=attempt or {})
        spent.warnings = [*self._notes]
        spent.remarks = self._remarks + noise.remarks(around, loaded=False)
        if self.turning:
            spent.measurements = values_of(self.rows, [metric.name for metric in self.planned.instrument.metrics])
        if spent.measurements:
            spent.warnings.append(f"ended after {len(self.rows)} slices: {reason}")
            self._write(measured=spent, around=around)
        else:
            self._write(measured=spent, status="failed", reason=reason, around=around)

    def _write(self, **what: Any) -> None:
        self.over = True
        measured = what.setdefault("measured", Measured())
        measured.curve = curve_of(self.rows)
        foreign = foreign_ratio(measured.curve, os.cpu_count() or 1)
        if foreign is not None and (around := what.get("around")):
            what["around"] = around.model_copy(update={"foreign_ratio": foreign})
        if self.turning or not measured.measuring_s:
            measured.measuring_s = self.spent_s
        self.records.write(self.planned, self.up, log=self.log, started=self._began, slices=self.fresh(), **what)
