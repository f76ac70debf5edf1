"""Do two runs rank the same? Kendall's tau-b between their orders, and how many VPNs each tells apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

import scipy

from runner.data.trials import Run, Trial
from runner.evidence.ties import settle_ties
from runner.ranking.basis import Basis, bases
from runner.ranking.draws import CONFIDENCE
from runner.ranking.model import Agreement, Ranking
from runner.ranking.ranking import weigh
from runner.ranking.ranks import ranks_of
from runner.ranking.weights import default_weights

Made = tuple[Basis, Ranking]


def agreement(before: tuple[Run, Sequence[Trial]], after: tuple[Run, Sequence[Trial]]) -> list[Agreement]:
    """Compare the orders of VPNs in two runs, for every order that both runs have of at least two VPNs."""
    ours, theirs = (
        {(b.configuration, b.image): (b, weigh(b, default_weights(b.values))) for b in bases(*run)}
        for run in (before, after)
    )
    agreements = []
    for key in ours.keys() & theirs.keys():
        a, b = ours[key], theirs[key]
        metrics = sorted({metric for s in a[1].standings for metric in s.ranks})
        for what in ["weighted", *metrics]:
            shared = sorted(_order(a, what).keys() & _order(b, what).keys())
            if len(shared) > 1:
                agreements.append(_agreement(a, b, what, shared))
    return sorted(agreements, key=lambda order: (order.configuration, order.what != "weighted", order.what))


def _agreement(a: Made, b: Made, what: str, vpns: list[str]) -> Agreement:
    first, second = (settle_ties([_order(made, what)[vpn] for vpn in vpns]) for made in (a, b))
    tau = float(scipy.stats.kendalltau(first, second, variant="b").statistic)
    return Agreement(
        configuration=a[1].configuration + (f", {a[1].image}" if a[1].image else ""),
        what=what,
        vpns=vpns,
        tau_b=None if math.isnan(tau) else tau,
        groups=(_groups(a, what), _groups(b, what)),
    )


def _order(made: Made, what: str) -> Mapping[str, float]:
    """VPN -> its weighted average rank; in a metric, 1 + the number of better VPNs that the metric tells apart from
    it."""
    basis, ranking = made
    if what == "weighted":
        return {s.vpn: s.average for s in ranking.standings if s.average is not None}
    return ranks_of(basis.values.get(what, {}), basis.better(what)) if what in basis.values else {}


def _groups(made: Made, what: str) -> int:
    """The largest number of VPNs of which each is better than all that follow: so many groups the run tells apart.

    A pair is judged as a pair: in a metric by the interval of its paired ratio, weighted by the share of the joint
    draws in which the one is ahead, 95 % or more. Whether two intervals overlap, each VPN's own, is a weaker test and
    not the question (Schenker and Gentleman, The American Statistician 55(3), 2001). Nor is it enough to look at
    neighbours: of three VPNs, each may tie with the next and the first still beat the last.
    """
    basis, ranking = made
    order = _order(made, what)
    if what == "weighted":
        drawn = basis.order(ranking.weights, list(order))
        if drawn is None:
            return 1
        better = {(a, b) for a in order for b in order if a != b and drawn.pair(a, b)[0] >= CONFIDENCE}
        return longest_chain(list(order), better)
    return longest_chain(list(order), basis.better(what))


def longest_chain(vpns: Sequence[str], better: Set[tuple[str, str]]) -> int:
    """The length of the longest row of ``vpns`` in which each is better than every later one; at least 1 where there is
    any VPN.

    ``better``: pairs (better, worse), without a circle.
    """
    by_wins = sorted(vpns, key=lambda vpn: -sum((vpn, other) in better for other in vpns))
    rows: list[list[str]] = []
    for vpn in by_wins:
        longer = [[*row, vpn] for row in rows if all((earlier, vpn) in better for earlier in row)]
        rows.append(max(longer, key=len, default=[vpn]))
    return max((len(row) for row in rows), default=0)
