"""The answer of several runs of one machine, each under another kernel: the end of ``make compare``."""

from __future__ import annotations

from collections.abc import Mapping

from runner.report.answer import answers
from runner.report.choice_words import in_a_line
from runner.report.model import Report


def closing(reports: Mapping[str, Report]) -> list[str]:
    """A line for each kernel (empty: the machine's own) that has a report. What no run has measured comes first.
    Another kernel has another scale, so that what was measured under it is told apart."""
    absent = [set(report.choice.absent) for report in reports.values() if report.choice]
    nowhere = sorted(set.intersection(*absent)) if absent else []
    lines = [f"Not measured: {', '.join(nowhere)}, which no kernel here runs."] if nowhere else []
    for kernel, report in reports.items():
        scale = f"Under {kernel}, which has a scale of its own: " if kernel else ""
        lines.append(scale + _said(report))
    return lines


def _said(report: Report) -> str:
    if report.choice:
        return in_a_line(report.choice)
    every = answers(report)
    return f"{every[0].name}: {every[0].verdict}" if every else "nothing could be ranked."
