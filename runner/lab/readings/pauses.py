"""Did this process stand still? Whoever stops it (SIGSTOP, a frozen control group), suspends the machine or pauses the
virtual one makes a pause that is in every time that was being measured.

A thread looks at the clock that counts suspended time, too (CLOCK_BOOTTIME, clock_gettime(2)), ten times a second. The
clocks of a lab's other machines do not count what they slept, and are compared with this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from runner.data.errors import InstrumentError
from runner.lab.node import PATIENCE

EVERY_S = 0.1
LEAST_S = 1.0 * PATIENCE  # a busy machine lets a thread wait for some tenths of a second
CLOCK_ERROR = 1e-3  # of two clocks, as a share of the time; they are slewed by 5e-4 at most (adjtimex(2))


def boottime() -> float:
    """Seconds since boot, those in which the machine was suspended among them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Pauses:
    """How long this process stood still since the first question."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: float | None = None
        self._sum_s = 0.0

    def seconds(self) -> float:
        """Seconds so far; pauses below LEAST_S are none."""
        with self._lock:
            if self._last is None:
                threading.Thread(target=self._look, name="pauses", daemon=True).start()
            now, last = self._clock(), self._last
            if last is not None and now - last > LEAST_S:
                self._sum_s += now - last
            self._last = now
            return self._sum_s

    def refuse(self, before_s: float) -> None:
        """Raise InstrumentError where it stood still since it answered ``before_s``."""
        if (paused_s := self.seconds() - before_s) > 0:
            raise InstrumentError(
                f"vpneval or the machine stood still for {paused_s:.1f} s while this was measured: it was stopped or "
                "suspended"
            )

    def _look(self) -> None:
        while True:
            time.sleep(EVERY_S)
            self.seconds()


PAUSES = Pauses()


@dataclass
class FarClock:
    """How long another machine stood still, as its clock stayed behind ours."""

    stood_still_s: float = 0.0
    _last: tuple[float, float] | None = None  # when it was heard, and how far ours was ahead of it then at the most

    def saw(self, asked_s: float, its_s: float, heard_s: float) -> None:
        """Note that its clock showed ``its_s`` at a time between ``asked_s`` and ``heard_s`` of ours. Only what a slow
        answer does not explain, and is above LEAST_S, is a pause."""
        if self._last is not None:
            before_s, ahead_s = self._last
            behind_s = asked_s - its_s - ahead_s
            if behind_s > LEAST_S + CLOCK_ERROR * (heard_s - before_s):
                self.stood_still_s += behind_s
        self._last = heard_s, heard_s - its_s
