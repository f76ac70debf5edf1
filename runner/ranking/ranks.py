"""The rank of each VPN in one metric: 1 + the number of VPNs that are *significantly* better, so that VPNs which the
measurement cannot tell apart share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from itertools import combinations

from runner.data.metric import Metric
from runner.data.numbers import lead
from runner.evidence.model import Blocks
from runner.evidence.stats import compare_all, lead_of_differences


def ranks_of(vpns: Collection[str], better: Set[tuple[str, str]]) -> dict[str, int]:
    """VPN -> rank, from the pairs (better, worse) that the metric tells apart."""
    ahead = Counter(worse for _, worse in better)
    return {vpn: 1 + ahead[vpn] for vpn in vpns}


def separated_pairs(
    metric: Metric, values: Mapping[str, Blocks], bounds: Mapping[str, Set[int]] | None = None
) -> set[tuple[str, str]]:
    """The pairs (better, worse) of VPNs that the metric tells apart. ``values``: VPN -> block -> value.

    ``bounds``: VPN -> the blocks in which its value is a lower bound. Where the comparison uses one of them,
    it cannot show that this VPN is below another. An exact metric tells apart in one shared block, too.
    """
    higher = metric.better == "higher"
    separated = set()
    pairs = list(combinations(values, 2))
    for (a, b), ratio in zip(pairs, compare_all([(values[a], values[b]) for a, b in pairs]), strict=True):
        if metric.exact and ratio.blocks == 1:
            (block,) = values[a].keys() & values[b].keys()
            ahead = lead(values[a][block], values[b][block])
        elif ratio.ratio is None:  # a value is not positive, a verdict of 0, say
            ahead = lead_of_differences(values[a], values[b])
        else:
            ahead = ratio.significant * (1 if ratio.ratio > 1 else -1)
        if not ahead:
            continue
        more, less = (a, b) if ahead > 0 else (b, a)
        if not (bounds or {}).get(less, set()) & values[a].keys() & values[b].keys():
            separated.add((more, less) if higher else (less, more))
    return separated
