"""What an experiment found, in a sentence: the title of its plot."""

from __future__ import annotations

from collections.abc import Sequence

from runner.report import text
from runner.report.facts import BASELINE
from runner.report.model import ExperimentReport, MetricTable, Row, row_levels, row_share

HARDLY = 1.15  # a factor between the best and the worst level of a VPN, up to which its choice hardly matters
SAID = ("cipher", "integrity", "compression", "payload")  # factors whose levels need a word beside them
NAMED = 4  # VPNs for which it hardly matters


def main_table(experiment: ExperimentReport) -> MetricTable | None:
    """The metric that the experiment is about: its first one with two values."""
    return next((table for table in experiment.tables if len(_rows(table)) > 1), None)


def answer_of(experiment: ExperimentReport) -> str:
    """The answer to the experiment's question in its main metric; its question where nothing tells."""
    table = main_table(experiment)
    if table is None:
        return experiment.question
    by_vpn: dict[str, list[Row]] = {}
    for row in _rows(table):
        by_vpn.setdefault(row.vpn, []).append(row)
    varied = {vpn: rows for vpn, rows in by_vpn.items() if len(rows) > 1}
    return _levels(table, varied) if varied else _vpns(table)


def _rows(table: MetricTable) -> list[Row]:
    return [row for row in table.measured if row.vpn != BASELINE]


def _levels(table: MetricTable, varied: dict[str, list[Row]]) -> str:
    """Which levels of a VPN differ most, and where the choice hardly matters."""
    what = text.lower(table.title)
    factors = {vpn: _factor(rows) for vpn, rows in varied.items()}
    most = max(factors, key=lambda vpn: factors[vpn])
    low, high = _ends(varied[most])
    if not _apart(low, high):
        return f"The levels tell no {what} apart: every difference lies within the intervals."
    better, worse = _differing(high, low), _differing(low, high)
    said = f"In {most}, {better} has {factors[most]:.2g} times the {what} of {worse}"
    little = [vpn for vpn in factors if factors[vpn] <= HARDLY or not _apart(*_ends(varied[vpn]))]
    if little:
        names = ", ".join(little[:NAMED]) + (" and others" if len(little) > NAMED else "")
        return f"{said}; in {names}, no difference can be told."
    least = min(factors, key=lambda vpn: factors[vpn])
    return f"{said}; it matters least in {least}: {factors[least]:.2g} times." if least != most else f"{said}."


def _vpns(table: MetricTable) -> str:
    """Who is first and who is last; of plain IP's value where that was measured."""
    first, last = _rows(table)[0], _rows(table)[-1]
    assert first.summary
    assert last.summary
    if first.share and first.share.ratio and last.share and last.share.ratio and table.better == "higher":
        shares = [row_share(row, table) for row in (first, last)]
        return f"{first.vpn} has {shares[0]} of plain IP's {text.lower(table.title)}, {last.vpn} {shares[1]}."
    values = [text.with_interval(row.summary, table.unit, row.at_least > 0) for row in (first, last) if row.summary]
    return f"{first.vpn} has the best {text.lower(table.title)}, {values[0]}; {last.vpn} the worst, {values[1]}."


def _ends(rows: Sequence[Row]) -> tuple[Row, Row]:
    ordered = sorted(rows, key=lambda row: row.summary.median if row.summary else 0.0)
    return ordered[0], ordered[-1]


def _factor(rows: Sequence[Row]) -> float:
    low, high = _ends(rows)
    return high.summary.median / low.summary.median if high.summary and low.summary and low.summary.median > 0 else 1.0


def _apart(low: Row, high: Row) -> bool:
    """Do the 95 % intervals of both leave a gap?"""
    ends = (low.summary.high if low.summary else None, high.summary.low if high.summary else None)
    return ends[0] is not None and ends[1] is not None and ends[0] < ends[1]


def _differing(row: Row, other: Row) -> str:
    """The levels of ``row`` that ``other`` has not."""
    own = {factor: level for factor, level in row.params.items() if other.params.get(factor) != level}
    words = [text.configuration({factor: own[factor] for factor in ("cipher", "integrity") if factor in own})]
    words += [f"compression {own['compression']}"] if "compression" in own else []
    words += [f"{own['payload']} payload"] if "payload" in own else []
    rest = {factor: level for factor, level in own.items() if factor not in SAID}
    words += [text.wan(rest), text.traffic(rest)]
    return ", ".join(word for word in words if word) or row_levels(row) or "it"
