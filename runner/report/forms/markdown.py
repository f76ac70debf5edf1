"""The report as Markdown (GitHub's tables)."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

from runner.ranking.ranking import Ranking
from runner.report import cells, proofs, text, verdicts
from runner.report.facts import interval_method
from runner.report.model import ExperimentReport, MetricTable, Report, Row, row_levels
from runner.report.plots.plotting import Plot
from runner.report.plots.thinning import note, shown
from runner.report.sections import Section

PICTURES = "report-plots"  # the folder of pictures beside report.md


def markdown_text(report: Report, plots: Mapping[str, Sequence[Plot]] | None = None) -> str:
    """The whole report; everything that came from a run is escaped. ``plots``: experiment -> those whose pictures
    stand in the folder PICTURES beside it."""
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in report.trials.items() if number)
    share = text.percent(report.measuring_share, 0)
    lines = [
        f"# vpneval: {_md(report.run_id)}",
        "",
        f"**Profile {_md(report.profile)}**: {_md(report.profile_note)}",
        "",
        f"- Command: {_md(report.command_line)}",
        f"- Started: {_md(report.created_at)}, vpneval {_md(report.vpneval_version)}",
        f"- Trials: {counts or 'none'}; {text.counted(report.trimmed, 'trial')} trimmed",
        f"- Time: {text.duration(report.elapsed_s)}, {share} of it spent measuring",
        *([f"- Until significant: {_md(report.separation)}"] if report.separation else []),
        "",
        *[f"> **Note** {_md(caveat)}\n" for caveat in report.caveats],
    ]
    for ranking in report.rankings:
        lines += _ranking(ranking)
        lines += verdicts.markdown_lines(report.verdicts, report.spreads, ranking, table_lines)
    if not report.rankings:
        lines += ["Nothing to rank: no VPN measured anything in a named configuration.", ""]
    if report.references:
        lines += [f"Shown for reference, not ranked: {_md(', '.join(report.references))}.", ""]
    lines += [note(report), ""] if note(report) else []
    for experiment in report.experiments:
        lines += _experiment(shown(report, experiment), (plots or {}).get(experiment.name, ()))
    evidence = proofs.section(report.proofs)
    for one in [*report.sections, *([evidence] if evidence else [])]:
        lines += _section(one)
    lines += ["## How to read this", "", interval_method(report.summaries), ""]
    for method in dict.fromkeys(m for r in report.rankings for m in (r.method, r.probability_method)):
        lines += [f"Ranking: {_md(method)}.", ""]
    if report.warnings:
        lines += ["## Warnings", "", *[f"- {_md(warning)}" for warning in report.warnings], ""]
    lines += ["## The lab", "", *table_lines(["fact", "value"], [[fact.name, fact.value] for fact in report.facts])]
    return "\n".join(lines)


def _ranking(ranking: Ranking) -> list[str]:
    head = ["place", "VPN", "configuration", "weighted average rank", "place (95 %)", "chance of best"]
    head += cells.weighted(ranking)
    rows = cells.ranked(ranking)
    name = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    notes = [f"- **{_md(vpns)}** {_md(f'{text.IMPUTED} {why}')}" for vpns, why in text.imputed(ranking)]
    notes += [f"- {_md(sentence)}" for sentence in (text.doubts(ranking), text.slack(ranking)) if sentence]
    notes += [f"- **{_md(vpns)}** is not ranked: {_md(why)}" for vpns, why in text.unranked(ranking)]
    table = table_lines(head, rows) if rows else ["No VPN could be ranked.", ""]
    return [f"## Ranking: {_md(name)}", "", f"Weights: {_md(text.weights(ranking))}", "", *table, *notes, ""]


def _experiment(experiment: ExperimentReport, plots: Sequence[Plot]) -> list[str]:
    lines = [f"## {_md(experiment.name)}", "", f"**{_md(experiment.question)}**", ""]
    source = f" ({experiment.source})" if experiment.source else ""
    lines += [f"{_md(experiment.method + source)}", ""]
    for plot in plots:
        lines += [f"{_md(plot.title)}", "", f"![{_md(plot.alt)}]({PICTURES}/{plot.key}.svg)", ""]
    for metric in experiment.tables:
        better = f"{metric.better} is better; {metric.common}"
        head = ["VPN", "levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
        rows = [_row(row, metric) for row in metric.rows]
        lines += [f"### {_md(metric.title)}", "", _md(better), "", *table_lines(head, rows)]
        lines += [_md(metric.crypto_limit), ""] if metric.crypto_limit else []
    for problem in experiment.problems:
        what = f"**{problem.status}** {_md(', '.join(problem.cells))}"
        lines.append(f"{problem.number}. {what}: {_md(problem.reason)}")
    return [*lines, ""]


def _row(row: Row, metric: MetricTable) -> list[str]:
    status = row.status + (f" ({row.problem})" if row.problem else "")
    return [row.vpn, row_levels(row), *cells.measured(row, metric), status]


def _section(one: Section) -> list[str]:
    lines = [f"## {_md(one.title)}", "", _md(one.about), ""]
    lines += [f"**{_md(one.counts)}**", ""] if one.counts else []
    for table in one.tables:
        lines += [f"### {_md(table.title)}", ""] + ([_md(table.about), ""] if table.about else [])
        lines += table_lines(table.head, table.rows)
        lines += table_lines(["what needs words"], [[note] for note in table.notes]) if table.notes else []
    return lines + ([f"### {_md(one.line_title)}", "", "```csv", one.line, "```", ""] if one.line else [])


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table as lines, the empty one behind it included. ``head`` and ``rows`` are plain text."""

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(_md(cell) for cell in row) + " |"

    return [line(head), "|" + " --- |" * len(head), *[line(row) for row in rows], ""]


def _md(words: str) -> str:
    """``words`` as literal text on one line, within a table or not."""
    flat = html.escape(" ".join(words.split()), quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat)
