"""A throughput search as a measurement, as all instruments that search have it: each of its trials is a slice, and the
tunnel is made anew where a rate breaks it down."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from runner.data.errors import CommandError, MeasurementError
from runner.instruments.instrument import Found, Go
from runner.instruments.result import Measured
from runner.instruments.tools.limits import Limits
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss, Measure, SearchResult, SearchTrial
from runner.search.bracket import NEAR
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.search.steps import steps
from runner.tunnel.bring_up import Bench

Counts = TypeVar("Counts")
Searching = Generator[Found, Go, SearchResult]
FLAGS = {  # what they say of a search that found no rate
    "no_throughput": f"no_throughput: more than {LOSS_RATIO:.0%} is lost even at the lowest rate",
    "unconfirmed": "unconfirmed: the search's time was over before a rate was confirmed to lose at most "
    f"{LOSS_RATIO:.0%} (more time: --profile thesis, or a longer --deadline)",
}


class Played(NamedTuple, Generic[Counts]):
    """One trial: what the search makes of it, the payload that was sent and that came through (bytes), and what the
    instrument keeps of it, among it how many packets the receiver's socket ``dropped``."""

    loss: Loss
    sent_bytes: float
    received_bytes: float
    counts: Counts
    dropped: int = 0


@dataclass
class Trials(Generic[Counts]):
    """The trials of a search, which ``play`` plays: it is handed a rate (bit/s) and a time (s). A rate that breaks the
    tunnel down counts as lost altogether, and the tunnel is made anew.

    ``again``: is a trial played once more where it failed and the tunnel did not? Else the failure is raised.
    """

    bench: Bench
    play: Callable[[float, float], Played[Counts]]
    again: bool = False
    limits: Limits = field(default_factory=Limits)
    all: list[Played[Counts] | None] = field(default_factory=list)  # in their order; None: the tunnel broke down
    breakdowns_bps: list[float] = field(default_factory=list)

    @property
    def counts(self) -> list[Counts]:
        """Of the trials under which the tunnel did not break down."""
        return [trial.counts for trial in self.all if trial]

    @property
    def drop_ratios(self) -> list[float]:
        """Of what each trial sent, the share that the receiver's socket dropped."""
        return [min(trial.dropped, trial.loss.sent) / trial.loss.sent if trial else 0.0 for trial in self.all]

    def offer(self, rate_bps: float, duration_s: float) -> Loss:
        """One trial."""
        trial: Played[Counts] | None = None
        try:
            with self.limits.watch(self.bench, rate_bps) as piece:
                trial = self.play(rate_bps, duration_s)
                piece.note_carried(trial.received_bytes, trial.sent_bytes)
        except (MeasurementError, CommandError):
            if self.bench.carries_payload():  # the instrument failed, not the tunnel
                if not self.again:
                    raise
                trial = self.play(rate_bps, duration_s)
        if trial is None or not (trial.received_bytes or self.bench.carries_payload()):
            self.all.append(None)
            self.breakdowns_bps.append(rate_bps)
            self.bench.renew()
            return Loss(1, 0, rate_bps)
        self.all.append(trial)
        return trial.loss

    def found_rate(self, result: SearchResult, what: str, measured: Measured) -> float:
        """The rate that the search found, as ``found_rate``, with the machines' loads near it in ``measured``."""
        rate_bps = found_rate(result, what, measured)
        measured.loads = self.limits.machine_loads(rate_bps)
        return rate_bps


def run_search(
    search: UdpSearch, offer: Measure, first_bps: float | None, overhead_s: float, min_rate_bps: float = 1e6
) -> Searching:
    """Search with ``offer``, which offers a rate (bit/s) for a time (s) and says what was lost. Told to end, the search
    ends as if its budget were spent. Raises what ``offer`` raises, a TimeoutError as MeasurementError."""

    def find(measure: Measure) -> SearchResult:
        return search.find(measure, first_bps, overhead_s, min_rate_bps)

    trials = steps(find)
    loss: Loss | None = None
    try:
        load = next(trials)
        while True:
            try:
                loss = offer(*load)
            except TimeoutError as error:
                raise MeasurementError(f"the trial at {load.rate_bps / 1e6:.6g} Mbit/s did not end: {error}") from error
            go = yield {"asked_rate_bps": load.rate_bps, "sent": loss.sent, "received": loss.received}
            load = trials.send(loss)
            if go is Go.END:
                load = trials.send(None)
    except StopIteration as end:
        result: SearchResult = end.value
        return result
    finally:
        trials.close()


