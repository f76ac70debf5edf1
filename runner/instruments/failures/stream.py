"""The probe stream through the tunnel, both ways, watched while something is broken on purpose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError
from runner.data.trials import Event
from runner.instruments.failures.loss import OneWay, one_way
from runner.lab.node import PATIENCE
from runner.lab.node.commands import Dialogue
from runner.lab.node.lines import json_of
from runner.lab.node.probing import hear, probe, tell
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab

PORT = "5210"
LATE_S = 0.4  # a datagram so much slower than the fastest is of no use any more: ITU-T G.114, the bound for planning
STEADY = 0.5  # of what was sent in a status period must have come for the stream to flow in it
SETTLED_S = 1.0  # and a round trip: so long it must flow before it has recovered
SAYS_WITHIN_S = 60.0 * PATIENCE  # it says something ten times a second
PROBE_LIMIT_S = 60.0  # more than the watched time, after which the probes end by themselves


@dataclass
class TwoWayStream:
    """Both directions: what the two probes say while they run, and the events meanwhile, in the stream's seconds."""

    names: tuple[str, str]
    probes: tuple[Dialogue, Dialogue]
    rate: float
    ahead_s: float  # how much earlier the far host began: its clock shows so much more
    rtt_s: float = 0.0  # of the path: what was on its way comes for as long after a failure
    started: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)

    def now(self) -> float:
        """Seconds since the stream began."""
        return time.monotonic() - self.started

    def note(self, what: str) -> None:
        """An event, now."""
        self.events.append(Event(at_s=round(self.now(), 4), what=what))

    def flows_within(self, limit_s: float, since_s: float = 0.0, settled_s: float = SETTLED_S) -> float | None:
        """When the stream began to flow both ways for ``settled_s`` and a round trip, not before ``since_s``; None if
        it did not do so until ``limit_s`` after ``since_s``. Seconds of the stream; known to 100 ms."""
        steady_since, settled_s = None, settled_s + self.rtt_s
        while True:
            statuses = [self._status(which) for which in (0, 1)]
            at_s = min(status[0] for status in statuses)
            if at_s - 0.1 < since_s:
                continue
            (_, sent_here, came_here), (_, sent_there, came_there) = statuses
            if came_there >= STEADY * sent_here and came_here >= STEADY * sent_there:
                steady_since = at_s if steady_since is None else steady_since
                if at_s - steady_since >= settled_s:
                    return steady_since
            else:
                steady_since = None
            if at_s > since_s + limit_s and steady_since is None:
                return None

    def end(self) -> tuple[OneWay, OneWay]:
        """Stop both probes. Returns what each direction saw: forward (from the first host), then reverse."""
        for which in (0, 1):
            tell(self.probes[which], "stream", "end")
        near, far = self._read_report(0), self._read_report(1)
        if not near["came"] or not far["came"]:
            raise MeasurementError("not one probe came through the tunnel, one way or the other")
        return one_way(near, far, 1 / self.rate), one_way(far, near, 1 / self.rate, self.ahead_s)

    def _line(self, which: int) -> str:
        return hear(self.probes[which], "stream", SAYS_WITHIN_S)

    def _status(self, which: int) -> tuple[float, int, int]:
        line = self._line(which)
        if line.startswith("{"):
            raise MeasurementError(f"the probe stream ended on {self.names[which]}: it was to last longer")
        try:
            at_s, sent, came = line.split()
            return float(at_s), int(sent), int(came)
        except ValueError:
            raise no_status(self.names[which], line) from None

    def _read_report(self, which: int) -> dict[str, Any]:
        within = time.monotonic() + SAYS_WITHIN_S
        while not (line := self._line(which)).startswith("{") and time.monotonic() < within:
            pass
        try:
            report = json_of(line)
        except ValueError:
            report = None
        if not isinstance(report, dict):
            raise no_status(self.names[which], line)
        return report


def no_status(name: str, line: str) -> InstrumentError:
    """The error about what no stream says."""
    return InstrumentError(f"the probe stream on {name} says {line[:80]!r}, which is no answer")


@contextmanager
def streams(lab: Lab, address: str, rate: float, watched_s: float) -> Iterator[TwoWayStream]:
    """``rate`` datagrams a second from the first host to ``address``, the far host, and as many back.

    ``watched_s``: how long they will be needed at most. Raises MeasurementError where a probe does not start.
    """
    limit = str(watched_s * PATIENCE + PROBE_LIMIT_S)
    how = (PORT, str(rate), str(LATE_S), limit, f"{lab.rtt_s:g}")
    back = lab.sites[0].host_ipv6 if ip_version(address) == 6 else lab.sites[0].host_address
    with probe(lab.host2, "stream", back, *how, ready="streaming") as far:
        began = time.monotonic()
        with probe(lab.host1, "stream", address, *how, ready="streaming") as near:
            names, ahead_s = (lab.host1.name, lab.host2.name), time.monotonic() - began
            yield TwoWayStream(names, (near, far), rate, ahead_s, lab.rtt_s)


Break = Callable[[Callable[[str], None]], object]  # does the damage, and tells of each step
