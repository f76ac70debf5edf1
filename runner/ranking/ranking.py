"""The weighted average rank of the OSLV paper ("Performance evaluation results"): rank the VPNs for each attribute,
weight the ranks, and average.

Of what was measured, nobody knows the true ranks. So the ranking is made in many draws of what they may be, and ordered
by the mean: the *expected* weighted average rank. A VPN that was measured less is nearer to the middle by it, and not
first because nothing could be shown against it. With the order comes how sure it is: the probability that each VPN
is best, the interval of its place, with whom it ties (the order holds in less than 95 % of the draws), and how far each
weight may move before another VPN leads. All of it is counted from the same draws, and what would contradict the order,
a chance of being best that is larger further down, is a tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from runner.data.numbers import SAME
from runner.evidence.estimates import Pooled, RoundValues
from runner.ranking.basis import Basis
from runner.ranking.draws import CONFIDENCE, DRAWS, Order
from runner.ranking.model import Pair, Ranking, Standing, Weights
from runner.ranking.weights import slack


def weigh(basis: Basis, weights: Weights) -> Ranking:
    """Rank the VPNs of a basis by the weighted average of their expected ranks.

    A VPN without a weighted metric is not ranked, and has its reason. One VPN is no ranking.
    """
    ranks = {metric: basis.ranks(metric) for metric in basis.values}
    standings = []
    for vpn, levels in basis.levels.items():
        absent = [metric for metric in weights.counted_metrics if vpn not in basis.values.get(metric, {})]
        own = {metric: by_vpn[vpn] for metric, by_vpn in ranks.items() if vpn in by_vpn}
        average = None if absent or not weights.counted_metrics else weighted_average(own, weights)
        standings.append(
            Standing(
                vpn=vpn,
                levels=levels,
                ranks=own,
                blocks={metric: len(by_vpn[vpn]) for metric, by_vpn in basis.values.items() if vpn in by_vpn},
                average=average,
                at_least=[metric for metric, by_vpn in basis.bounds.items() if by_vpn.get(vpn)],
                lost={metric: by_vpn[vpn] for metric, by_vpn in basis.lost.items() if vpn in by_vpn},
                missing={metric: basis.why[vpn][metric].words for metric in absent},
                causes={metric: why.cause for metric in absent if (why := basis.why[vpn][metric]).cause},
            )
        )
    standings = _with_places(standings)
    order = basis.order(weights, [standing.vpn for standing in standings if standing.place])
    standings = _with_chances(standings, order)
    return Ranking(
        configuration=basis.configuration,
        image=basis.image,
        weights=weights,
        traffic=dict(basis.traffic),
        titles={
            name: basis.metrics[name].title if name in basis.metrics else name
            for name in dict.fromkeys([*basis.values, *weights.counted_metrics])
        },
        standings=standings,
        pairs=[_pair(a, b, order) for a, b in pairwise(standing for standing in standings if standing.place)],
        slack=slack({standing.vpn: standing.ranks for standing in standings if standing.place}, weights),
        method="ordered by the expected weighted average rank (after the OSLV paper): each metric's ranks are drawn "
        "anew from what the measurements leave open, averaged, and weighted; VPNs tie where their order does not hold "
        "in 95 % of the draws; what is known from below only is never called worse",
        probability_method=_how(basis, weights, order),
    )


def _how(basis: Basis, weights: Weights, order: Order | None) -> str:
    """How the draws were made, in a phrase."""
    if not order:
        return "no probability: it needs two VPNs, and two blocks of one VPN at least of every weighted metric"
    values = [blocks for metric in weights.counted_metrics for blocks in basis.values.get(metric, {}).values()]
    if any(isinstance(blocks, RoundValues | Pooled) for blocks in values):
        return (
            f"{DRAWS} draws of every VPN's mean logarithm, so that they differ as the ratios of all pairs say "
            f"(Student's t), ranked anew; seed {basis.seed}"
        )
    return (
        f"{DRAWS} draws of every VPN's mean logarithm from its t distribution (block effects "
        f"removed; a VPN with one block has the others' spread), ranked anew without ties; seed {basis.seed}"
    )


def weighted_average(ranks: Mapping[str, float], weights: Weights) -> float:
    """Σ weight·rank / Σ weight over the metrics that count, added one after the other as the report's page does
    (``sum`` compensates for rounding since Python 3.12)."""
    total = counted = 0.0
    for metric, weight in weights.counted_metrics.items():
        total += weight * ranks[metric]
        counted += weight
    return total / counted


def _with_places(standings: Sequence[Standing]) -> list[Standing]:
    """Place = 1 + number of VPNs with a lower average, so that equals share one; the unranked at the end."""
    averages = [standing.average for standing in standings if standing.average is not None]
    if len(averages) < 2:
        alone = [standing.model_copy(update={"average": None}) for standing in standings]
        return sorted(alone, key=lambda standing: standing.vpn)
    placed = [
        standing
        if (own := standing.average) is None
        else standing.model_copy(update={"place": 1 + sum(other < own - SAME for other in averages)})
        for standing in standings
    ]
    return sorted(placed, key=lambda standing: (standing.place or len(placed) + 1, standing.vpn))


def _with_chances(standings: Sequence[Standing], order: Order | None) -> list[Standing]:
    """The standings with the probability of being best, the interval of the place, and the ties; equals are ordered by
    that probability.

    A place is always in its interval: a VPN may have a worse average rank than others that it beats in most draws.
    """
    if order is None:
        ranked = [standing.vpn for standing in standings if standing.place]
        return [
            standing.model_copy(update={"ties": [vpn for vpn in ranked if vpn != standing.vpn]})
            if standing.place
            else standing
            for standing in standings
        ]
    best, intervals = order.chances_of_best(), order.place_intervals()
    placed = []
    for standing in standings:
        if standing.place is not None:
            low, high = intervals[standing.vpn]
            update = {
                "best_probability": best[standing.vpn],
                "place_interval": (min(low, standing.place), max(high, standing.place)),
            }
            placed.append(standing.model_copy(update=update))
        else:
            placed.append(standing)
    placed = sorted(placed, key=lambda standing: (standing.place or len(placed) + 1, -(standing.best_probability or 0)))
    ties: dict[str, list[str]] = {standing.vpn: [] for standing in placed}
    for a, b in combinations((standing for standing in placed if standing.place), 2):
        if a.place == b.place or not _pair(a, b, order).separated:
            ties[a.vpn].append(b.vpn)
            ties[b.vpn].append(a.vpn)
    return [standing.model_copy(update={"ties": ties[standing.vpn]}) for standing in placed]


def _pair(a: Standing, b: Standing, order: Order | None) -> Pair:
    """Two neighbours in their order; two that share a place are put into the likelier order."""
    if order is None:
        return Pair(first=a.vpn, second=b.vpn)
    before, equal = order.pair(a.vpn, b.vpn)
    likelier = (b.best_probability or 0.0) > (a.best_probability or 0.0)
    first, second = a.vpn, b.vpn
    if a.place == b.place and before + equal < 0.5:
        first, second, before, likelier = b.vpn, a.vpn, 1 - before - equal, False
    pair = Pair(first=first, second=second, probability=before, equal=equal)
    return pair.model_copy(update={"separated": before >= CONFIDENCE and not likelier})
