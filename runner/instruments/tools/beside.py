"""What a load does to other traffic: small datagrams beside it, and how long each takes through the tunnel.

A probe begins when the load is in full flow.

On one machine both hosts have one clock, and a stamped datagram tells its one-way delay. Machines of their own have no
common clock: there an exchange of bytes beside the load tells round trips.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from runner.data.errors import MeasurementError
from runner.instruments.tools.between import Talker, talking
from runner.instruments.tools.generator import Generator, stamped_request
from runner.instruments.tools.visits import HTTP_PORT, visits
from runner.tunnel.bring_up import Bench

PATIENCE_S = 10.0
ECHO_PAUSE_S = 0.01  # so that a tenth of the packets of 10 Mbit/s are the exchange's


@dataclass(frozen=True)
class Delays:
    """The delays (ms) of those of ``sent`` datagrams that came. ``sent`` is 0 where nobody counts what is lost."""

    ms: Sequence[float]
    sent: int = 0
    came: int = 0

    def values(self) -> dict[str, float]:
        """The median and the 95th percentile, ms; nothing where none came."""
        if not self.ms:
            return {}
        p50, p95 = np.percentile(self.ms, (50, 95))
        return {"delay_p50_ms": round(float(p50), 4), "delay_p95_ms": round(float(p95), 4)}


class Beside(Protocol):
    """A probe that runs beside a load."""

    told: str  # what its delays are

    def begin(self, seconds: float, wait_s: float = 0.0) -> None:
        """Begin, in ``wait_s``, and do not wait for it."""

    def finish(self, seconds: float) -> int:
        """Wait for the end of what was begun; how many datagrams were sent."""

    def delays(self) -> Delays:
        """What came of it. Raises MeasurementError."""


class StampedSender:
    """Stamped datagrams from the near host, 625 a second of 228 bytes, and the counter to which they go."""

    told = "one-way, of stamped datagrams"

    def __init__(self, sender: Talker, counter: Generator) -> None:
        self._sender, self._counter, self._sent, self._since = sender, counter, 0, 0

    def begin(self, seconds: float, wait_s: float = 0.0) -> None:
        self._since = time.time_ns()
        self._sender.tell(stamped_request(self._counter.address, seconds, wait_s))

    def finish(self, seconds: float) -> int:
        offered = self._sender.hear_object(seconds + PATIENCE_S)
        if "error" in offered:
            raise MeasurementError(f"the sender on {self._sender.node.name} could not send: {offered['error']}")
        self._sent = int(offered["sent"])
        return self._sent

    def delays(self) -> Delays:
        came = [stamp for stamp in self._counter.stamps(self._sent) if stamp[1] >= self._since]
        ms = [(came_ns - sent_ns) / 1e6 for _, sent_ns, came_ns in came]
        return Delays(ms, self._sent, min(len(came), self._sent))


class Echo:
    """An exchange of single bytes over a connection of its own, one after another."""

    told = "round trips: the two hosts have no common clock"

    def __init__(self, near: Talker) -> None:
        self._near, self._ms = near, list[float]()

    def begin(self, seconds: float, wait_s: float = 0.0) -> None:
        self._near.tell(json.dumps({"do": "rtt", "seconds": seconds, "pause_s": ECHO_PAUSE_S}))

    def finish(self, seconds: float) -> int:
        found = self._near.hear_object(seconds + PATIENCE_S)
        self._ms = found.get("ms", [])  # an error is of the tunnel: no byte came back
        return 0

    def delays(self) -> Delays:
        return Delays(self._ms)


class Nothing:
    """No probe: the VPN carries TCP connections only, and stamped ones are datagrams."""

    told = ""

    def begin(self, seconds: float, wait_s: float = 0.0) -> None:
        pass

    def finish(self, seconds: float) -> int:
        return 0

    def delays(self) -> Delays:
        return Delays([])


def echoing(bench: Bench) -> Echo:
    """The exchange of this tunnel. Raises MeasurementError."""
    visits(bench)  # whose far probe answers

    @contextmanager
    def open_echo() -> Iterator[Echo]:
        with talking(bench.lab.host1, "visit", "near", bench.address, str(HTTP_PORT), ready="ready") as near:
            yield Echo(near)

    shared: Echo = bench.get_shared("echo beside", open_echo)
    return shared


def stamping(bench: Bench, counter: Generator) -> StampedSender:
    """The sender of stamped datagrams of this tunnel, which are received by ``counter``. Raises MeasurementError."""

    counter.stamps(0)  # what is late of the last time
    sender = bench.get_shared("stamped sender", lambda: talking(bench.lab.host1, "generate", ready="ready"))
    return StampedSender(sender, counter)
