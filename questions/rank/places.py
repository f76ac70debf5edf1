"""What a ranking says of each VPN, in a few words: its place, its ranks, and why it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from questions.rank.judgement import Ranked, RankedNumber
from runner.data.metric import Metric
from runner.data.numbers import chance
from runner.ranking.model import Pair, Ranking, Standing
from runner.report import text
from runner.report.text import NONE, lower, short

PROBABLY = 0.75  # share of the draws from which on an order that is not sure is called probable


def ranking_name(ranking: Ranking) -> str:
    """``as recommended``, with the gateways' software where that is a factor."""
    return text.configuration_name(ranking.configuration, ranking.image)


def groups(ranking: Ranking) -> list[list[str]]:
    """The ranked VPNs in their order. Neighbours whose order is not sure are one group."""
    grouped: list[list[str]] = []
    unsure = {frozenset((pair.first, pair.second)) for pair in ranking.pairs if not pair.separated}
    for standing in ranking.standings:
        if standing.place is None:
            continue
        if grouped and frozenset((grouped[-1][-1], standing.vpn)) in unsure:
            grouped[-1].append(standing.vpn)
        else:
            grouped.append([standing.vpn])
    return grouped


def place_of(ranking: Ranking) -> dict[str, str]:
    """VPN -> its place: ``2``, or ``1–3`` for all of a group that cannot be told apart."""
    places: dict[str, str] = {}
    before = 0
    for group in groups(ranking):
        place = f"{before + 1}" + (f"–{before + len(group)}" if len(group) > 1 else "")
        places |= dict.fromkeys(group, place)
        before += len(group)
    return places


def numbers_of(ranked: Ranked, number: int) -> dict[str, RankedNumber]:
    """Metric -> the numbers behind the ranks of ranking ``number``. First come the metrics that count, in the order of
    the weights."""
    behind = {numbers.metric: numbers for numbers in ranked.behind[number]}
    weights = ranked.rankings[number].weights.counted_metrics
    counted = {metric: behind[metric] for metric in weights if metric in behind}
    return counted | behind


def unit_of(numbers: RankedNumber, unit: str) -> tuple[float, str]:
    """The scale and unit in which the middle one of the VPNs' medians reads best."""
    medians = sorted(summary.median for summary in numbers.summaries.values())
    return text.prefix(medians[len(medians) // 2], unit)


class Unranked(NamedTuple):
    """VPNs that are not ranked, for the same reasons; ``cause``: the kind of one of them, where one is known."""

    vpns: str
    why: str
    cause: str


def unranked_vpns(ranking: Ranking) -> list[Unranked]:
    """What is not ranked; VPNs with the same reasons stand together."""
    return _reasons([standing for standing in ranking.standings if standing.place is None], ranking)


def _reasons(standings: Sequence[Standing], ranking: Ranking) -> list[Unranked]:
    grouped: dict[str, list[Standing]] = {}
    for standing in standings:
        whole = standing.missing.keys() >= ranking.weights.counted_metrics.keys()
        by_reason: dict[str, list[str]] = {}
        for metric, reason in standing.missing.items():
            by_reason.setdefault(reason, []).append(lower(ranking.titles[metric]))
        why = [reason if whole else f"no {', '.join(titles)} ({reason})" for reason, titles in by_reason.items()]
        grouped.setdefault(", ".join(why) or _no_reason(ranking), []).append(standing)
    return [
        Unranked(", ".join(one.vpn for one in mine), why, next(iter(mine[0].causes.values()), ""))
        for why, mine in grouped.items()
    ]


def _no_reason(ranking: Ranking) -> str:
    """Why a VPN that has all metrics is not ranked."""
    return "a ranking needs two VPNs" if ranking.weights.counted_metrics else "nothing is weighted"


def ranks_of(ranking: Ranking, metric: str) -> dict[str, str]:
    """VPN -> its expected rank in the metric: ``2.3``."""
    return {standing.vpn: f"{standing.ranks[metric]:.1f}" for standing in ranking.standings if metric in standing.ranks}


def place(standing: Standing) -> str:
    """``2``, or ``2=`` for a tie, where another VPN may have this place; a dash for a VPN that is not ranked."""
    return NONE if standing.place is None else f"{standing.place}" + "=" * bool(standing.ties)


def place_interval(standing: Standing) -> str:
    """The interval of the place: ``1–2``, or ``1`` alone."""
    if standing.place_interval is None:
        return NONE
    low, high = standing.place_interval
    return f"{low}" if low == high else f"{low}–{high}"


def doubts(ranking: Ranking) -> str:
    """The pairs of neighbours whose order is not sure, in whole sentences; empty where all are."""
    return " ".join(_doubt(pair) for pair in ranking.pairs if not pair.separated)


def _doubt(pair: Pair) -> str:
    if (pair.probability or 0.0) >= PROBABLY:
        return f"{pair.first} is probably better than {pair.second} ({chance(pair.probability)})."
    return f"{pair.first} and {pair.second} cannot be told apart."


def weights_words(ranking: Ranking, metrics: Mapping[str, Metric]) -> str:
    """``balanced: TCP ×1, UDP ×1``."""
    counted_ones = [
        f"{short(metric, metrics)} ×{weight:g}" for metric, weight in ranking.weights.counted_metrics.items()
    ]
    return f"{ranking.weights.name}: {', '.join(counted_ones)}" if counted_ones else "no metric to weight"


def rank_rows(made: Ranking) -> list[list[str]]:
    """A row for each VPN that is ranked: place, VPN, configuration, average, places, how often first, its ranks."""
    ranks = [ranks_of(made, metric) for metric in made.weights.counted_metrics]
    return [
        [
            place(standing),
            standing.vpn,
            text.configuration(standing.levels),
            f"{standing.average:.2f}",
            place_interval(standing),
            chance(standing.best_probability),
            *[of_metric.get(standing.vpn, text.NONE) for of_metric in ranks],
        ]
        for standing in made.standings
        if standing.average is not None
    ]
