"""The weighted average rank of the OSLV paper ( "Performance evaluation
results"): rank the VPNs for each attribute, weight the ranks, and average.

Two things are added. A rank is 1 + the number of VPNs that are *significantly* better, so that VPNs which
the measurement cannot tell apart share one. And the order's own uncertainty is given: the probability that
each VPN is best, the interval of its place, how sure each pair of neighbours is, and how far each weight may
move before another VPN wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from runner.data.trials import Run, Strict, Trial
from runner.ranking.basis import Basis, bases, basis_of
from runner.ranking.draws import CONFIDENCE, DRAWS, Order
from runner.ranking.weights import Slack, Weights, default_weights, slack
from runner.ranking.words import chance

Missing = Literal["unranked", "worst"]


class Standing(Strict):
    """One VPN in a ranking. ``ranks`` has every metric that it delivers; ``average``, ``place`` and
    ``best_probability`` are None where it is not ranked. ``missing`` maps the weighted metrics that it
    lacks to the reason; ``imputed`` are those which were given the worst rank instead; ``at_least`` are those
    known from below only, in one block or more. ``place_interval``: from which to which place 95 % of the
    draws put it."""

    vpn: str
    levels: dict[str, str]
    ranks: dict[str, int]
    blocks: dict[str, int]
    average: float | None = None
    place: int | None = None
    best_probability: float | None = None
    place_interval: tuple[int, int] | None = None
    at_least: list[str] = []
    missing: dict[str, str] = {}
    imputed: list[str] = []


class Pair(Strict):
    """Two neighbours of a ranking, in their order. ``probability`` is the share of the draws in which ``first`` has
    the lower average, ``equal`` the share in which both are equal; None where nothing could be drawn.
    ``separated``: ``second`` is ahead in 5 % of the draws at most, so that the order holds, or is a tie."""

    first: str
    second: str
    probability: float | None = None
    equal: float | None = None
    separated: bool = False

    @property
    def certainty(self) -> float:
        """The share of the draws in which ``second`` is not ahead; 0 where nothing could be drawn."""
        return 0.0 if self.probability is None or self.equal is None else self.probability + self.equal

    @property
    def words(self) -> str:
        """``openvpn before ssh_tun 71 %``: both, and the share of the draws in which the order holds."""
        return f"{self.first} before {self.second}" + ("" if self.probability is None else f" {chance(self.certainty)}")


class Ranking(Strict):
    """The ranking of one named configuration. ``standings``: the ranked by place, then the unranked by
    name. ``traffic`` is what each metric was measured with; ``titles``: of what was measured or counts; ``image`` the
    gateways' software, if a factor.
    ``pairs`` are the ranked VPNs and the next after each; ``slack`` has the counted metrics, see there."""

    configuration: str
    image: str
    weights: Weights
    traffic: dict[str, dict[str, str]]
    titles: dict[str, str]
    standings: list[Standing]
    pairs: list[Pair]
    slack: list[Slack]
    method: str
    probability_method: str


def rank_all(
    run: Run,
    trials: Sequence[Trial],
    *,
    configurations: Sequence[str] | None = None,
    weights: Weights | None = None,
    missing: Missing = "unranked",
) -> list[Ranking]:
    """A ranking for each basis (see ``bases``), by default with ``balanced`` weights over what was measured."""
    counted = weights.counted if weights else ()
    found = bases(run, trials, counted, configurations)
    return [weigh(basis, weights or default_weights(basis.values), missing) for basis in found]


def rank(
    run: Run,
    trials: Sequence[Trial],
    *,
    configuration: str,
    weights: Weights,
    missing: Missing = "unranked",
    image: str = "",
) -> Ranking:
    """Rank the run's VPNs, references left out, in the named configuration; see ``weigh``."""
    return weigh(basis_of(run, trials, configuration, weights.counted, image), weights, missing)


