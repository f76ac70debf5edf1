"""What the page needs to rank anew in the reader's browser, as JSON: the ranks, the drawn ranks, the presets.

The arithmetic is runner/ranking.py's and runner/draws.py's, written again in page.js; tests/browser holds both against
each other, number by number."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

from runner.basis import Basis
from runner.draws import CONFIDENCE, DRAWS, TAIL, DrawnRanks
from runner.metrics import METRICS
from runner.model import cell_key
from runner.ranking import Ranking
from runner.report import text
from runner.report.model import MetricTable, Report, row_levels
from runner.weights import PRESETS

LARGEST_BYTE = 255
MANY = 1000  # cells that are listed with their rate and cost


def page_data(report: Report) -> dict[str, Any]:
    """Everything that the page's script works on; only what JSON has."""
    cells = _capacity(report)
    measured = [metric for metric in METRICS if any(metric in basis.values for basis in report.bases)]
    return {
        "run": report.run_id,
        "missing": report.missing,
        "draws": DRAWS,
        "tail": TAIL,
        "confidence": CONFIDENCE,
        "metrics": [
            {"name": name, "title": text.title(name), "short": text.SHORT.get(name, name), "lower": text.lower(name)}
            for name in measured
        ],
        "presets": {
            name: list(preset.counted.items())
            for name, preset in PRESETS.items()
            if preset.counted.keys() <= set(measured)
        },
        # A report that was read from report.json has no bases, and its page no sliders.
        "rankings": [_ranking(report, *pair) for pair in zip(report.bases, report.rankings, strict=False)],
        "capacity": unbeaten(cells) if len(cells) > MANY else cells,
        "unbeaten": len(cells) > MANY,
        "cores": report.cores,
    }


def script_json(data: Any) -> str:
    """``data`` as JSON that cannot end the script element that it stands in."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def table_id(experiment: int, table: MetricTable) -> str:
    """The id of a metric's table on the page, in the experiment of this number."""
    return f"table-{experiment}-{table.metric}"


def tables_of(report: Report, ranking: Ranking) -> dict[str, str]:
    """Metric -> the id of the first table that has what the ranking ranks: its configuration's levels."""
    levels = {standing.vpn: standing.levels for standing in ranking.standings}
    found: dict[str, str] = {}
    for number, experiment in enumerate(report.experiments):
        for table in experiment.tables:
            ranked = any(row.vpn in levels and levels[row.vpn].items() <= row.params.items() for row in table.measured)
            if ranked:
                found.setdefault(table.metric, table_id(number, table))
    return found


def _ranking(report: Report, basis: Basis, made: Ranking) -> dict[str, Any]:
    return {
        "name": made.configuration + (f", {made.image}" if made.image else ""),
        "weights": {"name": made.weights.name, "counted": list(made.weights.counted.items())},
        "vpns": list(basis.levels),
        "levels": {vpn: text.configuration(levels) for vpn, levels in basis.levels.items()},
        "tables": tables_of(report, made),
        "ranks": basis.ranks,
        "reasons": basis.reasons,
        "drawn": {metric: _packed(drawn) for metric in basis.values if (drawn := basis.drawn(metric))},
    }


def _packed(drawn: DrawnRanks) -> dict[str, Any]:
    """The doubled ranks VPN by VPN, a byte each (two where there are very many VPNs), as gzip in base64."""
    wide = bool(drawn.doubled.max() > LARGEST_BYTE)
    columns = drawn.doubled.T.astype("<u2" if wide else np.uint8)
    packed = gzip.compress(columns.tobytes(), 6, mtime=0)
    return {"vpns": drawn.vpns, "wide": wide, "doubled": base64.b64encode(packed).decode()}


def _capacity(report: Report) -> list[dict[str, Any]]:
    """Each cell's TCP throughput (bit/s) and CPU cost (s/GB) with their intervals, each cell once."""
    found: dict[str, dict[str, Any]] = {}
    for experiment in report.experiments:
        tables = {table.metric: table for table in experiment.tables}
        if not {"tcp_throughput", "cpu_per_gigabyte"} <= tables.keys():
            continue
        costs = {cell_key(row.vpn, row.params): row.summary for row in tables["cpu_per_gigabyte"].measured}
        for row in tables["tcp_throughput"].measured:
            key, cost = cell_key(row.vpn, row.params), costs.get(cell_key(row.vpn, row.params))
            if row.summary and cost and not row.reference and key not in found:
                found[key] = {
                    "vpn": row.vpn,
                    "levels": text.levels(row.params) or row_levels(row),
                    "rate": [row.summary.low, row.summary.median, row.summary.high],
                    "cost": [cost.low, cost.median, cost.high],
                }
    return list(found.values())


def unbeaten(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of very many cells, those that no other one of the same VPN beats in both rate and cost, by the medians."""
    least: dict[str, float] = {}
    found = []
    for cell in sorted(cells, key=lambda cell: -cell["rate"][1]):
        if cell["cost"][1] < least.get(cell["vpn"], float("inf")):
            least[cell["vpn"]] = cell["cost"][1]
            found.append(cell)
    return found
