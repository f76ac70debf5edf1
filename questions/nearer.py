"""Is a third build nearer to the first or to the second? A search for the commit that made a VPN slower asks this of
each commit, whose build takes turns with a good one and a bad one.

"Is it worse than the good one?" has no answer for a commit that is as good: nothing proves that there is no difference.
Each commit lies on one side of the middle between both, and half of their distance tells which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import scipy

from questions.compare.builds import builds_of
from runner.data.kinds import Strict
from runner.data.trials import Cell
from runner.design.question import Evidence, Going, Question, Said
from runner.evidence.estimates import RoundValues, estimate_pair
from runner.evidence.model import Blocks
from runner.ranking.basis import bases

LEVEL = 0.05  # of a build on the wrong side, in all looks together
BUILDS = 3


class Side(Strict):
    """On which side of the middle between the first and the second build the third one is, in the metric that tells it
    best; ``ratio``: its value over that of the middle. None: not known yet."""

    metric: str = ""
    ratio: float | None = None
    nearer_to: Literal["first", "second"] | None = None


class Nearer(Question[Side]):
    """Of the builds of one VPN: the first, the second, and the one that is asked about."""

    name = "nearer"
    looks_at = (0.06, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8)
    leads = False

    def judge(self, evidence: Evidence) -> Side:
        """The side. All looks have the same level: who is far from the middle is not found on its other side."""
        run = evidence.run
        names = next((names for names in builds_of(run).values() if len(names) == BUILDS), None)
        asked = {name for experiment in run.experiments for name in experiment.metrics}
        level, surest, side = LEVEL / (len(self.looks_at) + 1), math.inf, Side()
        for basis in bases(run, evidence.trials) if names else ():
            for metric in basis.values.keys() & asked:
                first, second, third = (basis.values[metric].get(name, {}) for name in names or ())
                estimate, apart = estimate_pair(third, _middle_of(first, second)), estimate_pair(second, first)
                if not estimate or not apart or not estimate.error:
                    continue
                chance = 2 * float(scipy.special.stdtr(estimate.freedom, -abs(estimate.centre) / estimate.error))
                if chance < surest:
                    same = (estimate.centre > 0) == (apart.centre > 0)
                    known: Literal["first", "second"] = "second" if same else "first"
                    surest, ratio = chance, math.exp(estimate.centre)
                    side = Side(metric=metric, ratio=ratio, nearer_to=known if chance <= level else None)
        return side

    def going(self, evidence: Evidence, judgement: Side, cells: Sequence[Cell], left_s: float) -> Going:
        """All cells, until the side is known."""
        known = judgement.nearer_to is not None
        return Going([] if known else cells, [] if known else ["the side of the build"], tests_pairs=False)

    def longer_s(self, evidence: Evidence, judgement: Side) -> float | None:
        """Not known, unless the side is."""
        return 0.0 if judgement.nearer_to else None

    def tell_open(self, evidence: Evidence, judgement: Side) -> str:
        """The side, in a sentence."""
        if judgement.nearer_to is None:
            return "The third build cannot be told from the middle between the first and the second."
        return f"The third build is nearer to the {judgement.nearer_to} one."

    def say(self, judgement: Side, where: str) -> Said | None:
        """Nothing: who searches reads the side."""
        return None


def _middle_of(a: Blocks, b: Blocks) -> Mapping[int, float]:
    """The geometric mean of both, round by round; empty where they have no rounds."""
    shared = a.keys() & b.keys()
    if not isinstance(a, RoundValues) or not isinstance(b, RoundValues):
        return {}
    if not shared or min(min(a[block], b[block]) for block in shared) <= 0:
        return {}
    return RoundValues({block: math.sqrt(a[block] * b[block]) for block in sorted(shared)}, a.instances)
