"""Writes each trial as a line of the store the moment it ends, with its warnings; later trials learn from these."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from runner.catalogue import instruments
from runner.data.errors import MeasurementError
from runner.data.levels import BASELINE, beside_plain_ip, outside_of_tunnel
from runner.data.limits import judge
from runner.data.remarks import Remark
from runner.data.store import Store
from runner.data.trials import Evidence, Measurement, Noise, Proof, Slice, Status, Trial
from runner.instruments.instrument import Instrument
from runner.instruments.result import Measured
from runner.lab.redaction import KNOWN, hide
from runner.sweep.machine_failures import MachineFailures
from runner.sweep.plan import Planned
from runner.sweep.settings import Outcome, Watcher
from runner.tunnel.bring_up import Tunnel

FASTER_THAN_BASELINE = 1.05  # beyond this a VPN that beats plain IP is a warning, not good news


@dataclass
class Records:
    """The trials of a run, those of earlier calls included."""

    store: Store
    watcher: Watcher
    experiments_of: Mapping[str, list[str]]  # cell key -> names of the experiments it belongs to
    outcome: Outcome = field(default_factory=Outcome)
    left_s: Callable[[], float] = float  # until the end of what is planned
    known_bps: dict[str, float] = field(default_factory=dict)  # cell key -> the rate at which a search should start
    machine: MachineFailures = field(default_factory=MachineFailures)

    def __post_init__(self) -> None:
        for trial in self.store.trials:
            self._learn(trial)

    def tell_found(self, planned: Planned, values: Mapping[str, float]) -> None:
        """Tell the watcher what a slice of this trial found."""
        self.machine.end()
        self.watcher.show_slice(planned, values)

    def begin(self, planned: Planned, up: Tunnel, log: str) -> None:
        """Write down that a trial is under way, so that its slices are kept whatever happens. ``log``: its folder."""
        self.store.append(
            self._trial(planned, Measured(), "interrupted").model_copy(
                update=self._proven(up)
                | {"started_at": datetime.now(UTC).isoformat(timespec="milliseconds"), "log": log}
            )
        )

    def write(
        self,
        planned: Planned,
        up: Tunnel | None = None,
        *,
        measured: Measured | None = None,
        status: Status = "ok",
        reason: str = "",
        log: str = "",
        started: float | None = None,
        proof: Proof | None = None,
        around: Noise | None = None,
        slices: Sequence[Slice] = (),
    ) -> None:
        """Write one trial's line and tell the watcher. ``started`` is by time.monotonic()."""
        measured = measured or Measured()
        self.outcome.measuring_s += measured.measuring_s
        duration_s = 0.0 if started is None else time.monotonic() - started
        trial = self._trial(planned, measured, status).model_copy(
            update={
                "reason": hide(reason),
                "started_at": (datetime.now(UTC) - timedelta(seconds=duration_s)).isoformat(timespec="milliseconds"),
                "duration_s": round(duration_s, 3),
                "log": log,
                "proof": proof,
                "noise": around,
            }
            | (self._proven(up) if up else {})
        )
        self.store.append_slices(slices)
        self.store.append(trial)
        self._learn(trial)
        self.outcome.measured += status == "ok"
        self.outcome.failed += status in ("failed", "lab_error")
        self.watcher.show_trial(trial, self.left_s())

    def _proven(self, up: Tunnel) -> dict[str, Any]:
        return {
            "encrypted": up.proof.confidential_promised and not up.proof.marker_on_wan,
            "evidence": Evidence.model_validate(KNOWN.data(up.evidence.model_dump())),
            "proof": up.proof,
        }

    def check(self, planned: Planned, measured: Measured) -> None:
        """Raise MeasurementError unless ``measured`` can be stored, and read back.

        Raises what the instrument raises when it is asked what the next repetition can learn.
        """
        what = f"the instrument {planned.instrument.name}"
        if not isinstance(measured, Measured):
            raise MeasurementError(f"{what} returned {measured!r} instead of a Measured")
        try:
            trial = Trial.model_validate_json(self._trial(planned, measured, "ok").model_dump_json())
        except (ValueError, TypeError, AttributeError) as error:
            raise MeasurementError(f"{what} returned something that cannot be stored: {error}") from error
        planned.instrument.known_bps(trial)

    def _trial(self, planned: Planned, measured: Measured, status: Status) -> Trial:
        return Trial(
            id=planned.id,
            vpn=planned.cell.vpn,
            params=planned.cell.params,
            repetition=planned.repetition,
            position=planned.position,
            experiments=self.experiments_of.get(planned.cell.key, []),
            status=status,
            warnings=KNOWN.data(measured.warnings + self._implausible(planned, measured)),
            remarks=[Remark.model_validate(KNOWN.data(dict(remark))) for remark in measured.remarks],
            started_at="",
            measuring_s=round(measured.measuring_s, 3),
            attempt=KNOWN.data(measured.attempt),
            measurements=measurements_of(measured, planned.instrument),
            curve=measured.curve,
            timelines=measured.timelines,
            loads=measured.loads,
            limit=judge(measured.loads, generator_limited=_generator_limited(measured)),
        )

    def _learn(self, trial: Trial) -> None:
        """Keep what later trials need: where a search begins."""
        if trial.status != "ok":
            return
        self.machine.end()
        instrument = instruments().get(trial.params["measure"])  # an earlier call may have had another one
        if instrument and (known_bps := instrument.known_bps(trial)) is not None:
            self.known_bps[trial.cell] = known_bps

    def _implausible(self, planned: Planned, measured: Measured) -> list[str]:
        """Warn of a VPN that is faster than this block's plain IP."""
        if planned.cell.vpn == BASELINE:
            return []
        for baseline in self.store.trials:
            same = outside_of_tunnel(baseline.params) == beside_plain_ip(planned.cell.params)
            if baseline.vpn == BASELINE and baseline.repetition == planned.repetition and same:
                return faster_than(baseline, measured)
        return []


def _generator_limited(measured: Measured) -> bool:
    """Was a search limited by the generator, which could offer no more?"""
    return any("generator_limited" in (value.detail.get("flags") or ()) for value in measured.measurements)


def measurements_of(measured: Measured, instrument: Instrument) -> list[Measurement]:
    """The values of a measurement with their metrics' units. Raises MeasurementError for a metric that the instrument
    does not define, and for a value that it cannot have."""
    known, measurements = {metric.name: metric for metric in instrument.metrics}, []
    for value in measured.measurements:
        if value.metric not in known:
            raise MeasurementError(
                f"the instrument {instrument.name} returned the metric {value.metric}, which it does not define"
            )
        if not math.isfinite(value.value):
            raise MeasurementError(f"the instrument {instrument.name} returned {value.value} as {value.metric}")
        metric = known[value.metric]
        if why := metric.refusal(value.value):
            raise MeasurementError(f"the instrument {instrument.name} returned a {metric.name} of {why}")
        fields = dict(value) | {"detail": KNOWN.data(value.detail)}
        measurements.append(Measurement(unit=metric.unit, better=metric.better, **fields))
    return measurements


def faster_than(baseline: Trial, measured: Measured) -> list[str]:
    """Warnings for throughputs that exceed the baseline's by more than the noise that is usual."""
    plain = {
        measurement.metric: measurement.value
        for measurement in baseline.measurements
        if measurement.metric.endswith("throughput")
    }
    return [
        f"{measurement.metric} is {measurement.value / plain[measurement.metric]:.2f} times the baseline's: "
        "not plausible"
        for measurement in measured.measurements
        if measurement.metric in plain and measurement.value > FASTER_THAN_BASELINE * plain[measurement.metric]
    ]
