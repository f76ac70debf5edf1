"""How evenly a load that was offered at one rate came in: what was lost second by second, the longest time in which
nothing came, and how late it came.

What is lost is told from what is late by the deficit: what had been offered by a moment, less what had come by then. A
queue makes it rise and fall again; a loss makes it rise for good. So the loss up to a moment is the least deficit from
then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.instruments.tools.generator import Arrived
from runner.search.settings import loss_bound

Array = NDArray[np.float64]
WINDOW_S = 0.25
BEHIND_S = 0.02  # a sender that has fallen behind by so much gives packets up, as generate.py does
LONGEST_START_S, HALVINGS = 0.3, 12  # from the counter's begin to the first packet, with no path; in search of it


@dataclass(frozen=True)
class Steadiness:
    """What a stretch of ``seconds`` was like. ``loss_by_second``: the share of what was sent in each second that never
    came. ``late_p99_s``, ``latest_s``: how much later than the least delayed packets others came, at least: where some
    were lost meanwhile, nobody knows which. ``bad_windows``: of the ``windows`` of WINDOW_S those in which more than
    ``loss_bound`` was lost or nothing came; in ``limited_windows`` it was the sender that fell short, or nobody looked,
    and they are never bad."""

    seconds: float
    loss_ratio: float
    loss_by_second: list[float] = field(default_factory=list)
    longest_gap_s: float = 0.0
    late_p99_s: float = 0.0
    latest_s: float = 0.0
    windows: int = 0
    bad_windows: int = 0
    limited_windows: int = 0

    @property
    def worst_second_loss_ratio(self) -> float:
        """The loss of the worst second."""
        return max(self.loss_by_second, default=0.0)


class _Course:
    """What had been offered and what had come, packets by seconds since the first packet was due."""

    def __init__(self, arrived: Arrived, rtt_s: float) -> None:
        self.seconds, self.per_s, self.sent = arrived.load.seconds, arrived.load.per_s, arrived.sent
        wanted = round(self.per_s * self.seconds)
        given_up = [(float(at), float(packets)) for at, packets in arrived.offered.get("forgotten", ())]
        rest = wanted - self.sent - sum(packets for _, packets in given_up)
        self.given_up = [*given_up, *([(self.seconds, rest)] if rest > 0 else [])]
        total = arrived.samples[-1][1] if arrived.samples else 0
        came = [(when, count / total * arrived.received) for when, count in arrived.samples if total]
        self.times, self.came = np.array(came, dtype=float).reshape(-1, 2).T
        self.start = self._start(LONGEST_START_S + rtt_s)
        self.times = self.times - self.start
        left = self.offered_by(self.times) - self.came
        end = max(0.0, self.sent - float(self.came[-1] if came else 0.0))
        # From each arrival on, and behind the last one.
        self.least = np.minimum.accumulate(np.append(left, end)[::-1])[::-1]

    def _start(self, longest_s: float) -> float:
        """When the first packet was due, by the counter's clock: the latest moment by which nothing came too early."""
        low_s, high_s = 0.0, longest_s
        for _ in range(HALVINGS):
            middle_s = (low_s + high_s) / 2
            early = self.came > self.offered_by(self.times - middle_s) + 1
            low_s, high_s = (low_s, middle_s) if early.any() else (middle_s, high_s)
        return low_s if self.times.size else 0.0

    def offered_by(self, at: Array) -> Array:
        """What had been sent by then, on time."""
        due = np.asarray(np.clip(at, 0.0, self.seconds) * self.per_s, dtype=float)
        for until_s, packets in self.given_up:
            due = due - packets * (at >= until_s)
        return due

    def lost_by(self, at: Array) -> Array:
        """What had been lost by then for good."""
        number = np.searchsorted(self.times, at, side="right")  # of the next arrival
        before = np.concatenate([[0.0], self.came])[number]
        return np.asarray(np.clip(np.minimum(self.offered_by(at) - before, self.least[number]), 0.0, None), dtype=float)

    @property
    def sender_short(self) -> list[tuple[float, float]]:
        """From when to when the sender fell short."""
        return [(until_s - packets / self.per_s - BEHIND_S, until_s) for until_s, packets in self.given_up]


