"""Do two runs rank the same? Kendall's tau-b between their orders, and the groups that each tells apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scipy import stats

from runner.model import Run, Strict, Trial
from runner.ranking import Ranking, rank_all

HOLDS = 0.95


class Agreement(Strict):
    """One order of the same VPNs in two runs. ``what`` is a metric, or ``weighted`` for the weighted average rank.

    ``tau_b``: Kendall's tau-b (Biometrika 33(3), 1945), 1 for the same order with the same ties, None where all VPNs
    tie in one of the runs. ``groups``: how many groups, before and after, of which every member of the one is
    significantly better than every member of the next.
    """

    configuration: str
    what: str
    vpns: list[str]
    tau_b: float | None
    groups: tuple[int, int]


def agreement(before: tuple[Run, Sequence[Trial]], after: tuple[Run, Sequence[Trial]]) -> list[Agreement]:
    """Every order that both runs have of at least two VPNs."""
    ours, theirs = ({(r.configuration, r.image): r for r in rank_all(*run)} for run in (before, after))
    found = []
    for key in ours.keys() & theirs.keys():
        a, b = ours[key], theirs[key]
        metrics = sorted({metric for s in a.standings for metric in s.ranks})
        for what in ["weighted", *metrics]:
            shared = sorted(_order(a, what).keys() & _order(b, what).keys())
            if len(shared) > 1:
                found.append(_agreement(a, b, what, shared))
    return sorted(found, key=lambda one: (one.configuration, one.what != "weighted", one.what))


def _agreement(a: Ranking, b: Ranking, what: str, vpns: list[str]) -> Agreement:
    first, second = ([_order(ranking, what)[vpn] for vpn in vpns] for ranking in (a, b))
    tau = float(stats.kendalltau(first, second, variant="b").statistic)
    return Agreement(
        configuration=a.configuration + (f", {a.image}" if a.image else ""),
        what=what,
        vpns=vpns,
        tau_b=None if math.isnan(tau) else tau,
        groups=(_groups(a, what), _groups(b, what)),
    )


def _order(ranking: Ranking, what: str) -> Mapping[str, float]:
    """VPN -> weighted average rank, or rank in the metric, of those that have one."""
    if what == "weighted":
        return {s.vpn: s.average for s in ranking.standings if s.average is not None}
    return {s.vpn: float(s.ranks[what]) for s in ranking.standings if what in s.ranks}


def _groups(ranking: Ranking, what: str) -> int:
    """Weighted: neighbours are apart where the order, and no tie, holds in 95 % of the draws. In a metric: after the
    k-th VPN, where those k are each significantly better than the next (its rank is k + 1)."""
    if what == "weighted":
        return 1 + sum((pair.probability or 0) >= HOLDS for pair in ranking.pairs)
    ranks = sorted(_order(ranking, what).values())
    return 1 + sum(ranks[k] > k for k in range(1, len(ranks)))