def on_one_cpu(result: SearchResult, lab: Lab) -> SearchResult:
    """The ``result`` for a lab whose one CPU sends, forwards and counts, as in User Mode Linux: the most that could be
    sent, without loss, is then the machine's throughput, and no lower bound of it. With a second CPU, or with a sender
    on another machine, more might be offered; and what differs by more than ``NEAR`` was an accident."""
    full = [t.offered_rate_bps for t in result.trials if t.sender_short and t.loss_ratio <= LOSS_RATIO]
    alone = lab.shared_kernel and len(os.sched_getaffinity(0)) == 1
    if "generator_limited" not in result.flags or not alone or len(full) < 2 or max(full) > (1 + NEAR) * min(full):
        return result
    flags = result.flags - {"generator_limited"}
    return replace(result, rate_bps=max(full), interval_bps=(min(full), max(full)), flags=flags)


def found_rate(result: SearchResult, what: str, measured: Measured) -> float:
    """The rate that a search found (bit/s), or that it is known to reach at least, with a warning in ``measured``.

    A lower bound is the highest offered rate that passed, where no higher one failed or the generator was the limit.
    A lower rate that failed did so by accident, or by an earlier trial's queue; the search takes such a failure back,
    too. Raises MeasurementError where there is neither.
    """
    if "unstable" in result.flags:
        measured.warnings.append(f"{what} is unstable: the loss at one rate changed during the search")
    if value := result.confirmed_rate_bps or result.rate_bps:
        return value
    limited = "generator_limited" in result.flags
    passed_bps = max((trial.offered_rate_bps for trial in result.trials if trial.loss_ratio <= LOSS_RATIO), default=0.0)
    failed = any(trial.offered_rate_bps > passed_bps for trial in result.trials)
    if not passed_bps or (failed and not limited):
        raise MeasurementError(f"no {what}: {explain(result)}", **search_detail(result))
    why = "the generator could offer no more" if limited else "the search's time ended before a higher rate failed"
    measured.warnings.append(f"{what} is at least this: {why}")
    return passed_bps


def search_detail(result: SearchResult) -> dict[str, Any]:
    """A search as data for the trial's line: every trial of it, with what was offered and lost."""
    return {
        "interval_bps": list(result.interval_bps) if result.interval_bps else None,
        "confirmed_rate_bps": result.confirmed_rate_bps,
        "flags": sorted(result.flags),
        "trials": trial_rows(result.trials),
    }


def with_drops(detail: Mapping[str, Any], drops: Sequence[float]) -> dict[str, Any]:
    """The ``detail`` of a search, with the share of what each of its trials sent that the receiver's socket dropped."""
    trials = zip(detail["trials"], drops, strict=True)
    return {**detail, "trials": [trial | {"receiver_drop_ratio": round(share, 6)} for trial, share in trials]}


def trial_rows(trials: Sequence[SearchTrial]) -> list[dict[str, Any]]:
    """The trials of a search as data: what was offered in each, and lost."""
    return [
        {
            "offered_rate_bps": round(trial.offered_rate_bps),
            "duration_s": trial.duration_s,
            "loss_ratio": round(trial.loss_ratio, 6),
            "purpose": trial.purpose,
        }
        for trial in trials
    ]


def explain(result: SearchResult) -> str:
    """Why a search found no rate: its flags and what they mean, and the loss ratios (%) of its last three trials."""
    why = "; ".join(FLAGS.get(flag, flag) for flag in sorted(result.flags)) or "the search found none"
    return f"{why}; loss ratio {last_losses(result.trials) or 'not measured'}"


def last_losses(trials: Sequence[SearchTrial]) -> str:
    """The loss ratios (%) of the last three trials, in words; "" where there is no trial."""
    return ", ".join(f"{t.loss_ratio:.1%} at {t.offered_rate_bps / 1e6:.3g} Mbit/s" for t in trials[-3:])
