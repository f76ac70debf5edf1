"""What a page shows of a run that is too large for it: every k-th cell of each VPN, and its range over all cells."""

from __future__ import annotations

import statistics

from runner.data.trials import cell_key
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.model import Report

ROWS = 2500  # of all tables of a page: 1.5 kB each, with its part of the plots
RANGE_HEAD = ("VPN", "cells", "worst median", "middle", "best median")


def step_of(report: Report) -> int:
    """The k of every k-th cell; 1 where all cells are shown."""
    rows = sum(len(table.rows) for experiment in report.experiments for table in experiment.tables)
    return max(1, -(-rows // ROWS))


def thin_experiment(report: Report, experiment: ExperimentReport) -> ExperimentReport:
    """The experiment with every k-th cell of each VPN, the same cells in each table."""
    step = step_of(report)
    if step == 1:
        return experiment
    numbers: dict[str, dict[str, int]] = {}  # VPN -> cell -> its number
    tables = []
    for table in experiment.tables:
        rows = []
        for row in table.rows:
            own = numbers.setdefault(row.vpn, {})
            if own.setdefault(cell_key(row.vpn, row.params), len(own)) % step == 0:
                rows.append(row)
        tables.append(table.model_copy(update={"rows": rows}))
    return experiment.model_copy(update={"tables": tables})


def note(report: Report) -> str:
    """The sentence that says that cells are left out; empty where all are shown."""
    step = step_of(report)
    if step == 1:
        return ""
    return (
        f"A large run: of each VPN, one cell of {step} is shown; the ranges are those of all, report.csv has every one."
    )


def ranges(table: MetricTable) -> list[tuple[str, ...]]:
    """The rows under RANGE_HEAD: each VPN's medians over all cells of the table, in the table's order."""
    medians: dict[str, list[float]] = {}
    for row in table.measured_rows:
        if row.summary:
            medians.setdefault(row.vpn, []).append(row.summary.median)
    rows = []
    for vpn, own in medians.items():
        three = [min(own), statistics.median(own), max(own)]
        if table.better == "lower":
            three.reverse()
        rows.append((vpn, f"{len(own)}", *(text.quantity(value, table.unit) for value in three)))
    return rows
