"""The numbers behind the ranks, and those that say which VPN sustains a rate. They do not depend on the tables of the
experiments: CPU cost and set-up time are measured by the way, and count in most rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.metric import Metric
from runner.data.trials import Run, Strict, Trial
from runner.design.blocks import Block, Heading, Hyperlink, Table, TableCell
from runner.evidence.configurations import Configuration
from runner.evidence.stats import Summary, block_values, summarise, summarise_all
from runner.report import text

SUSTAINED = ("tcp_throughput", "cpu_per_gigabyte")
ABOUT = "Each VPN's median and 95 % interval, at the configuration's levels."


class RankedNumber(Strict):
    """One metric of a ranking: the ``traffic`` that it is ranked by, in words; VPN -> the summary of its repetitions,
    in the metric's unit; ``at_least``: the VPNs of which a value is a lower bound."""

    metric: str
    traffic: str
    summaries: dict[str, Summary]
    at_least: list[str]


class Sustained(Strict):
    """One cell's TCP throughput (bit/s) and its CPU cost (s/GB)."""

    vpn: str
    levels: str
    rate: Summary
    cost: Summary


def ranked_numbers(made: Configuration) -> list[RankedNumber]:
    """The numbers of every metric that has values, in the order of the definitions."""
    numbers = []
    for metric, by_vpn in made.values.items():
        values = [list(blocks.values()) for blocks in by_vpn.values()]
        summaries = summarise_all(values, exact=made.metrics[metric].exact)
        numbers.append(
            RankedNumber(
                metric=metric,
                traffic=text.levels(made.traffic[metric]),
                summaries=dict(zip(by_vpn, summaries, strict=True)),
                at_least=[vpn for vpn, blocks in made.bounds[metric].items() if blocks],
            )
        )
    return numbers


def sustained_costs(
    run: Run, by_cell: Mapping[str, Sequence[Trial]], made: Mapping[tuple[str, str], Summary]
) -> list[Sustained]:
    """Throughput and CPU cost of every cell whose trials measured both, without references (plain IP), which no ranking
    has. ``made``: (cell, metric) -> a summary that was made already."""
    references = {name for name, record in run.vpns.items() if record.reference}
    cells = []
    for cell, trials in by_cell.items():
        if trials[0].vpn in references:
            continue
        both = [made.get((cell, metric)) or _summary(trials, metric) for metric in SUSTAINED]
        if both[0] and both[1]:
            levels = text.levels(trials[0].params)
            cells.append(Sustained(vpn=trials[0].vpn, levels=levels, rate=both[0], cost=both[1]))
    return cells


def _summary(trials: Sequence[Trial], metric: str) -> Summary | None:
    blocks = block_values(trials, metric)
    return summarise(list(blocks.values())) if blocks else None


def row_id(ranking: int, metric: str) -> str:
    """The id of a metric's row on the page, in the ranking of this number."""
    return f"behind-{ranking}-{metric}"


def section(
    numbers: Sequence[RankedNumber], ranking: int, metrics: Mapping[str, Metric], tables: Mapping[str, str]
) -> list[Block]:
    """The section that unfolds below the ranking of this number; empty where it has no numbers. ``metrics``: those of
    the report; ``tables``: metric -> the name of the table of an experiment that has its trials."""
    if not numbers:
        return []
    vpns = list(dict.fromkeys(vpn for number in numbers for vpn in number.summaries))
    rows: list[list[str | TableCell]] = []
    for number in numbers:
        known = metrics[number.metric]
        link = Hyperlink("", name=tables[number.metric]) if number.metric in tables else None
        about = f"{known.better} is better; {number.traffic}"
        metric = TableCell(known.title, small=about, name=row_id(ranking, number.metric), link=link)
        rows.append([metric, *[_number(number, vpn, known.unit) for vpn in vpns]])
    title = "Each VPN's numbers"
    table = Table(ABOUT, ["metric", *vpns], rows, numbers=range(1, len(vpns) + 1), named=True)
    return [Heading(title, f"behind-{ranking}", level=3, fold=title), table]


def _number(number: RankedNumber, vpn: str, unit: str) -> str:
    if vpn not in number.summaries:
        return text.NONE
    return text.with_interval(number.summaries[vpn], unit, vpn in number.at_least)