def weigh(basis: Basis, weights: Weights, missing: Missing = "unranked") -> Ranking:
    """Weight a basis' ranks.

    A VPN without a weighted metric is not ranked, with its reason; with ``missing="worst"`` it gets the
    last rank there is (the number of VPNs with any weighted metric), unless it has none at all.
    """
    alive = {vpn for metric in weights.counted for vpn in basis.values.get(metric, {})}
    standings = []
    for vpn, levels in basis.levels.items():
        absent = [metric for metric in weights.counted if vpn not in basis.values.get(metric, {})]
        own = {metric: found[vpn] for metric, found in basis.ranks.items() if vpn in found}
        imputed = sorted(absent) if missing == "worst" and vpn in alive else []
        own |= dict.fromkeys(imputed, len(alive))
        average = None if (absent and not imputed) or not weights.counted else weighted_average(own, weights)
        standings.append(
            Standing(
                vpn=vpn,
                levels=levels,
                ranks=own,
                blocks={metric: len(by_vpn[vpn]) for metric, by_vpn in basis.values.items() if vpn in by_vpn},
                average=average,
                at_least=[metric for metric, by_vpn in basis.bounds.items() if by_vpn.get(vpn)],
                missing={metric: basis.reasons[vpn][metric] for metric in absent},
                imputed=imputed,
            )
        )
    standings = _with_places(standings)
    order = basis.order(weights, [standing.vpn for standing in standings if standing.place], len(alive))
    standings = _with_chances(standings, order)
    return Ranking(
        configuration=basis.configuration,
        image=basis.image,
        weights=weights,
        traffic=dict(basis.traffic),
        titles={
            name: basis.metrics[name].title if name in basis.metrics else name
            for name in dict.fromkeys([*basis.values, *weights.counted])
        },
        standings=standings,
        pairs=[_pair(a, b, order) for a, b in pairwise(standing for standing in standings if standing.place)],
        slack=slack({standing.vpn: standing.ranks for standing in standings if standing.place}, weights),
        method="rank per metric = 1 + number of VPNs significantly better (95 % interval of the ratio paired within "
        "blocks, each pair on its own; what is known from below only is never called worse); weighted average rank "
        "after the OSLV paper",
        probability_method=f"{DRAWS} draws of every VPN's mean logarithm from its t distribution (block effects "
        f"removed; a VPN with one block has the others' spread), ranked anew without ties; seed {basis.seed}"
        if order
        else "no probability: it needs two VPNs, and two blocks of one VPN at least of every weighted metric",
    )


def weighted_average(ranks: Mapping[str, float], weights: Weights) -> float:
    """Σ weight·rank / Σ weight over the metrics that count, added one after the other as the report's page does
    (``sum`` compensates for rounding since Python 3.12)."""
    total = counted = 0.0
    for metric, weight in weights.counted.items():
        total += weight * ranks[metric]
        counted += weight
    return total / counted


def _with_places(standings: Sequence[Standing]) -> list[Standing]:
    """Place = 1 + number of VPNs with a lower average, so that equals share one; the unranked at the end."""
    averages = [standing.average for standing in standings if standing.average is not None]
    placed = [
        standing
        if (own := standing.average) is None
        else standing.model_copy(update={"place": 1 + sum(other < own - 1e-9 for other in averages)})
        for standing in standings
    ]
    return sorted(placed, key=lambda standing: (standing.place or len(placed) + 1, standing.vpn))


def _with_chances(standings: Sequence[Standing], order: Order | None) -> list[Standing]:
    """The probability of being best and the interval of the place, for the ranked; equals by their probability."""
    if order is None:
        return list(standings)
    best, places = order.chances_of_best(), order.place_intervals()
    found = [
        standing.model_copy(
            update={"best_probability": best.get(standing.vpn), "place_interval": places.get(standing.vpn)}
        )
        for standing in standings
    ]
    return sorted(found, key=lambda standing: (standing.place or len(found) + 1, -(standing.best_probability or 0)))


def _pair(a: Standing, b: Standing, order: Order | None) -> Pair:
    """Who shares a place stands in the likelier order."""
    if order is None:
        return Pair(first=a.vpn, second=b.vpn)
    before, equal = order.pair(a.vpn, b.vpn)
    first, second = a.vpn, b.vpn
    if a.place == b.place and before + equal < 0.5:
        first, second, before = b.vpn, a.vpn, 1 - before - equal
    pair = Pair(first=first, second=second, probability=before, equal=equal)
    return pair.model_copy(update={"separated": pair.certainty >= CONFIDENCE})
