"""One failure caused on purpose, and the outage that the probe stream saw of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.data.errors import MeasurementError
from runner.data.trials import Event, LossGap, Timeline
from runner.design.profile import Profile
from runner.instruments.failures.loss import OneWay
from runner.instruments.failures.stream import Break, streams
from runner.instruments.result import Measured, measurement
from runner.lab.node import PATIENCE
from runner.lab.shape.site_to_site import Lab

FLOWING_WITHIN_S = 10.0
CALM_S = 0.3  # the stream before the failure: what its instruments' resolution is taken from
MOST_GAPS = 40  # a timeline keeps the longest


@dataclass(frozen=True)
class OutageWatch:
    """How a failure is watched: probes a second each way, when to give up, how long to look at least, and the random
    wait before it (up to ``phase_s``), so that no timer of a daemon is always met at the same moment. Seconds."""

    rate: float = 1000.0
    limit_s: float = 60.0
    look_s: float = 2.0
    phase_s: float = 1.0


def watch_of(profile: Profile, look_s: float = OutageWatch.look_s, phase_s: float = OutageWatch.phase_s) -> OutageWatch:
    """How failures are watched in a profile. A kernel that needs patience has one slow CPU: a tenth of the probes."""
    rate = profile.probe_rate / (10 if PATIENCE > 1 else 1)
    return OutageWatch(rate, profile.outage_limit_s, look_s, phase_s)


@dataclass(frozen=True)
class Outage:
    """What a failure cost. ``forward_s`` and ``reverse_s`` are loss-derived; ``recovered_s`` is how long after the
    failure the stream flowed steadily both ways again, None where it did not; ``resolution_s`` bounds all of them."""

    failed_s: float
    recovered_s: float | None
    forward_s: float
    reverse_s: float
    resolution_s: float
    late: int
    timeline: Timeline

    @property
    def worse_s(self) -> float:
        """The loss-derived outage of the direction that suffered more."""
        return max(self.forward_s, self.reverse_s)


def outage(
    lab: Lab,
    address: str,
    breaks: Break,
    watch: OutageWatch,
    rng: random.Random,
    ready: Callable[[], object] = lambda: None,
) -> Outage:
    """Let the stream flow, break something, and watch until it flows again or ``watch.limit_s`` are over.

    Raises MeasurementError where the stream does not even flow before the failure, what ``ready`` raises, which is
    asked just before it, and what ``breaks`` raises.
    """
    with streams(lab, address, watch.rate, FLOWING_WITHIN_S + watch.phase_s + watch.limit_s) as both:
        if both.flows_within(FLOWING_WITHIN_S, settled_s=CALM_S) is None:
            raise MeasurementError(f"the probe stream did not flow within {FLOWING_WITHIN_S:g} s, before any failure")
        time.sleep(rng.uniform(0, watch.phase_s))
        ready()
        failed_s = both.now()
        breaks(both.note)
        broken_s = both.now()  # seconds later, in a slow guest
        flowing_s = both.flows_within(watch.limit_s, failed_s)
        while flowing_s is not None and both.now() < broken_s + watch.look_s + lab.rtt_s:
            flowing_s = both.flows_within(watch.limit_s, both.now())
        both.note("the stream flows again" if flowing_s is not None else f"given up after {watch.limit_s:g} s")
        forward, reverse = both.end()
    seen = [*forward.gaps_after(failed_s), *reverse.gaps_after(failed_s)]
    last_s = max([gap.end_s for gap in seen], default=failed_s)
    return Outage(
        failed_s,
        None if flowing_s is None else max(0.0, last_s - failed_s),
        forward.outage_s(failed_s),
        reverse.outage_s(failed_s),
        max(1 / watch.rate, forward.pause_s, reverse.pause_s),
        forward.late + reverse.late,
        timeline(forward, reverse, watch.rate, both.events),
    )


def timeline(forward: OneWay, reverse: OneWay, rate: float, events: Sequence[Event]) -> Timeline:
    """The events and the longest gaps of both directions, each in its order."""
    all_gaps = [LossGap(direction="forward", start_s=g.start_s, end_s=g.end_s, lost=g.lost) for g in forward.gaps]
    all_gaps += [LossGap(direction="reverse", start_s=g.start_s, end_s=g.end_s, lost=g.lost) for g in reverse.gaps]
    longest = sorted(all_gaps, key=lambda gap: gap.lost, reverse=True)[:MOST_GAPS]
    kept = sorted(longest, key=lambda gap: (gap.start_s, gap.direction))
    return Timeline(rate=rate, events=list(events), gaps=kept, gaps_left_off=len(all_gaps) - len(kept))


def report_outages(metric: str, outages: Sequence[Outage], limit_s: float, **detail: Any) -> Measured:
    """The metric (ms) of one or more failures of a kind: the median of the worse direction's outage, all as samples.

    An outage that had not ended counts as long as it was watched. Where the median is such an outage, the value is
    marked as a lower bound: "no recovery" is a result. The resolution is in the detail.
    """
    samples = [round(outage.worse_s * 1e3, 2) for outage in outages]
    endless = sum(outage.recovered_s is None for outage in outages)
    median = float(np.median(samples))
    value = measurement(
        metric,
        median,
        samples,
        failures=len(outages),
        unrecovered=endless,
        at_least=2 * endless >= len(outages),  # then the median itself is one that had not ended
        resolution_ms=round(max(outage.resolution_s for outage in outages) * 1e3, 2),
        forward_ms=[round(outage.forward_s * 1e3, 2) for outage in outages],
        reverse_ms=[round(outage.reverse_s * 1e3, 2) for outage in outages],
        recovered_after_ms=[
            None if outage.recovered_s is None else round(outage.recovered_s * 1e3, 1) for outage in outages
        ],
        late=sum(outage.late for outage in outages),
        **detail,
    )
    measured = Measured([value], timelines=[outage.timeline for outage in outages])
    if endless:
        which = "no recovery" if len(outages) == 1 else f"{endless} of {len(outages)} failures: no recovery"
        measured.warnings.append(f"{which} within {limit_s:g} s")
    return measured
