"""The numbers behind the ranks, and those behind the question which VPN sustains a rate, whatever the experiments list:
CPU cost and set-up time are measured by the way, and count in most rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from runner.data.metric import Metric
from runner.data.trials import Run, Strict, Trial
from runner.ranking.basis import Basis, bases
from runner.ranking.ranking import Missing, Ranking, weigh
from runner.ranking.stats import Summary, block_values, summarise, summarise_all
from runner.ranking.weights import Weights, default_weights
from runner.report import text

SUSTAINED = ("tcp_throughput", "cpu_per_gigabyte")
ABOUT = "Each VPN's median and 95 % interval in every metric that it can be ranked by, at the configuration's levels."


class RankedNumber(Strict):
    """One metric of a ranking: the ``traffic`` that it is ranked by, in words; VPN -> the summary of its repetitions,
    in the metric's unit; ``at_least``: the VPNs of which a value is a lower bound."""

    metric: str
    traffic: str
    summaries: dict[str, Summary]
    at_least: list[str]


class SoFar(NamedTuple):
    """A ranking, and the numbers behind its ranks."""

    ranking: Ranking
    numbers: list[RankedNumber]


class Sustained(Strict):
    """One cell's TCP throughput (bit/s) and its CPU cost (s/GB)."""

    vpn: str
    levels: str
    rate: Summary
    cost: Summary


def ranked_numbers(basis: Basis) -> list[RankedNumber]:
    """Every metric that the basis has values of, in the order of the definitions."""
    found = []
    for metric, by_vpn in basis.values.items():
        summaries = summarise_all([list(blocks.values()) for blocks in by_vpn.values()])
        found.append(
            RankedNumber(
                metric=metric,
                traffic=text.levels(basis.traffic[metric]),
                summaries=dict(zip(by_vpn, summaries, strict=True)),
                at_least=[vpn for vpn, blocks in basis.bounds[metric].items() if blocks],
            )
        )
    return found


def so_far(
    run: Run, trials: Sequence[Trial], weights: Weights | None = None, missing: Missing = "unranked"
) -> list[SoFar]:
    """Every ranking of a run that is still being measured, with the numbers behind it, the likely one to be read
    first."""
    counted = weights.counted if weights else ()
    found = []
    for basis in bases(run, trials, counted):
        ranking = weigh(basis, weights or default_weights(basis.values), missing)
        found.append(SoFar(ranking, ranked_numbers(basis)))

    def place(one: SoFar) -> tuple[bool, bool]:
        return not any(standing.place for standing in one.ranking.standings), one.ranking.configuration != "recommended"

    return sorted(found, key=place)


def sustained(
    run: Run, by_cell: Mapping[str, Sequence[Trial]], made: Mapping[tuple[str, str], Summary]
) -> list[Sustained]:
    """Every cell whose trials measured both; what no ranking has (plain IP) is left out. ``made``: (cell, metric) ->
    what has been summarised already."""
    references = {name for name, record in run.vpns.items() if record.reference}
    found = []
    for cell, trials in by_cell.items():
        if trials[0].vpn in references or trials[0].params.get("measure") != "tcp":
            continue
        both = [made.get((cell, metric)) or _summary(trials, metric) for metric in SUSTAINED]
        if both[0] and both[1]:
            levels = text.levels(trials[0].params)
            found.append(Sustained(vpn=trials[0].vpn, levels=levels, rate=both[0], cost=both[1]))
    return found


def _summary(trials: Sequence[Trial], metric: str) -> Summary | None:
    blocks = block_values(trials, metric)
    return summarise(list(blocks.values())) if blocks else None


def row_id(ranking: int, metric: str) -> str:
    """The id of a metric's row on the page, in the ranking of this number."""
    return f"behind-{ranking}-{metric}"


def html_part(
    numbers: Sequence[RankedNumber],
    ranking: int,
    metrics: Mapping[str, Metric],
    tables: Mapping[str, str],
    table: Callable[[str, Sequence[str], Sequence[str]], str],
) -> str:
    """What unfolds below a ranking; ``metrics``: of the report; ``tables``: metric -> the id of the table of an
    experiment that has its trials; ``table`` makes one of a caption, a head and rows of HTML. All is escaped here."""
    if not numbers:
        return ""
    vpns = list(dict.fromkeys(vpn for one in numbers for vpn in one.summaries))
    rows = []
    for one in numbers:
        known = metrics[one.metric]
        name = escape(known.title)
        name = f'<a href="#{escape(tables[one.metric])}">{name}</a>' if one.metric in tables else name
        small = f"<small>{known.better} is better; {escape(one.traffic)}</small>"
        cells = "".join(f"<td class=number>{escape(_number(one, vpn, known.unit))}</td>" for vpn in vpns)
        rows.append(
            f'<th scope="row" id="{escape(row_id(ranking, one.metric))}" tabindex="-1">{name}{small}</th>{cells}'
        )
    shown = table(ABOUT, ["metric", *vpns], rows)
    return f"<details><summary>The numbers behind the ranks</summary>{shown}</details>"


def _number(one: RankedNumber, vpn: str, unit: str) -> str:
    if vpn not in one.summaries:
        return text.NONE
    return text.with_interval(one.summaries[vpn], unit, vpn in one.at_least)
