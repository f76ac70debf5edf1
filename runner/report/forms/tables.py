"""The report's data for other programs: one tidy table (CSV, Parquet), or all of it (JSON)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runner.data.levels import TUNNEL_FACTORS, traffic_factors
from runner.data.streams import visible_text
from runner.data.trials import cell_key
from runner.report.experiments import MetricTable, Row
from runner.report.model import Report

SUMMARY = ("n", "median", "mean", "low", "high", "variation")  # kinds of lines, see stats.Summary


FORMULA = ("=", "+", "-", "@")
MISSING = ("null", "NULL", "None", "NA", "N/A", "n/a", "<NA>", "#N/A")  # what pandas and R read as no value


def csv_text(report: Report) -> str:
    """The table as CSV that a spreadsheet may open: control characters are text, and a word that would be a formula, or
    no value at all for pandas or R (the cipher ``null``), has an apostrophe before it. A number is a number, also a
    negative one."""
    return _csv(report, _harmless)


def _harmless(cell: str) -> str:
    text = visible_text(cell)
    formula = text.lstrip().startswith(FORMULA) and not _is_number(text)
    return f"'{text}" if formula or text.strip() in MISSING else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv(report: Report, fit: Callable[[str], str]) -> str:
    """Tidy CSV (RFC 4180): a line for the ``value`` of each measurement of each trial, one for each of its
    ``sample``s, and one of kind ``none`` for a trial without a measurement; then the summaries of each cell, a
    line for each of SUMMARY; last, of kind ``citation``, how to cite the run, as ``reason``. Values are in ``unit``,
    unscaled; the coefficient of variation is a ratio."""
    # Columns of factors that no trial has a level of would be most of the table.
    used = {name for seen in report.observations for name, level in seen.params.items() if level}
    cells = (row.params for experiment in report.experiments for table in experiment.tables for row in table.rows)
    named = [*dict.fromkeys(name for params in cells for name in params if name in used)]
    traffic = traffic_factors([*named, *sorted(used - {*named})])
    factors = [*(name for name in TUNNEL_FACTORS if name in used), *traffic]
    out = io.StringIO()
    writer = _Writer(csv.writer(out), fit)
    about = ["repetition", "position", "status", "reason", "encrypted"]
    measured = ["metric", "unit", "kind", "index", "value"]
    writer.writerow(["run", "trial", "experiments", "vpn", *factors, *about, *measured])
    for seen in report.observations:
        trial = [report.run_id, seen.trial, " ".join(seen.experiments), seen.vpn]
        trial += [seen.params.get(factor, "") for factor in factors]
        trial += [str(seen.repetition), seen.position, seen.status, seen.reason, str(seen.encrypted).lower()]
        if seen.value is None:
            writer.writerow([*trial, "", "", "none", "", ""])
            continue
        writer.writerow([*trial, seen.metric, seen.unit, "value", "", repr(seen.value)])
        for index, sample in enumerate(seen.samples):
            writer.writerow([*trial, seen.metric, seen.unit, "sample", index, repr(sample)])
    _summaries(report, factors, writer)
    return out.getvalue()


def parquet_bytes(report: Report) -> bytes | None:
    """The same table as Parquet, with numbers as numbers, also of a factor whose levels are all numbers, and empty
    fields as null; None where polars, which makes it, is not installed (the extra ``data``)."""
    try:
        import polars
    except ImportError:
        return None
    numbers = {"repetition": polars.Int64, "index": polars.Int64, "value": polars.Float64, "encrypted": polars.Boolean}
    levels: dict[str, list[str]] = {}
    for name, level in (pair for seen in report.observations for pair in seen.params.items() if pair[1]):
        levels.setdefault(name, []).append(level)
    for name, own in levels.items():
        if all(map(_is_number, own)):
            numbers[name] = polars.Int64 if all(map(str.isdecimal, own)) else polars.Float64
    table = polars.read_csv(_csv(report, str).encode(), infer_schema=False).with_columns(
        polars.col(name).cast(kind) if kind != polars.Boolean else polars.col(name) == "true"
        for name, kind in numbers.items()
    )
    out = io.BytesIO()
    table.write_parquet(out)
    return out.getvalue()


@dataclass
class _Writer:
    """A writer of CSV whose cells are made ``fit``."""

    writer: Any
    fit: Callable[[str], str]

    def writerow(self, row: Sequence[object]) -> None:
        """Write a row."""
        self.writer.writerow([self.fit(str(cell)) for cell in row])


def _summaries(report: Report, factors: Sequence[str], writer: _Writer) -> None:
    """Write the summaries of every cell and metric, each once even if several experiments share the cell. These lines
    name no trial."""
    tables = [(experiment.name, table) for experiment in report.experiments for table in experiment.tables]
    grouped: dict[tuple[str, str], tuple[Row, MetricTable, list[str]]] = {}
    for name, table in tables:
        for row in table.measured_rows:
            key = (cell_key(row.vpn, row.params), table.metric)
            grouped.setdefault(key, (row, table, []))[2].append(name)
    for row, table, experiments in grouped.values():
        cell = [report.run_id, "", " ".join(experiments), row.vpn, *[row.params.get(factor, "") for factor in factors]]
        cell += ["", "", row.status, row.reason, str(not row.not_encrypted).lower()]
        for kind in SUMMARY:
            value = getattr(row.summary, kind)
            unit = {"n": "", "variation": "1"}.get(kind, table.unit)
            writer.writerow([*cell, table.metric, unit, kind, "", "" if value is None else repr(value)])
    cited = [report.run_id, *[""] * (len(factors) + 6), report.citation, "", "", "", "citation", "", ""]
    writer.writerow(cited)


def json_text(report: Report) -> str:
    """The whole report as JSON, without the raw samples: these are in trials.jsonl and in the CSV."""
    return report.model_dump_json(indent=1, exclude={"observations": {"__all__": {"samples", "search"}}}) + "\n"
