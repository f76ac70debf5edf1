"""What several runs say together of one claim.

Tries are counted together. Else each run has its estimate, whose error its 95 % interval tells. Where the runs agree
(Cochran's Q, Biometrics 10, 1954; DIFFER, because few runs seldom show that they differ), their estimates are weighted
by the inverse of their variances: the mean of what holds in these runs (Rice, Higgins and Lumley, J. R. Statist. Soc. A
181, 2018). Where they differ, the interval holds that of every run, so that the claim has a verdict where each run by
itself gives it (Benjamini and Heller, Biometrics 64, 2008). It is about the machines of these runs, and about no others
(decision 0122).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import scipy  # loads scipy.special at its first use

from runner.evidence.intervals import CONFIDENCE, Array
from runner.papers.claims import all_of, decide, opposite
from runner.papers.findings import BOUNDS, Judgement
from runner.papers.shares import share_of

DIFFER = 0.10  # the chance of so large a Q, below which runs differ
LEAST_ERROR = 1e-6  # of an estimate whose repetitions are all equal
NORMAL = float(scipy.special.ndtri((1 + CONFIDENCE) / 2))


def pool(judged: Sequence[Judgement]) -> Judgement:
    """What these judgements of one claim, each of a run, say together. Those without an interval say nothing beside
    one that has it."""
    told = [one for one in judged if one.parts or (one.low is not None and one.verdict != "incomparable")]
    if len(told) < 2:
        return [*told, *judged][0]
    first, systems = told[0], [system for one in told for system in one.systems]
    if first.parts:
        names = dict.fromkeys(name for one in told for name in one.parts)
        parts = {name: [one.parts[name] for one in told if name in one.parts] for name in names}
        pooled = all_of({name: partial(pool, of_part) for name, of_part in parts.items()})
    elif first.tried and first.between:
        successes, tries = (sum(number) for number in zip(*[one.tried for one in told if one.tried], strict=True))
        pooled = share_of(successes, tries, first.between)
    else:
        pooled = _weigh(told)
    update = {"published": first.published, "published_range": first.published_range, "unit": first.unit}
    pooled = pooled.with_systems(*systems).model_copy(update=update)
    return opposite(pooled) if first.opposed else pooled


def _weigh(judged: Sequence[Judgement]) -> Judgement:
    """One judgement of the runs' estimates."""
    logarithms = all(one.low is not None and one.low > 0 for one in judged)
    ends = np.array([(one.value, one.low, one.high) for one in judged], dtype=float)
    values, lows, highs = (np.log(ends) if logarithms else ends).T
    weights = np.maximum((highs - lows) / (2 * NORMAL), LEAST_ERROR) ** -2.0
    members = any(one.members for one in judged)  # the same VPNs in every run: no weight makes more of them
    apart = not members and runs_differ(values, weights)
    if apart or members:
        made = float(values.mean()), float(lows.min()), float(highs.max())
    else:
        centre, half = float(np.average(values, weights=weights)), NORMAL * float(weights.sum()) ** -0.5
        made = centre, centre - half, centre + half
    value, low, high = map(float, np.exp(made)) if logarithms else made
    may = [ends for one in judged for ends, sign in BOUNDS.items() if sign == one.bound]
    open_ends = any(lower for lower, _ in may), any(higher for _, higher in may)
    pooled = decide(value, low, high, judged[0].between or (0.0, np.inf), may=open_ends)
    update = {"apart": apart, "members": members, "longer": None if apart or members else pooled.longer}
    return pooled.model_copy(update=update | {"part": judged[0].part * (len({one.part for one in judged}) == 1)})


def runs_differ(values: Array, weights: Array) -> bool:
    """Are the estimates further apart than their errors, whose inverse squares the ``weights`` are, let them be?"""
    squares = float((weights * (values - np.average(values, weights=weights)) ** 2).sum())
    return float(scipy.special.chdtrc(len(values) - 1, squares)) < DIFFER
