"""What a counter's figures say of the packets that arrived: how many they were, when they came, and how their delay
changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.data.errors import MeasurementError

Array = NDArray[np.float64]
FEWEST_LOOKS = 8  # that tell two lines from one
LEAST_BURST = 0.1  # of a load's time; and of the load, what is missing then
CLOSE = 0.015  # of the load
GRACE_S = 0.01  # what comes later than this after the sender's time has waited in a queue


def check_counts(counts: Mapping[str, Any]) -> None:
    """Refuse a counter whose interface and whose packet filter disagree: one of them did not count."""
    filtered = sum(counts[name][0] for name in ("first", "rest", "stamped", "beside"))
    least, most = counts["interface"]
    if not least - 20 - 0.005 * filtered <= filtered <= most + 20 + 0.005 * filtered:
        raise MeasurementError(
            f"the far host's interface received {least} to {most} packets, its filter counted {filtered}: do not agree"
        )


def whole_packets(first: int, first_bytes: int, rest: int, mean_bytes: float, v6: bool = False) -> int:
    """Packets among what was counted, which are of ``mean_bytes`` on the mean.

    ``first`` counts what has the UDP header, with ``first_bytes``; ``rest`` later fragments. A tunnel may hand several
    datagrams over as one (UDP generic receive offload), whose headers are counted once: the payload tells how many. Of
    a mixture of lengths that holds if what is lost has them all; where more have come than that, all of them were
    handed over one by one.
    """
    if rest:
        return min(first, round(rest / max(1, round(rest / first)))) if first else 0
    headers = 48 if v6 else 28
    payload = mean_bytes - headers
    return max(first, round((first_bytes - headers * first) / payload)) if payload else first


def arrived_by(samples: Sequence[Sequence[float]], seconds: float) -> float:
    """The share of all that came within ``seconds`` (and GRACE_S) of the first. 0 to 1.

    ``samples``: times in s, and how much had come by then. A tunnel that is offered more than it forwards fills its
    queues and empties them afterwards; what comes then was not forwarded at the offered rate.
    """
    if not samples:
        return 0.0
    total = samples[-1][1]
    began = next(when for when, count in samples if count > 0.002 * total)
    in_time = [count for when, count in samples if when <= began + seconds + GRACE_S]
    return in_time[-1] / total


def by_then(samples: Sequence[Sequence[float]], seconds: float) -> float:
    """The share of all that came within ``seconds`` of the first, linear between looks. 0 to 1."""
    if not samples:
        return 0.0
    total = samples[-1][1]
    began = next(when for when, count in samples if count > 0.002 * total)
    times, counts = zip(*samples, strict=True)
    return float(np.interp(began + seconds, times, counts)) / total


def sustained_share(samples: Sequence[Sequence[float]], seconds: float, arrived_ratio: float) -> float | None:
    """The share of an even load that still came when a burst had passed: a policer's bucket or a machine's credit let
    the first part through whole. None where the load does not show that.

    ``samples``: times in s, and how much had come by then; ``arrived_ratio``: of the load, what came. What came is
    taken for two straight lines, the first of which is the load itself.
    """
    if len(samples) < FEWEST_LOOKS:
        return None
    (began, first), total = samples[0], samples[-1][1]
    times = np.array([(when - began) / seconds for when, _ in samples])
    came = np.array([(count - first) / total * arrived_ratio for _, count in samples])
    in_time = times <= 1.0
    times, came = times[in_time], came[in_time]
    alike = _distance(came - times * float(came @ times) / max(float(times @ times), 1e-9))
    found = [_two_lines(times, came, end) for end in times[(times >= LEAST_BURST) & (times <= 1 - LEAST_BURST)]]
    apart, share = min(found, default=(math.inf, 1.0))
    return share if apart < CLOSE and apart < alike / 3 and share < 1 - LEAST_BURST else None


def _two_lines(times: Array, came: Array, end: float) -> tuple[float, float]:
    """How far what came is from the load itself up to ``end`` and an even share of it then; and that share."""
    then = np.maximum(times - end, 0.0)
    first = np.minimum(times, end)
    share = float((came - first) @ then) / max(float(then @ then), 1e-9)
    return _distance(came - first - share * then), share


def _distance(rest: Array) -> float:
    return float(np.sqrt(np.mean(rest**2)))


def variations_ms(stamps: Sequence[tuple[int, int, int]]) -> list[float]:
    """|D| (ms) of datagrams in the order in which they came: number, when sent, when come, in ns."""
    transits = [came - sent for _, sent, came in stamps]
    return [abs(b - a) / 1e6 for a, b in pairwise(transits)]
