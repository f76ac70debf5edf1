"""The whole report as blocks, from its first line to its last: one function makes each section. Markdown, which is read
from the top, has all sections; a paper (LaTeX) has those that a paper needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.metric import Metric
from runner.data.numbers import chance
from runner.design.blocks import Block, Heading, Note, Paragraph, Plot, Table, TableCell
from runner.ranking.ranking import Ranking
from runner.report import proofs, text, verdicts
from runner.report.answer import RankingAnswer, answers, change, missing, numbers_of, place_of, sure, surer, unit_of
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_levels, row_repetitions, row_share
from runner.report.facts import BASELINE, interval_method
from runner.report.headings import machine
from runner.report.model import Report
from runner.report.plots.thinning import note, thin_experiment
from runner.report.ranked_numbers import RankedNumber
from runner.report.scale import above
from runner.report.verdicts import sentence

ARROWS = {"higher": "↑", "lower": "↓"}  # which way is better
HEAD = ("VPN", "levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status")  # of a metric's table


def whole(report: Report, plots: Mapping[str, Sequence[Plot]], where: str = "") -> list[Block]:
    """All sections of the report. ``plots``: experiment -> the plots to show; ``where``: the run folder, for the
    command that continues the run."""
    blocks: list[Block] = [Heading(f"vpneval: {report.run_id}", level=1), *no_scale(report), Paragraph(machine(report))]
    for answered in report.leading_answers:
        blocks += answered.say(where or report.run_id).whole
    for answer_ in answers(report) if report.ranks_count else []:
        blocks += answer(report, answer_, where or report.run_id)
    blocks += [Paragraph(caveat, "caveat") for caveat in report.caveats]
    for ranking_ in report.rankings:
        blocks += ranking(ranking_, report.metrics) if report.ranks_count else []
        blocks += verdicts.section(report.verdicts, report.spreads, ranking_, report.metrics)
    if not report.rankings:
        blocks.append(Paragraph("Nothing to rank: no VPN measured anything in a named configuration."))
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
        blocks += section
    return [*blocks, *how_to_read(report), *warnings(report), *provenance(report), *lab(report)]


def for_a_paper(report: Report) -> list[Block]:
    """The sections for a paper: the answer of each ranking, its ranks, the tables of each experiment, and where they
    come from."""
    blocks: list[Block] = [*no_scale(report)]
    for answered in report.leading_answers:
        blocks += answered.say("").whole
    if report.ranks_count:
        for answer_ in answers(report):
            blocks += answer(report, answer_)
        for ranking_ in report.rankings:
            blocks += ranking(ranking_, report.metrics)
    blocks += _left_out(report)
    for experiment in report.experiments:
        blocks += [Heading(experiment.name), *measurements(thin_experiment(report, experiment))]
    blocks += [*warnings(report), *how_to_read(report), *provenance(report)]
    return [*blocks, Paragraph(f"Run {report.run_id}. Machine: {machine(report)}.")]


def no_scale(report: Report) -> list[Block]:
    """That data planes cannot be compared in this run, and why; empty where they can."""
    return [Paragraph(above(report.scale), "caveat")] if report.scale else []


def answer(report: Report, answer_: RankingAnswer, where: str = "") -> list[Block]:
    """The answer of one ranking: the verdict in words, the ranking as values, the first VPN against the second, the
    weights that would change the order, how much longer a sure answer takes, and the VPNs that are not ranked.
    ``where``: the run folder, for the command that continues the run; empty: without that command."""
    against = [sentence(report.metrics[pair.metric], pair) for pair in answer_.against]
    changes = [answer_.change] if answer_.change else []
    longer = [surer(report, answer_, where) if where else sure(report, answer_)] if answer_.pairs else []
    sentences = [
        *against,
        *answer_.broke,
        *changes,
        *longer,
        *(f"Not ranked here: {words}" for words in missing(answer_)),
    ]
    meaning = f"{answer_.name[:1].upper() + answer_.name[1:]}: {answer_.meaning}."
    return [
        Heading(f"The answer, {answer_.name}"),
        Paragraph(answer_.verdict, "strong"),
        *_values(report, answer_),
        list(map(Note, sentences)),
        *([Paragraph(meaning)] if answer_.meaning else []),
    ]


def ranking(ranking_: Ranking, metrics: Mapping[str, Metric]) -> list[Block]:
    """The ranking as ranks: place, average rank and the rank in each metric of every ranked VPN; then the pairs whose
    order is not sure, and the VPNs that are not ranked."""
    rows = rank_rows(ranking_)
    head = ["place", "VPN", "configuration", "average rank", "place (95 %)", "ranks first"]
    head += [
        f"{text.short(metric, metrics)} ×{weight:g}" for metric, weight in ranking_.weights.counted_metrics.items()
    ]
    notes = [Note(words) for words in (text.doubts(ranking_), change(ranking_, most=None)) if words]
    notes += [Note(f"not ranked: {why}", lead=f"{vpns}:") for vpns, why, _ in text.unranked_vpns(ranking_)]
    title = Heading(f"Ranking: {ranking_.configuration}" + (f", {ranking_.image}" if ranking_.image else ""))
    weights = f"Weights: {text.weights(ranking_, metrics)}"
    if not rows:
        return [title, Paragraph(weights), Paragraph("No VPN could be ranked."), notes]
    return [title, Table("", head, rows, weights, notes, numbers=[0, *range(3, len(head))])]


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
    methods = dict.fromkeys(
        method
        for ranking_ in (report.rankings if report.ranks_count else ())
        for method in (ranking_.method, ranking_.probability_method)
    )
    how = [interval_method(report.summaries), *(f"Ranking: {method}." for method in methods)]
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


def _left_out(report: Report) -> list[Block]:
    return [Paragraph(note(report))] if note(report) else []


def _values(report: Report, answer: RankingAnswer) -> list[Block]:
    """The ranking as values, a row for each VPN that has a value: its place, how often it ranks first, and for each
    metric that counts the median with its 95 % interval. VPNs that cannot be told apart share a place."""
    ranking = report.rankings[answer.number]
    numbers = numbers_of(report, answer.number)
    counted = [metric for metric in ranking.weights.counted_metrics if metric in numbers]
    places = place_of(ranking)
    measured = [
        standing
        for standing in ranking.standings
        if any(standing.vpn in numbers[metric].summaries for metric in counted)
    ]
    head = ["place", "VPN", "configuration", "ranks first"]
    rows = [
        [
            places.get(standing.vpn, text.NONE),
            standing.vpn,
            text.configuration(standing.levels),
            chance(standing.best_probability),
        ]
        for standing in measured
    ]
    for metric in counted:
        known = report.metrics[metric]
        scale, unit = unit_of(numbers[metric], known.unit)
        head.append(f"{known.short or known.title} ({unit}) {ARROWS[known.better]}")
        for row, standing in zip(rows, measured, strict=True):
            row.append(_value(numbers[metric], standing.vpn, scale))
    return [Table("", head, rows, numbers=[0, *range(3, len(head))])] if rows else []


def _value(numbers: RankedNumber, vpn: str, scale: float) -> str:
    """``341 (325–358)``, in the unit of the column."""
    summary = numbers.summaries.get(vpn)
    if summary is None:
        return text.NONE
    bound = "≥ " * (vpn in numbers.at_least)
    return f"{bound}{text.digits(summary.median / scale)} ({text.spread(summary, scale)})"


def rank_rows(ranking: Ranking) -> list[list[str]]:
    """A row for each VPN that is ranked: place, VPN, configuration, average, places, how often first, its ranks."""
    ranks = [text.ranks(ranking, metric) for metric in ranking.weights.counted_metrics]
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
