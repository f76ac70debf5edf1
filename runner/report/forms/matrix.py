"""The ranking as values, for the page: a row for each VPN, a column for each metric; a cell has its value, its
interval, and the position of both on the column's axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runner.data.numbers import chance
from runner.ranking.ranking import Standing
from runner.report import text
from runner.report.answer import RankingAnswer, change, groups, numbers_of, place_of, unit_of
from runner.report.document import ARROWS
from runner.report.forms.explore import places_of
from runner.report.model import Report
from runner.report.plots.plotting import wide
from runner.report.ranked_numbers import RankedNumber


def matrix_of(report: Report, answer: RankingAnswer) -> dict[str, Any]:
    """The ranking as values: columns are metrics, rows are VPNs in their order; VPNs without a place come last."""
    ranking = report.rankings[answer.number]
    numbers = numbers_of(report, answer.number)
    where = places_of(report, answer.number)
    columns = []
    for metric in ranking.weights.counted_metrics:
        if not (number := numbers.get(metric)):
            continue
        known = report.metrics[metric]
        scale, unit = unit_of(number, known.unit)
        columns.append(
            {
                "metric": metric,
                "short": known.short or known.title,
                "title": known.title,
                "unit": unit,
                "arrow": ARROWS[known.better],
                "link": where.get(metric, ""),
                "cells": {standing.vpn: _cell(number, standing, scale) for standing in ranking.standings},
            }
        )
    places = place_of(ranking)
    measured = [
        standing
        for standing in ranking.standings
        if standing.place or any(standing.vpn in number.summaries for number in numbers.values())
    ]
    ordered = [[standing for standing in measured if standing.vpn in group] for group in groups(ranking)]
    ordered.append([standing for standing in measured if not standing.place])
    return {
        "number": answer.number,
        "name": answer.name,
        "configuration": ranking.configuration,
        "slack": change(ranking, most=None),
        "weights": text.weights(ranking, report.metrics),
        "columns": columns,
        "groups": [[_row(standing, places) for standing in group] for group in ordered if group],
        "nobody": not places,
        "doubts": text.doubts(ranking),
        "unranked": [{"vpns": vpns, "why": why} for vpns, why, _ in text.unranked_vpns(ranking)],
    }


def _row(standing: Standing, places: Mapping[str, str]) -> dict[str, str | bool]:
    return {
        "vpn": standing.vpn,
        "placed": standing.vpn in places,
        "levels": text.configuration(standing.levels),
        "place": places.get(standing.vpn, text.NONE),
        "chance": chance(standing.best_probability),
        "average": "" if standing.average is None else f"{standing.average:.2f}",
    }


def _cell(number: RankedNumber, standing: Standing, scale: float) -> dict[str, str]:
    """One cell: the value, its interval in words, the position of both on the column's axis in percent, and the
    expected rank. The value is empty where it is missing."""
    rank = standing.ranks.get(number.metric)
    cell = {"value": "", "rank": "" if rank is None else f"rank {rank:.1f}"}
    summary = number.summaries.get(standing.vpn)
    if summary is None:
        return cell
    ends = [end for each in number.summaries.values() for end in (each.low, each.median, each.high) if end is not None]
    at = _axis(ends)
    low, high = summary.low, summary.high
    left, right = at(summary.median if low is None else low), at(summary.median if high is None else high)
    return cell | {
        "value": "≥ " * (standing.vpn in number.at_least) + text.digits(summary.median / scale),
        "interval": text.spread(summary, scale),
        "whisker": f"--from:{left:.1f}%;--to:{right:.1f}%;--at:{at(summary.median):.1f}%",
    }


def _axis(ends: Sequence[float]) -> Callable[[float], float]:
    """The function from a value to its position in percent. The axis begins at zero, or at the lowest end in a column
    that spans much, and ends at the highest end."""
    top, bottom = max(ends, default=1.0), min(ends, default=0.0)
    if wide(ends):
        width = math.log(top / bottom)
        return lambda value: 100 * min(1.0, max(0.0, math.log(max(value, bottom) / bottom) / width))
    floor = min(0.0, bottom)
    span = top - floor or 1.0  # 1.0 where all are zero
    return lambda value: 100 * min(1.0, max(0.0, (value - floor) / span))
