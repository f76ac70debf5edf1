"""How often a run repeats, and after how many repetitions it looks at what is decided.

Each look at pairs makes every verdict stricter, so that a call has six of these at most, with O'Brien and Fleming's
bounds."""

from __future__ import annotations

import math

INITIAL_REPETITIONS = 3  # with --until-significant: before them, little is known of the spread
MOST_REPETITIONS = 30  # with --until-significant, where no deadline is given
GROWTH = 1.6  # from one look to the next, in repetitions: 3, 5, 8, 13, 21, 30
INSTANCE_S = 180.0  # of a long deadline, to each tunnel of a VPN: more rounds in the same ones would tell little more


def instances(deadline_s: float, each_s: float = INSTANCE_S) -> int:
    """How many tunnels of each VPN, one after another, a deadline has time for, ``each_s`` seconds of it for each."""
    return min(MOST_REPETITIONS, 1 + int(deadline_s / each_s))


def next_look(repetitions: int, most: int) -> int:
    """The number of repetitions after which to look again, having looked after so many."""
    return min(max(repetitions + 1, most), max(repetitions + 1, math.ceil(GROWTH * repetitions)))
