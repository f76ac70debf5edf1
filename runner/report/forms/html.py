"""The report as one HTML page: no network, light and dark. Every field is escaped; the page can be read without
scripts.

The order is that of a reader: the verdict, the ranking as values beside the weights, what limits the VPNs, each
experiment as one plot with its answer for a title, and last where all of it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from runner.data.store import without_collector
from runner.data.trials import cell_key
from runner.design.blocks import Block, Heading, Hyperlink, Note, Paragraph, Plot, Table, TableCell
from runner.design.question import Card, Page, Said
from runner.evidence.model import Configuration
from runner.report import document, gateway_cores, proofs, text
from runner.report.experiments import ExperimentReport, MetricTable, Problem, Row, row_levels
from runner.report.forms.bibtex import bibtex
from runner.report.forms.elements import blocks_html, fill, macros
from runner.report.forms.explore import page_data, script_json, table_id, tables_of
from runner.report.forms.listed import Told, trials_of
from runner.report.headings import machine, title
from runner.report.limits import ABOUT as ABOUT_LIMITS
from runner.report.limits import orders_of, rows_of
from runner.report.model import Answered, Report
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Samples
from runner.report.plots.thinning import RANGE_HEAD, note, ranges, thin_experiment
from runner.report.scale import above
from runner.report.titles import answer_of

TALLEST = 1200  # px; a taller plot of an experiment is folded with the tables
LISTED = 4000  # measurements; with more, the page does not list the trials, which are in trials.jsonl


@without_collector()
def html_text(report: Report, folder: Path | None = None) -> str:
    """The whole report as one page. ``folder``: the run folder, for the commands on the page; without it, they name the
    run."""
    where = str(folder or report.run_id)
    data = page_data(report)
    samples, told = Samples(report), Told()
    absent = _absent_reasons(report)
    logs = {seen.trial: seen.log for seen in report.observations if seen.log}
    leading = [one for one in report.judged if one.question.leads]
    answers = report.lead(where)
    order = answers[0].order if answers else ()
    page = Page(logs, samples.colours, [tables_of(report, compared) for compared in report.configurations], order)
    cards = [(one, one.card(where, page)) for one in leading]
    data |= {one.question.name: card.data for one, card in cards if card}
    return fill(
        "report.html.j2",
        next((said.headline or said.line for said in answers), "") or title(report),
        *(card.folder / script for _, card in cards if card for script in card.scripts),
        "page.js",
        report=report,
        measured=title(report),
        bibtex=bibtex(report),
        machine=machine(report),
        scale=above(report.scale) if report.scale else "",
        answered=[_draw_answer(one, card, where, "p" if number else "h1") for number, (one, card) in enumerate(cards)],
        rates=blocks_html([block for _, card in cards if card for block in card.costs]),
        limits=_limits(report),
        about_limits=ABOUT_LIMITS if report.limits.rows else "",
        about_cores=gateway_cores.ABOUT,
        about_apart=report.limits.about_apart,
        capacity=_capacity(report),
        experiments=[
            _experiment(report, experiment, number, samples, absent, told)
            for number, experiment in enumerate(report.experiments)
        ],
        absent=_footnotes(absent),
        papers=_papers(report),
        sections=_links(report, where),
        provenance=_provenance(report),
        counts=text.trials(report.trials),
        data=Markup(script_json(data)),
    )


def _draw_answer(one: Answered, card: Card | None, where: str, element: str) -> dict[str, Any]:
    """The answer to a question, drawn by its macros where it has some; ``shown``: what they draw; ``element``: of its
    headline."""
    said = one.say(where)
    assert said
    if card is None:
        headline = Markup("<{0} class=who>{1}</{0}>").format(Markup(element), said.headline or said.line)
        return {"drawn": None, "words": headline + blocks_html([*_below_headline(said), *said.beside])}
    drawn = macros(card.folder / card.macros)
    words = drawn.answer(card.context, blocks_html(said.beside), element).strip()
    return {"drawn": drawn, "shown": card.context, "words": words}


def _below_headline(said: Said) -> Sequence[Block]:
    """What is told briefly, without the headline where it begins with that."""
    headline = said.headline or said.line
    return [
        block
        for number, block in enumerate(said.brief)
        if number or not isinstance(block, Paragraph) or block.words != headline
    ]


def _limits(report: Report) -> list[dict[str, Any]]:
    """For each configuration: what limits each VPN, which VPN carries most per core, and how many cores of the gateways
    the rates of the ladder take."""
    made = []
    for number, (compared, found) in enumerate(zip(report.configurations, report.ladders, strict=True)):
        name = text.configuration_name(compared.configuration, compared.image)
        tables: list[Block] = []
        for carried, what in gateway_cores.KINDS:
            rates, rows = gateway_cores.table(found, carried)
            if rows:
                title = f"Cores that a rate of {what} takes, of both gateways together, {name}"
                tables.append(Table(title, ["VPN", *rates], rows, numbers=range(1, 1 + len(rates)), named=True))
                tables += _parts(found, carried, f"Whose cores these are: {what}, {name}")
        made.append(
            {
                "number": number,
                "says": gateway_cores.most_per_core(compared),
                "table": blocks_html(tables),
                "limited": blocks_html(_limit_blocks(report, compared, name)),
                "orders": [f"{order.title}: {order.says}" for order in orders_of(report.limits, compared)],
            }
        )
    return [entry for entry in made if entry["table"] or entry["limited"]]


def _parts(found: Sequence[gateway_cores.CoresLadder], carried: gateway_cores.Kind, title: str) -> list[Block]:
    """The parts of the cores, where the run has them."""
    rates, rows = gateway_cores.table(found, carried, lambda at: at.says_parts)
    if not any(cell != text.NONE for row in rows for cell in row[1:]):
        return []
    return [Paragraph(gateway_cores.ABOUT_PARTS), Table(title, ["VPN", *rates], rows, named=True)]


def _limit_blocks(report: Report, compared: Configuration, name: str) -> list[Block]:
    """What limits each throughput that is compared, in a sentence that unfolds its figures, and what gateways with
    cores of their own would carry."""
    rows: list[list[str | TableCell]] = []
    for row in rows_of(report.limits, compared):
        why = TableCell(row.says, opens=[Note(line) for line in row.limit.evidence])
        _, _, rate, _, separate = row.cells
        rows.append([TableCell(row.vpn, small=report.metrics[row.metric].title), rate, why, separate])
    heads = ["VPN", "median", "what limits it", "on separate gateways"]
    title = f"What limits each throughput, {name}"
    return [Table(title, heads, rows, numbers=[1, 3], named=True)] if rows else []


def _capacity(report: Report) -> dict[str, Any]:
    """The table of VPNs that sustain a rate at no more than a share of the CPU, to be filled by the page's script;
    empty where rate and cost are not known."""
    if not report.cores or not report.cpu_of or not report.sustained:
        return {}
    head = ["VPN and levels", "TCP throughput (Mbit/s)", "CPU for this rate", "sustains it"]
    return {
        "table": blocks_html([Table("The configuration of each VPN that sustains it best", head, [], numbers=[1, 2])]),
        "whose": f"of {report.cpu_of}, as a share of {text.count_noun(report.cores, 'core')}",
    }


def _experiment(
    report: Report,
    experiment: ExperimentReport,
    number: int,
    samples: Samples,
    absent: Mapping[str, list[str]],
    told: Told,
) -> dict[str, Any]:
    """One plot with its answer for a title; all other plots, tables and trials folded below."""
    left_out = note(report)
    many = f"{len(report.observations)} measurements: trials.jsonl lists them, this page does not."
    listed = len(report.observations) <= LISTED
    ranged = [
        Table(f"{table.title}: all cells of each VPN", RANGE_HEAD, ranges(table), numbers=range(1, 5), named=True)
        for table in (experiment.tables if left_out else ())
        if table.measured_rows
    ]
    plots = plots_of(report, experiment, samples)
    first = next((plot for plot in plots if _height(plot) <= TALLEST), None)
    others = [plot for plot in plots if plot is not first]
    tables = thin_experiment(report, experiment).tables
    folded: list[Block] = [*others, *ranged]
    for table in tables:
        folded += _metric(table, table_id(number, table), samples if listed else None, told)
    return {
        "id": text.experiment_anchor(number),
        "name": experiment.name,
        "answer": answer_of(experiment),
        "question": experiment.question,
        "method": experiment.method + (f" ({experiment.source})" if experiment.source else ""),
        "plot": blocks_html([first] if first else []),
        "notes": [words for words in (left_out, "" if listed else many) if words],
        "folded": blocks_html(folded),
        "fold": f"{text.count_noun(len(tables), 'table')} with every trial"
        + (f", {text.count_noun(len(others), 'plot')} more" if others else ""),
        "absent": sorted({row.vpn for table in experiment.tables for row in table.rows} & absent.keys()),
        "missing": [
            entry
            for problem in experiment.problems
            if (entry := _problem(experiment, problem, samples, absent))["cells"]
        ],
    }


def _height(plot: Plot) -> float:
    """The height of a plot in px; 0 where its specification does not have it."""
    height = plot.spec.get("height")
    return float(height) if isinstance(height, int | float) else 0.0


def _absent_reasons(report: Report) -> dict[str, list[str]]:
    """VPN -> why it is not supported, for the VPNs of which no experiment has a number for that reason."""
    rows = [row for experiment in report.experiments for table in experiment.tables for row in table.rows]
    measured = {row.vpn for row in rows if row.summary or row.status != "unsupported"}
    reasons_of: dict[str, list[str]] = {}
    for row in rows:
        if row.vpn not in measured and row.reason not in reasons_of.setdefault(row.vpn, []):
            reasons_of[row.vpn].append(row.reason)
    return reasons_of


def _footnotes(absent: Mapping[str, list[str]]) -> list[tuple[str, list[str]]]:
    """(VPNs, reasons): VPNs that are absent for the same reasons share a footnote."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for vpn, reasons in sorted(absent.items()):
        alike.setdefault(tuple(reasons), []).append(vpn)
    return [(", ".join(vpns), list(reasons)) for reasons, vpns in alike.items()]


