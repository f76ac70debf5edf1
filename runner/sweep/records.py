"""Trials become lines of the store the moment they end, each with its warnings; later trials learn from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from runner.data.levels import BASELINE, TRAFFIC_FACTORS, WAN_FACTORS
from runner.data.store import Store
from runner.data.trials import Evidence, Noise, Proof, Status, Trial
from runner.instruments.result import Measured
from runner.lab.redaction import KNOWN, hide
from runner.sweep.call import Outcome, Watcher
from runner.sweep.plan import Planned
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

    def __post_init__(self) -> None:
        for trial in self.store.trials:
            self._learn(trial)

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
    ) -> None:
        """Write one trial's line and tell the watcher. ``started`` is by time.monotonic()."""
        measured = measured or Measured()
        self.outcome.measuring_s += measured.measuring_s
        duration_s = 0.0 if started is None else time.monotonic() - started
        trial = Trial(
            id=planned.id,
            vpn=planned.cell.vpn,
            params=planned.cell.params,
            repetition=planned.repetition,
            position=planned.position,
            experiments=self.experiments_of.get(planned.cell.key, []),
            status=status,
            reason=hide(reason),
            encrypted=bool(up and up.proof.confidential_promised and not up.proof.marker_on_wan),
            warnings=KNOWN.data(measured.warnings + self._implausible(planned, measured)),
            started_at=(datetime.now(UTC) - timedelta(seconds=duration_s)).isoformat(timespec="milliseconds"),
            duration_s=round(duration_s, 3),
            measuring_s=round(measured.measuring_s, 3),
            log=log,
            evidence=Evidence.model_validate(KNOWN.data(up.evidence.model_dump())) if up else None,
            proof=up.proof if up else proof,
            noise=around,
            attempt=KNOWN.data(measured.attempt),
            measurements=[
                found.model_copy(update={"detail": KNOWN.data(found.detail)}) for found in measured.measurements
            ],
            timelines=measured.timelines,
        )
        self.store.append(trial)
        self._learn(trial)
        self.outcome.measured += status == "ok"
        self.outcome.failed += status in ("failed", "lab_error")
        self.watcher.finished(trial, self.left_s())

    def _learn(self, trial: Trial) -> None:
        """Keep what later trials need: where a search should start."""
        for found in trial.measurements:
            if found.metric == "udp_throughput":
                self.known_bps[trial.cell] = found.value
            if found.metric in ("packet_rate", "packet_rate_both_ways"):
                self.known_bps[trial.cell] = found.value * 8 * int(trial.params["packet_bytes"])

    def _implausible(self, planned: Planned, measured: Measured) -> list[str]:
        """A VPN that is faster than this block's plain IP is a warning."""
        if planned.cell.vpn == BASELINE:
            return []
        for baseline in self.store.trials:
            same = {name: baseline.params.get(name) for name in (*TRAFFIC_FACTORS, *WAN_FACTORS)}
            mine = {name: planned.cell.params.get(name) for name in (*TRAFFIC_FACTORS, *WAN_FACTORS)}
            if baseline.vpn == BASELINE and baseline.repetition == planned.repetition and same == mine:
                return faster_than(baseline, measured)
        return []


def faster_than(baseline: Trial, measured: Measured) -> list[str]:
    """Warnings for throughputs that exceed the baseline's by more than the noise that is usual."""
    plain = {found.metric: found.value for found in baseline.measurements if found.metric.endswith("throughput")}
    return [
        f"{found.metric} is {found.value / plain[found.metric]:.2f} times the baseline's: not plausible"
        for found in measured.measurements
        if found.metric in plain and found.value > FASTER_THAN_BASELINE * plain[found.metric]
    ]
