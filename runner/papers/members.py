"""What a finding claims of a kind of VPN: means of groups, with an interval over the members."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, geometric_mean

import numpy as np

from runner.evidence.estimates import Estimate
from runner.evidence.intervals import standard_errors
from runner.evidence.stats import compare_independent
from runner.papers.claims import decide
from runner.papers.findings import Blocks, Data, Ends, Judgement, NotMeasured, open_ends

ALONE = "a group of one VPN has no interval over its members"
Group = Mapping[str, Blocks]  # VPN -> block -> value


def group_ratio(data: Data, a: Group, b: Group, between: Ends, published: float | None = None) -> Judgement:
    """The claim that the mean of the VPNs ``a`` over that of the VPNs ``b`` lies ``between`` two bounds.

    The interval is over the members, because the claim is about a kind of VPN, and other members have another mean:
    Welch's, of the members' logarithms, whose means are geometric. A bootstrap of two to six members covers three
    quarters of what it says. Raises NotMeasured where a group is empty."""
    if not a or not b:
        raise NotMeasured("a group has no member")
    first, second = ([geometric_mean(blocks.values()) for blocks in group.values()] for group in (a, b))
    ratio, _ = compare_independent(second, first)
    open_to = [[value for blocks in group.values() for value in blocks.values()] for group in (a, b)]
    judged = decide(ratio.ratio, ratio.low, ratio.high, between, ratio.blocks, open_ends(*open_to))
    return data.check_scale(_of_members(judged, f"{', '.join(a)} to {', '.join(b)}", published), *a, *b)


def group_mean(data: Data, a: Group, between: Ends, published: float | None = None) -> Judgement:
    """The claim that the mean of the VPNs ``a`` lies ``between`` two bounds, with Student's interval over the members.

    Raises NotMeasured where there is none."""
    if not a:
        raise NotMeasured("the group has no member")
    means = np.array([fmean(blocks.values()) for blocks in a.values()])
    mean, low, high = float(means.mean()), None, None
    if len(means) > 1:
        low, high = Estimate(mean, float(standard_errors(means)), len(means) - 1, len(means)).interval()
    return data.check_scale(_of_members(decide(mean, low, high, between, len(means)), ", ".join(a), published), *a)


def _of_members(judged: Judgement, members: str, published: float | None) -> Judgement:
    """The judgement of a group: no more repetitions narrow its interval."""
    reason = f"{members}: {ALONE if judged.low is None else judged.reason}"
    return judged.model_copy(update={"published": published, "longer": None, "members": True, "reason": reason})
