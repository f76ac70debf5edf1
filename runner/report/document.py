"""The whole report as blocks, from its first line to its last: one function makes each section. Markdown, which is read
from the top, has all sections; a paper (LaTeX) has those that a paper needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.levels import BASELINE
from runner.design.blocks import Block, Heading, Note, Paragraph, Plot, Table, TableCell
from runner.report import proofs, text
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_levels, row_repetitions, row_share
from runner.report.facts import interval_method
from runner.report.headings import machine
from runner.report.model import Report
from runner.report.plots.thinning import note, thin_experiment
from runner.report.scale import above

HEAD = ("VPN", "levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status")  # of a metric's table


def whole(report: Report, plots: Mapping[str, Sequence[Plot]], where: str = "") -> list[Block]:
    """All sections of the report. ``plots``: experiment -> the plots to show; ``where``: the run folder, for the
    command that continues the run."""
    blocks: list[Block] = [Heading(f"vpneval: {report.run_id}", level=1), *no_scale(report), Paragraph(machine(report))]
    answers = report.lead(where or report.run_id)
    for said in answers:
        blocks += said.whole
    blocks += [Paragraph(caveat, "caveat") for caveat in report.caveats]
    for said in answers:
        blocks += said.below
    if report.references:
        blocks.append(Paragraph(f"Shown for reference, not ranked: {', '.join(report.references)}."))
    blocks += _left_out(report)
    for experiment in report.experiments:
        blocks += [
            *opening(experiment),
            *plots.get(experiment.name, ()),
            *measurements(thin_experiment(report, experiment)),
        ]
    for section in (*report.sections.values(), proofs.section(report.proofs)):
        blocks += [block for block in section if not isinstance(block, Plot)]
    return [*blocks, *how_to_read(report), *warnings(report), *provenance(report), *lab(report)]


def for_a_paper(report: Report) -> list[Block]:
    """The sections for a paper: the answers, the tables of each experiment, and where they come from."""
    blocks: list[Block] = [*no_scale(report)]
    answers = report.lead()
    for said in answers:
        blocks += said.whole
    for said in answers:
        blocks += _without_folds(said.below)
    blocks += _left_out(report)
    for experiment in report.experiments:
        blocks += [Heading(experiment.name), *measurements(thin_experiment(report, experiment))]
    blocks += [*warnings(report), *how_to_read(report), *provenance(report)]
    return [*blocks, Paragraph(f"Run {report.run_id}. Machine: {machine(report)}.")]


def no_scale(report: Report) -> list[Block]:
    """That data planes cannot be compared in this run, and why; empty where they can."""
    return [Paragraph(above(report.scale), "caveat")] if report.scale else []


def opening(experiment: ExperimentReport) -> list[Block]:
    """What the experiment asks, and how it measures."""
    method = experiment.method + (f" ({experiment.source})" if experiment.source else "")
    return [Heading(experiment.name), Paragraph(experiment.question, "strong"), Paragraph(method)]


def measurements(experiment: ExperimentReport) -> list[Block]:
    """A table for each metric; then what did not work and why, under the numbers that the tables refer to."""
    blocks: list[Block] = []
    for metric in experiment.tables:
        about = f"{metric.better} is better; {metric.common}"
        rows: list[list[str | TableCell]] = [
            [row.vpn, row_levels(row), *number_cells(row, metric), TableCell(row.status, note=row.problem or 0)]
            for row in metric.rows
        ]
        blocks.append(Table(metric.title, HEAD, rows, about, numbers=range(2, 6)))
        blocks += [Paragraph(metric.crypto_limit, "soft")] if metric.crypto_limit else []
    notes = [
        Note(f"{', '.join(problem.cells)}: {problem.reason}", problem.status, problem.number)
        for problem in experiment.problems
    ]
    return [*blocks, notes]


def how_to_read(report: Report) -> list[Block]:
    """How intervals and ranks were made."""
    how = [interval_method(report.summaries), *(words for said in report.lead(report.run_id) for words in said.how)]
    return [Heading("How to read this"), *map(Paragraph, how)]


def warnings(report: Report) -> list[Block]:
    """The warnings of single trials; empty where there are none."""
    return [Heading("Warnings"), list(map(Note, report.warnings))] if report.warnings else []


def provenance(report: Report) -> list[Block]:
    """How the run was made, and when."""
    share = text.percent(report.measuring_share, 0)
    made = [
        f"Command: {report.command_line}",
        f"Started: {report.created_at}, vpneval {report.vpneval_version}",
        f"Trials: {text.trials(report.trials) or 'none'}",
        f"Time: {text.duration(report.elapsed_s)}, {share} of it spent measuring",
        *([f"Until significant: {report.separation}"] if report.separation else []),
    ]
    profile = Paragraph(report.profile_note, lead=f"Profile {report.profile}")
    made += [f"To cite it: {report.citation}"]
    return [Heading("Where this comes from"), profile, list(map(Note, made))]


def lab(report: Report) -> list[Block]:
    """The facts of the machine, the lab and the software."""
    return [Heading("The lab"), Table("", ["fact", "value"], [[fact.name, fact.value] for fact in report.facts])]


def _without_folds(blocks: Sequence[Block]) -> list[Block]:
    """The blocks without the sections that unfold on the page: these are too long for a paper."""
    kept, folded = list[Block](), False
    for block in blocks:
        folded = bool(block.fold) if isinstance(block, Heading) else folded
        kept += [] if folded else [block]
    return kept


def _left_out(report: Report) -> list[Block]:
    return [Paragraph(note(report))] if note(report) else []


def number_cells(row: Row, table: MetricTable) -> list[str]:
    """Median with its interval, share of the baseline, repetitions, coefficient of variation."""
    if not row.summary:
        return [text.NONE, text.NONE, row_repetitions(row), text.NONE]
    return [
        text.with_interval(row.summary, table.unit, row.at_least > 0),
        "baseline" if row.vpn == BASELINE else row_share(row, table),
        row_repetitions(row),
        text.percent(row.summary.variation),
    ]
