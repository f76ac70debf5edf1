"""The data with which the page tells which VPN sustains a rate, as JSON, and the names of its tables."""

from __future__ import annotations

import json
from typing import Any

from runner.data.numbers import lead
from runner.data.streams import printable
from runner.evidence.model import Configuration
from runner.evidence.ties import in_order
from runner.report.experiments import MetricTable
from runner.report.model import Report

MANY = 1000  # cells that the page knows with their rate and cost; of more, those that no other of their VPN beats


def page_data(report: Report) -> dict[str, Any]:
    """The data that the page's script works on, in the types that JSON has."""
    cells = _capacity(report)
    return {"capacity": unbeaten(cells) if len(cells) > MANY else cells, "cores": report.cores}


def script_json(data: Any) -> str:
    """``data`` as JSON that cannot end the script element that it stands in, without control characters."""
    return json.dumps(printable(data), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def table_id(experiment: int, table: MetricTable) -> str:
    """The id of a metric's table on the page, in the experiment of this number."""
    return f"table-{experiment}-{table.metric}"


def tables_of(report: Report, compared: Configuration) -> dict[str, str]:
    """Metric -> the id of the first table of an experiment that has the levels compared."""
    levels = compared.levels
    ids: dict[str, str] = {}
    for number, experiment in enumerate(report.experiments):
        for table in experiment.tables:
            ranked = any(
                row.vpn in levels and levels[row.vpn].items() <= row.params.items() for row in table.measured_rows
            )
            if ranked:
                ids.setdefault(table.metric, table_id(number, table))
    return ids


def _capacity(report: Report) -> list[dict[str, Any]]:
    """Each cell's TCP throughput (bit/s) and CPU cost (s/GB) with their intervals."""
    return [
        {
            "vpn": cell.vpn,
            "levels": cell.levels,
            "rate": [cell.rate.low, cell.rate.median, cell.rate.high],
            "cost": [cell.cost.low, cell.cost.median, cell.cost.high],
        }
        for cell in report.sustained
    ]


def unbeaten(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells that no other cell of the same VPN beats in both rate and cost, by the medians."""
    least: dict[str, float] = {}
    best = []
    for cell in in_order(cells, [-cell["rate"][1] for cell in cells]):
        if lead(cell["cost"][1], least.get(cell["vpn"], float("inf"))) < 0:
            least[cell["vpn"]] = cell["cost"][1]
            best.append(cell)
    return best
