"""The ranking as values: a row for each VPN, a column for each metric that counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from questions.rank.judgement import RankedNumber
from questions.rank.places import groups, place_of, unit_of
from runner.data.metric import Metric
from runner.data.numbers import chance, same
from runner.design.blocks import Table, TableCell
from runner.evidence.model import Summary
from runner.ranking.model import Ranking
from runner.report import text

ARROWS = {"higher": "↑", "lower": "↓"}  # which way is better
HALF = 1.0  # share of the median; a wider half interval is written as a factor


def values(
    ranking: Ranking, numbers: Mapping[str, RankedNumber], metrics: Mapping[str, Metric], *, brief: bool = False
) -> Table:
    """The table: place, how often first, and for each metric the median with its 95 % interval, of each VPN that has a
    value. VPNs that cannot be told apart share a place. ``brief``: for a terminal, without the configuration."""
    counted = [metric for metric in ranking.weights.counted_metrics if metric in numbers]
    measured = [one for one in ranking.standings if any(one.vpn in numbers[metric].summaries for metric in counted)]
    places, leaders = place_of(ranking), next(iter(groups(ranking)), [])
    head = ["#", "VPN", "first"] if brief else ["place", "VPN", "configuration", "ranks first"]
    rows = list[list[str | TableCell]]()
    for standing in measured:
        configuration = [] if brief else [text.configuration(standing.levels)]
        name = TableCell(standing.vpn, tone="good" if brief and standing.vpn in leaders else "")
        first = chance(standing.best_probability)
        rows.append([places.get(standing.vpn, text.NONE), name, *configuration, first])
    for metric in counted:
        known, weight = metrics[metric], ranking.weights.counted_metrics[metric]
        scale, unit = unit_of(numbers[metric], known.unit)
        short = text.short(metric, metrics) + (f" ×{weight:g}" if weight != 1 else "")
        head.append(f"{short}\n{unit}" if brief else f"{known.short or known.title} ({unit}) {ARROWS[known.better]}")
        best = best_of(numbers[metric], known) if brief else ()
        for row, standing in zip(rows, measured, strict=True):
            row.append(_value(numbers[metric], standing.vpn, scale, best))
    return Table("", head, rows, numbers=[0, *range(2 if brief else 3, len(head))])


def _value(numbers: RankedNumber, vpn: str, scale: float, best: Sequence[str] | set[str]) -> TableCell:
    """``341 (325–358)``, in the unit of the column; where there is little room ``341±5%``."""
    summary = numbers.summaries.get(vpn)
    if summary is None:
        return TableCell(text.NONE)
    value = "≥ " * (vpn in numbers.at_least) + text.digits(summary.median / scale)
    return TableCell(
        f"{value} ({text.spread(summary, scale)})",
        brief=value + _half_width(summary),
        tone="good" if vpn in best else "",
    )


def _half_width(summary: Summary) -> str:
    """``±5%``: half of the 95 % interval; a factor, where it is wide."""
    if summary.low is None or summary.high is None:
        return "?"
    half = (summary.high - summary.low) / 2 / summary.median if summary.median else 0.0
    if half <= HALF or summary.low <= 0:
        return f"±{100 * half:.0f}%"
    factor = math.sqrt(summary.high / summary.low)
    if factor >= text.HUGE:
        return f"×÷>{text.HUGE}"
    return f"×÷{factor:.0f}" if factor >= 10 else f"×÷{factor:.2g}"


def best_of(numbers: RankedNumber, metric: Metric) -> set[str]:
    """The VPNs with the best median."""
    medians = {vpn: summary.median for vpn, summary in numbers.summaries.items()}
    best = max(medians.values()) if metric.better == "higher" else min(medians.values())
    return {vpn for vpn, median in medians.items() if same(median, best)}
