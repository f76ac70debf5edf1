"""Loss-derived outage: from the probes that came to the gaps between them (RFC 6412, RFC 6413)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

CLOCKS_S = 0.05  # the stream's clock and the runner's are not further apart


@dataclass(frozen=True)
class Gap:
    """Probes that were lost or late in a row: their number, and when the first and the one after the last were sent.

    Seconds on the sender's clock. ``end_s`` is when the stream ended where nothing came any more.
    """

    start_s: float
    end_s: float
    lost: int


@dataclass(frozen=True)
class OneWay:
    """What one direction of the stream saw: ``sent`` probes, ``interval_s`` apart, and the gaps in what came.

    ``late`` probes came too late to be of use, and are in the gaps; ``pause_s`` is the sender's longest pause.
    """

    sent: int
    interval_s: float
    gaps: tuple[Gap, ...]
    late: int = 0
    pause_s: float = 0.0

    def gaps_after(self, start_s: float) -> tuple[Gap, ...]:
        """The gaps that end after ``start_s``; of one that began before it, the part afterwards."""
        return tuple(_cut(gap, start_s) for gap in self.gaps if gap.end_s > start_s)

    def outage_s(self, start_s: float) -> float:
        """Loss-derived outage from ``start_s`` on: probes lost over the rate at which they were offered."""
        return sum(gap.lost for gap in self.gaps_after(start_s)) * self.interval_s


def _cut(gap: Gap, start_s: float) -> Gap:
    """The part of ``gap`` after ``start_s``. A gap that began just before it stays whole, because the clocks differ."""
    if gap.start_s >= start_s - CLOCKS_S:
        return gap
    share = (gap.end_s - start_s) / (gap.end_s - gap.start_s)
    return replace(gap, start_s=start_s, lost=round(gap.lost * share))


def one_way(sender: dict[str, Any], receiver: dict[str, Any], interval_s: float, ahead_s: float = 0.0) -> OneWay:
    """The direction from one host to the other, from what runner/lab/probes/stream.py says on both.

    ``ahead_s``: how far the sender's clock is ahead of the clock in which the gaps are given.
    """
    runs = [[first, last, first_s - ahead_s, last_s - ahead_s] for first, last, first_s, last_s in receiver["runs"]]
    return OneWay(
        sender["sent"],
        interval_s,
        gaps(runs, sender["sent"], sender["ended_s"] - ahead_s, interval_s),
        receiver["late"],
        sender["pause_ms"] / 1e3,
    )


def gaps(runs: Sequence[Sequence[float]], sent: int, ended_s: float, interval_s: float) -> tuple[Gap, ...]:
    """The gaps between ``runs`` [first, last, sent_s of the first, sent_s of the last] of ``sent`` probes.

    A gap at the end reaches to ``ended_s``, when the last probe was sent. The ends of a gap are an interval away from
    the probes around it, so that a stream without loss has none. What was sent before the first that came is left out:
    the other host was not listening yet.
    """
    all_gaps = []
    expected, since_s = (int(runs[0][0]), runs[0][2] - interval_s) if runs else (0, -interval_s)
    for first, last, first_s, last_s in runs:
        if first > expected:
            all_gaps.append(Gap(round(since_s + interval_s, 4), round(first_s, 4), int(first) - expected))
        expected, since_s = int(last) + 1, last_s
    if sent > expected:
        all_gaps.append(
            Gap(round(since_s + interval_s, 4), round(max(ended_s, since_s) + interval_s, 4), sent - expected)
        )
    return tuple(all_gaps)
