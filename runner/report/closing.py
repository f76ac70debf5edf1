"""The answers of several runs of one command, each under another kernel or by another line: what stands at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.report.model import Report
from runner.report.scale import above


def closing(reports: Mapping[str, Report]) -> list[str]:
    """A line for each kernel (empty: the machine's own) that has a report. What no run has measured comes first.
    Another kernel has another scale, so that what was measured under it is told apart."""
    absent = [set(report.absent) for report in reports.values() if report.in_a_line]
    nowhere = sorted(set.intersection(*absent)) if absent else []
    lines = [f"Not measured: {', '.join(nowhere)}, which no kernel here runs."] if nowhere else []
    for kernel, report in reports.items():
        lines.append(
            f"Under {kernel}, which has a scale of its own: {_answer(report)}" if kernel else _closing_line(report)
        )
    return lines


def by_uplink(reports: Iterable[Report]) -> list[str]:
    """A line for each uplink of two sites, where these reports are of several."""
    named = {fact.value: report for report in reports for fact in report.facts if fact.name == "lab uplink"}
    return [f"Uplink {name}: {_closing_line(report)}" for name, report in named.items()] if len(named) > 1 else []


def _closing_line(report: Report) -> str:
    return f"{above(report.scale)} {_answer(report)}" if report.scale else _answer(report)


def _answer(report: Report) -> str:
    return report.in_a_line or "nothing could be ranked."
