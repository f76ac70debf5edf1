"""What a long watch of a tunnel saw."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Watched:
    """A tunnel that carried datagrams at ``rate_bps`` for ``seconds``."""

    rate_bps: float
    seconds: float
    windows: int
    bad_windows: int
    longest_gap_s: float
    worst_second_loss_ratio: float
    loss_ratio: float
    limited_windows: int = 0
