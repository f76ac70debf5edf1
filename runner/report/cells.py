"""What the rows of the ranking and of a metric say, cell by cell, for the forms that are plain words."""

from __future__ import annotations

from runner.ranking.ranking import Ranking
from runner.ranking.words import chance
from runner.report import text
from runner.report.facts import BASELINE
from runner.report.model import MetricTable, Row, row_repetitions, row_share


def weighted(ranking: Ranking) -> list[str]:
    """The heads of the columns of ranks: each metric that counts, and its weight."""
    return [f"{text.SHORT.get(metric, metric)} ×{weight:g}" for metric, weight in ranking.weights.counted.items()]


def ranked(ranking: Ranking) -> list[list[str]]:
    """A row for each VPN that is ranked: place, VPN, configuration, average, places, chance of best, its ranks."""
    ranks = [text.ranks(ranking, metric) for metric in ranking.weights.counted]
    return [
        [
            text.place(standing),
            standing.vpn,
            text.configuration(standing.levels),
            f"{standing.average:.2f}",
            text.place_interval(standing),
            chance(standing.best_probability),
            *[of_metric.get(standing.vpn, text.NONE) for of_metric in ranks],
        ]
        for standing in ranking.standings
        if standing.average is not None
    ]


def measured(row: Row, table: MetricTable) -> list[str]:
    """Median with its interval, share of the baseline, repetitions, coefficient of variation."""
    if not row.summary:
        return [text.NONE, text.NONE, row_repetitions(row), text.NONE]
    return [
        text.with_interval(row.summary, table.unit, row.at_least > 0),
        "baseline" if row.vpn == BASELINE else row_share(row, table),
        row_repetitions(row),
        text.percent(row.summary.variation),
    ]
