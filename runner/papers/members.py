"""What a finding claims of a kind of VPN: means of groups, with an interval over the members."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np
import scipy  # loads scipy.stats at its first use

from runner.papers.claims import decide
from runner.papers.findings import Blocks, Judgement, NotMeasured, open_ends

DRAWS, SEED = 10_000, 1  # of the bootstrap, which is the same for the same data
ALONE = "a group of one VPN has no interval over its members"
Group = Mapping[str, Blocks]  # VPN -> block -> value


def group_ratio(a: Group, b: Group, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that the mean of the VPNs ``a`` over that of the VPNs ``b`` lies ``between`` two bounds.

    The interval is over the members: the bootstrap draws each group anew, with replacement, because the claim is about
    a kind of VPN, and other members have another mean (Efron, Tibshirani: An Introduction to the Bootstrap, 1993).
    Raises NotMeasured where a group is empty."""
    if not a or not b:
        raise NotMeasured("a group has no member")
    means = [[fmean(blocks.values()) for blocks in group.values()] for group in (a, b)]
    low, high = interval(*means)
    open_to = [[value for blocks in group.values() for value in blocks.values()] for group in (a, b)]
    judged = decide(fmean(means[0]) / fmean(means[1]), low, high, between, may=open_ends(*open_to))
    reason = f"{', '.join(a)} to {', '.join(b)}: {ALONE if low is None else judged.reason}"
    return judged.model_copy(update={"published": published, "longer": None, "members": True, "reason": reason}).of(
        *a, *b
    )


def group_mean(a: Group, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that the mean of the VPNs ``a`` lies ``between`` two bounds, with the same interval over the members.

    Raises NotMeasured where there is none."""
    if not a:
        raise NotMeasured("the group has no member")
    means = [fmean(blocks.values()) for blocks in a.values()]
    low, high = interval(means)
    judged = decide(fmean(means), low, high, between)
    reason = f"{', '.join(a)}: {ALONE if low is None else judged.reason}"
    return judged.model_copy(update={"published": published, "longer": None, "members": True, "reason": reason}).of(*a)


def interval(*groups: list[float]) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of a group's mean, or of one's over another's, each drawn anew; None where one has a single
    member."""
    if min(map(len, groups)) < 2:
        return None, None

    def ratio(*drawn: np.ndarray, axis: int) -> np.ndarray:
        means: list[np.ndarray] = [of_group.mean(axis=axis) for of_group in drawn]
        return means[0] if len(means) == 1 else np.divide(*means)

    ends = scipy.stats.bootstrap(
        groups, ratio, vectorized=True, method="percentile", n_resamples=DRAWS, random_state=SEED
    ).confidence_interval
    return float(ends.low), float(ends.high)
