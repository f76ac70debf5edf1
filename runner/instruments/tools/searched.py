"""A throughput search as a measurement: each of its trials is a slice."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import replace

from runner.data.errors import MeasurementError
from runner.instruments.instrument import Found, Go
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss, Measure, SearchResult
from runner.search.bracket import NEAR
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.search.steps import steps

Searching = Generator[Found, Go, SearchResult]


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
