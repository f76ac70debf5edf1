"""Short visits to a tunnel that stands: slices of TCP and round trips, by two probes that stay between visits.

A slice of TCP is counted at the receiver between two marks, so that what waits in the sender's buffers counts for
nobody; the first tenth of a second, in which the queues fill again, is not counted. On a long path all of that takes
round trips: nothing is told of a window that has not been answered yet, and before the first transfer of a way there is
one that passes slow start, with what that overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError
from runner.lab.node.commands import Dialogue
from runner.lab.node.probing import ask_probe, probe, was_killed
from runner.lab.shape.site import TCP_PORTS
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

HTTP_PORT = TCP_PORTS[2]
HTTP_SERVER = f"host2:{HTTP_PORT}"  # the port that a bench frees for the web server

WARM_S = 0.1
FRESH_S = 0.4
WARM_RTTS, SLICE_RTTS, FRESH_RTTS = 2, 8, 12  # at least; slow start doubles its ten segments in each (RFC 6928)
PATIENCE_S = 40.0  # the probes give up before that, and say why


class Visits:
    """The two probes of one tunnel. After a visit that failed, new ones are started."""

    fresh_bps: float  # of TCP in the tunnel's first moments

    def __init__(self, near: Dialogue, far: Dialogue, rtt_s: float, failed: Callable[[], None]) -> None:
        self._near, self._far, self._rtt_s, self._failed = near, far, rtt_s, failed
        self._begun: set[tuple[str, int]] = set()  # ways and streams that are through slow start

    def tcp(
        self,
        slice_s: float,
        *,
        direction: str = "forward",
        streams: int = 1,
        payload: str = "random",
        rate_bps: float | None = None,
        control: str = "",
        meanwhile: Callable[[], object] = lambda: None,
    ) -> dict[str, Any]:
        """One transfer of ``slice_s`` seconds or SLICE_RTTS, as fast as it goes or at ``rate_bps``: ``bytes`` and
        ``seconds`` between the marks, ``carried_bytes`` of the whole visit, ``retransmits``, ``congestion_control``.
        ``control``: that of the streams, "" for the host's; ``meanwhile`` is called when it has begun. Raises
        MeasurementError."""
        how = {"direction": direction, "streams": streams, "payload": payload, "rate_bps": rate_bps, "control": control}
        how["paced"] = bool(self._rtt_s)
        if self._rtt_s and (direction, streams) not in self._begun:
            self._ask(lambda: None, do="tcp", warm_s=WARM_S, slice_s=FRESH_RTTS * self._rtt_s, **how)
        self._begun.add((direction, streams))
        slice_s, warm_s = max(slice_s, SLICE_RTTS * self._rtt_s), max(WARM_S, WARM_RTTS * self._rtt_s)
        return self._ask(meanwhile, do="tcp", warm_s=warm_s, slice_s=slice_s, **how)

    def exchanges(self, number: int) -> list[float]:
        """Times of one byte and its answer, ms, one after another. Raises MeasurementError."""
        times: list[float] = self._ask(lambda: None, do="rtt", exchanges=number)["ms"]
        return times

    def _ask(self, meanwhile: Callable[[], object], **question: Any) -> dict[str, Any]:
        try:
            return ask_probe(self._near, "visit", question, PATIENCE_S, meanwhile)
        except MeasurementError as error:
            far = self._far.poll()
            self._failed()
            if was_killed(far):
                raise InstrumentError(f"the probe visit died on the far host: {error}") from error
            raise


def visits(bench: Bench) -> Visits:
    """The visits of this tunnel. They begin at first use, and end with the tunnel or when a web server takes their
    port, so ask for them before each slice. Raises MeasurementError."""
    shared: Visits = bench.get_shared(
        "visits",
        lambda: _open_visits(bench.lab, bench.address, lambda: bench.forget("visits")),
        port=HTTP_SERVER,
    )
    return shared


@contextmanager
def _open_visits(lab: Lab, address: str, failed: Callable[[], None]) -> Iterator[Visits]:
    for host in (lab.host1, lab.host2):  # a connection that rests between its slices keeps its congestion window
        host.run("sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0")
        host.defer("sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=1")
    with (
        probe(lab.host2, "visit", "far", str(HTTP_PORT), ready="ready") as far,
        probe(lab.host1, "visit", "near", address, str(HTTP_PORT), ready="ready") as near,
    ):
        begun = Visits(near, far, lab.rtt_s, failed)
        # Not counted: a fresh tunnel is slower at first, one in TCP up to five times.
        fresh = begun.tcp(FRESH_S)
        begun.fresh_bps = 8 * fresh["bytes"] / fresh["seconds"]
        yield begun