def _problem(
    experiment: ExperimentReport, problem: Problem, samples: Samples, absent: Mapping[str, list[str]]
) -> dict[str, Any]:
    """One problem: its reason, the cells that it explains, and the logs of the failed trials. VPNs that are ``absent``
    from the whole report are left out: the end of the report has their reasons."""
    rows = [row for table in experiment.tables for row in table.rows if row.problem == problem.number]
    logs = dict.fromkeys(seen.log for row in rows for seen in samples.failed_observations(row) if seen.log)
    vpns = dict.fromkeys(row.vpn for row in rows)  # one of the cells is of each
    return {
        "cells": ", ".join(cell for vpn, cell in zip(vpns, problem.cells, strict=True) if vpn not in absent),
        "status": problem.status,
        "class": _class(problem.status),
        "reason": problem.reason,
        "logs": [Hyperlink("log", file=log) for log in logs],
    }


def _metric(metric: MetricTable, name: str, samples: Samples | None, told: Told) -> list[Block]:
    head = ["VPN and levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
    rows = [_number_row(row, metric, name, samples, told) for row in metric.measured_rows]
    if all(row.status == "ok" and not row.reason for row in metric.measured_rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    about = f"{metric.better} is better; {metric.common}"
    table = Table(metric.title, head, rows, about, numbers=range(1, 5), named=True, name=name)
    return [table, *([Paragraph(metric.crypto_limit, "soft")] if metric.crypto_limit else [])]


def _number_row(row: Row, metric: MetricTable, name: str, samples: Samples | None, told: Told) -> list[str | TableCell]:
    """A row of the table of this ``name``. The number of repetitions unfolds what was negotiated and the trials, with
    their logs; where another table has listed them, it leads there."""
    seen = samples.observations_of(row, metric.metric) if samples else []
    median, share, repetitions, variation = document.number_cells(row, metric)
    listed = told.listed.setdefault((cell_key(row.vpn, row.params), metric.metric), name)
    number = TableCell(repetitions, opens=trials_of(seen, metric.unit, told))
    if seen and listed != name:
        number = TableCell(repetitions, link=Hyperlink("", name=listed))
    tone = " ".join(["reference"] * row.reference + ["plain"] * row.not_encrypted)
    status = f"{row.status}: {row.reason}" if row.reason else row.status
    return [
        TableCell(row.vpn, small=row_levels(row), tone=tone),
        median,
        share,
        number,
        variation,
        TableCell(status, tone=f"{_class(row.status)} why" if row.reason else ""),
    ]


def _class(status: str) -> str:
    return {"lab_error": "failed"}.get(status, status.replace(" ", "-"))


def _links(report: Report, where: str) -> list[tuple[str, str]]:
    """The names of the sections that questions have, and their headings."""
    own = (block for said in report.say(where) for blocks in said.sections.values() for block in blocks)
    return [(block.name, block.words) for block in own if isinstance(block, Heading)]


def _papers(report: Report) -> Markup:
    """The sections on published numbers, failures and machines, where the run has any. What limits the throughputs is
    not among them: it stands with each configuration."""
    sections = report.sections
    sections.pop("limits", None)
    return Markup("").join(map(blocks_html, sections.values()))


def _provenance(report: Report) -> dict[str, Any]:
    facts = Table("What was measured on", ["fact", "value"], [[fact.name, fact.value] for fact in report.facts])
    return {
        "how": blocks_html(document.how_to_read(report)[1:]),
        "warnings": blocks_html(document.warnings(report)[1:]),
        "evidence": blocks_html(proofs.section(report.proofs)),
        "facts": blocks_html([facts]),
        "elapsed": text.duration(report.elapsed_s),
        "share": text.percent(report.measuring_share, 0),
    }