def steadiness(arrived: Arrived, rtt_s: float = 0.0, path_loss_ratio: float = 0.0) -> Steadiness:
    """What came of a load of one rate, as time went by, on a path of this round trip and loss."""
    course = _Course(arrived, rtt_s)
    unseen = [(when - seconds - course.start, when - course.start) for when, seconds in arrived.unseen]
    short = course.sender_short
    late = _late(course)
    bad, limited = _windows(course, short, unseen, loss_bound(path_loss_ratio, course.per_s * WINDOW_S))
    return Steadiness(
        seconds=course.seconds,
        loss_ratio=1 - arrived.received / arrived.sent if arrived.sent else 1.0,
        loss_by_second=[round(float(ratio), 5) for ratio in _losses(course, _edges(course.seconds, 1.0))],
        longest_gap_s=round(_gap(course, [*short, *unseen]), 4),
        late_p99_s=late[0],
        latest_s=late[1],
        windows=len(_edges(course.seconds, WINDOW_S)) - 1,
        bad_windows=bad,
        limited_windows=limited,
    )


def detail(steady: Steadiness) -> dict[str, Any]:
    """What is stored beside the values."""
    return {
        "seconds": steady.seconds,
        "loss_by_second": steady.loss_by_second,
        "windows": steady.windows,
        "bad_windows": steady.bad_windows,
        "limited_windows": steady.limited_windows,
    }


def _edges(seconds: float, each_s: float) -> Array:
    return np.asarray(np.arange(round(seconds / each_s) + 1) * each_s, dtype=float)


def _losses(course: _Course, edges: Array) -> Array:
    """The share of what was sent between two edges that never came. What had left before the last edge is over then."""
    lost = course.lost_by(edges)
    lost[0], lost[-1] = 0.0, course.least[-1]
    sent = np.diff(course.offered_by(edges))
    ratios = np.divide(np.diff(lost), sent, out=np.zeros_like(sent), where=sent > 0)
    return np.asarray(np.clip(ratios, 0.0, 1.0), dtype=float)


def _windows(
    course: _Course, short: Sequence[tuple[float, float]], unseen: Sequence[tuple[float, float]], bound: float
) -> tuple[int, int]:
    """How many windows are bad, by more than this share lost, and how many are limited."""
    edges, bad, limited = _edges(course.seconds, WINDOW_S), 0, 0
    losses = _losses(course, edges)
    for begin, end, loss_ratio in zip(edges[:-1], edges[1:], losses, strict=True):
        if _common((begin, end), short) or _common((begin, end), unseen) > WINDOW_S / 2:
            limited += 1
        elif loss_ratio > bound or not ((course.times >= begin) & (course.times < end)).any():
            bad += 1
    return bad, limited


def _gap(course: _Course, excused: Sequence[tuple[float, float]]) -> float:
    """The longest time without an arrival while packets were sent, less what the sender or the counter explains."""
    times = np.concatenate([[0.0], course.times[course.times < course.seconds], [course.seconds]])
    gaps = np.diff(times)
    worth = np.flatnonzero(gaps > BEHIND_S)
    if not worth.size:
        return float(gaps.max())
    return max(float(gaps[at]) - _common((times[at], times[at + 1]), excused) for at in worth)


def _late(course: _Course) -> tuple[float, float]:
    """How late packets came, s: 99 % of them at most, and the latest."""
    if not course.times.size:
        return 0.0, 0.0
    before = np.concatenate([[0.0], course.came[:-1]])
    waiting = course.offered_by(course.times) - before - course.least[:-1]
    late = np.clip(waiting / course.per_s, 0.0, None)
    order = np.argsort(late)
    share = np.cumsum((course.came - before)[order]) / course.came[-1]
    p99 = late[order][min(int(np.searchsorted(share, 0.99)), late.size - 1)]
    return round(float(p99), 4), round(float(late.max()), 4)


def _common(span: tuple[float, float], others: Sequence[tuple[float, float]]) -> float:
    """How many seconds of the span one of the others covers."""
    covered, reached = 0.0, span[0]
    for begin, end in sorted(others):
        begin, end = max(begin, reached), min(end, span[1])
        if end > begin:
            covered, reached = covered + end - begin, end
    return covered
