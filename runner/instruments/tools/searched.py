"""A throughput search as a measurement: each of its trials is a slice."""

from __future__ import annotations

from collections.abc import Generator

from runner.data.errors import MeasurementError
from runner.instruments.instrument import Found, Go
from runner.search import Loss, Measure, SearchResult
from runner.search.settings import UdpSearch
from runner.search.steps import steps

Searching = Generator[Found, Go, SearchResult]


def searched(
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
