"""How many times as much measuring decides what an interval leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable


def times_until_decided(needed: Callable[[float], float], rounds: int = 12) -> float:
    """How many times as much measuring decides, 1 or more. ``needed``: the same, with the degrees of freedom that so
    many times as many blocks have: more blocks have more degrees of freedom, and need fewer blocks. Each of the
    ``rounds`` of the search halves what is left of its error."""
    times = 1.0
    for _ in range(rounds):
        times = math.sqrt(times * max(1.0, needed(times)))
    return times
