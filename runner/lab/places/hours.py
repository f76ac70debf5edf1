"""The hours in which a site lab may measure: "01:00-05:00", also over midnight, by this machine's clock; or by that of
a zone: "01:00-05:00 Europe/Berlin"."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

FORM = r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d( [A-Za-z][\w+-]*(/[A-Za-z][\w+-]*)*)?$"
ZONE_AT = len("01:00-05:00 ")
NAP_S = 30.0  # so that a clock that is set meanwhile is noticed


@dataclass(frozen=True)
class Hours:
    """``between``: empty for all day. ``clock``, ``sleep``: a test gives its own."""

    between: str = ""
    clock: Callable[[], datetime] | None = None
    sleep: Callable[[float], None] = time.sleep

    def now(self) -> datetime:
        """The time, in the zone of the hours: as that zone's clocks show it."""
        zone = self.between[ZONE_AT:]
        return self.clock() if self.clock else datetime.now(ZoneInfo(zone) if zone else None)

    @property
    def zone(self) -> str:
        """The name of the zone now, as CET."""
        now = self.now()
        return f"{now if now.tzinfo else now.astimezone():%Z}"

    def opens_in_s(self) -> float:
        """Seconds until the hours begin; 0 within them."""
        begin, _ = self._ends()
        return 0.0 if self._is_within() else (begin - self._second_of_day()) % 86400

    def left_s(self) -> float:
        """Seconds until the hours end; 0 outside of them, infinite where they are all day."""
        if not self.between:
            return math.inf
        return (self._ends()[1] - self._second_of_day()) % 86400 if self._is_within() else 0.0

    def wait(self, say: Callable[[str], None], need_s: float = 0.0) -> None:
        """Wait until the hours have begun and ``need_s`` seconds of them are left, or all of them if they are shorter;
        ``say`` is told until when."""
        if not self.between:
            return
        begin, end = self._ends()
        if self._is_within() and self.left_s() < min(need_s, (end - begin) % 86400):
            self._wait(say, self.left_s() + (begin - end) % 86400, f"what comes next takes {need_s / 60:.0f} min")
        elif (left_s := self.opens_in_s()) > 0:
            self._wait(say, left_s, "tests run in these hours only")

    def _wait(self, say: Callable[[str], None], left_s: float, why: str) -> None:
        until = self.now() + timedelta(seconds=left_s)
        say(f"vpneval waits until {until:%Y-%m-%d %H:%M} {self.zone} (--between {self.between}): {why}. Ctrl-C ends it")
        while (rest_s := (until - self.now()) / timedelta(seconds=1)) > 0:
            self.sleep(min(rest_s, NAP_S))

    def _second_of_day(self) -> float:
        now = self.now()
        return (now - now.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(seconds=1)

    def _ends(self) -> tuple[int, int]:
        if not self.between:
            return 0, 0
        numbers = [int(number) for number in re.findall(r"\d+", self.between[:ZONE_AT])]
        begin, end = ((hour * 60 + minute) * 60 for hour, minute in (numbers[:2], numbers[2:]))
        return begin, end

    def _is_within(self) -> bool:
        begin, end = self._ends()
        at = self._second_of_day()
        return begin <= at < end if begin < end else at >= begin or at < end


def validate_hours(between: str) -> str:
    """The same hours. Raises ValueError for what is none, and for an unknown zone."""
    if not re.fullmatch(FORM, between):
        raise ValueError(f"must be hours like 01:00-05:00, or '01:00-05:00 Europe/Berlin', not {between!r:.60}")
    try:
        ZoneInfo(between[ZONE_AT:] or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = between[ZONE_AT:]
        raise ValueError(f"has the time zone {zone!r:.60}, which this machine does not know (package tzdata)") from None
    return between
