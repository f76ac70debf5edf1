"""The report as one HTML page: no network, light and dark. Every field is escaped; without a script it still reads.

The order is that of a reader: the verdict, the ranking as values beside the weights, what limits it, each experiment as
one plot with its answer for a title, and last where all of it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from runner.data.store import uncollected
from runner.ranking.ranking import Ranking
from runner.report import behind, proofs, text, verdicts
from runner.report.answer import (
    MEANINGS,
    NAMES,
    Answer,
    again,
    answers,
    longer,
    machine,
    minutes_for,
    missing,
    numbers_of,
    recipe,
)
from runner.report.facts import BASELINE, interval_method
from runner.report.forms.elements import cells_html, figure, fill, link_html, row_head, section_html, table_html
from runner.report.forms.explore import page_data, script_json, table_id, tables_of
from runner.report.forms.matrix import matrix_of
from runner.report.gateway_cores import ABOUT as ABOUT_CORES
from runner.report.gateway_cores import COST, gateway_cores, heads
from runner.report.limits import ABOUT as ABOUT_LIMITS
from runner.report.limits import ABOUT_APART
from runner.report.model import ExperimentReport, MetricTable, Report, Row, row_levels, row_repetitions, row_share
from runner.report.observations import Observation
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Plot, Samples
from runner.report.plots.thinning import RANGE_HEAD, note, ranges, shown
from runner.report.titles import answer_of
from runner.report.why import sentence

TALLEST = 1200  # px of the plot that an experiment shows: a taller one is folded with the tables
LISTED = 4000  # measurements: of more the page lists no trials, and trials.jsonl has them


@uncollected()
def html_text(report: Report) -> str:
    """The whole report as one page."""
    data = page_data(report)
    samples = Samples(report)
    found = answers(report)
    return fill(
        "report.html.j2",
        f"vpneval: {report.run_id}",
        "page.js",
        report=report,
        machine=machine(report),
        cards=[_card(report, one) for one in found],
        matrices=[matrix_of(report, one) | {"more": _more(report, one)} for one in found],
        meanings=[(NAMES[name], MEANINGS[name]) for name in ("recommended", "comparable")],
        sliders=_sliders(data),
        presets=list(data["presets"]),
        vpns=list(dict.fromkeys(vpn for one in found for group in one.groups for vpn in group)) or [],
        compared=sorted({vpn for one in report.verdicts for vpn in (one.a, one.b)}),
        limits=_limits(report, found),
        about_cores=ABOUT_CORES,
        about_apart=ABOUT_APART if any(row.apart for row in report.limits.rows) else "",
        capacity=_capacity(report, data),
        experiments=[_experiment(report, one, number, samples) for number, one in enumerate(report.experiments)],
        papers=_papers(report),
        setups=_setups(report, samples),
        provenance=_provenance(report),
        counts=", ".join(f"{many} {status.replace('_', ' ')}" for status, many in report.trials.items() if many),
        data=Markup(script_json(data)),
    )


def _card(report: Report, answer: Answer) -> dict[str, Any]:
    """What the verdict card says of one ranking."""
    minutes = minutes_for(report, answer)
    leader = answer.groups[0][0] if answer.groups else ""
    levels = {one.vpn: one.levels for one in report.rankings[answer.number].standings}
    sure = "Every pair of VPNs is decided in every metric that counts."
    if answer.open:
        sure = f"{answer.open} of {text.counted(answer.pairs, 'pair')} are undecided"
        sure += f": {longer(answer.all_s)} of measuring would decide them" if minutes else ""
        sure += f", {longer(answer.leader_s)} those of the leader." if minutes and answer.leader_s else "."
    return {
        "number": answer.number,
        "name": answer.name,
        "verdict": answer.verdict,
        "against": [sentence(report.metrics[one.metric], one) for one in answer.against],
        "change": answer.change,
        "sure": sure,
        "again": again(report.command_line, report.run_id, minutes) if minutes else "",
        "missing": missing(answer),
        "recipe": recipe(leader, levels[leader]) if leader else "",
        "leader": leader,
    }


def _more(report: Report, answer: Answer) -> Markup:
    """What unfolds below a ranking: the verdict on each pair, and the numbers behind the ranks."""
    ranking = report.rankings[answer.number]
    numbers = report.behind[answer.number] if report.behind else []
    pairs = verdicts.html_part(report.verdicts, report.spreads, ranking, table_html)
    shown = behind.html_part(numbers, answer.number, report.metrics, tables_of(report, ranking), table_html)
    return Markup(pairs) + Markup(shown)


def _sliders(data: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The metrics that usually count, and the others."""
    named = {name for weights in data["presets"].values() for name, _ in weights}
    named |= {name for ranking in data["rankings"] for name, _ in ranking["weights"]["counted"]}
    usual = [metric for metric in data["metrics"] if metric["name"] in named]
    return usual, [metric for metric in data["metrics"] if metric["name"] not in named]


def _limits(report: Report, found: Sequence[Answer]) -> list[dict[str, Any]]:
    """For each ranking: what limits each VPN, who carries most per core, and the gateways' cores at the rates that
    people have."""
    made = []
    for answer in found:
        ranking = report.rankings[answer.number]
        paced_bps = float(ranking.traffic.get(COST, {}).get("cost_rate_bps", 0))
        cores = gateway_cores(numbers_of(report, answer.number), paced_bps)
        head = ["VPN", "TCP throughput for each core", *heads(paced_bps)]
        rows = [row_head(one.vpn, "") + cells_html([one.per_core, *one.at], numbers_from=0) for one in cores]
        caption = f"Cores that a rate takes, of both gateways together, {answer.name}"
        most = cores[0] if cores and cores[0].most_bps else None
        made.append(
            {
                "number": answer.number,
                "says": f"{most.vpn} carries the most TCP for each core: {most.per_core}." if most else "",
                "table": table_html(caption, head, rows, numbers=range(1, len(head))) if rows else "",
                "limited": _limited(report, ranking, answer.name),
            }
        )
    return [one for one in made if one["table"] or one["limited"]]


def _limited(report: Report, ranking: Ranking, name: str) -> Markup | str:
    """What limits each throughput that this ranking ranks: the sentence, which opens into its figures, and what
    gateways with cores of their own would carry."""
    levels = {standing.vpn: standing.levels for standing in ranking.standings}
    rows = []
    for row in report.limits.rows:
        asked = levels.get(row.vpn, {}) | ranking.traffic.get(row.metric, {"measure": ""})
        if not (row.vpn in levels and asked.items() <= row.params.items()):
            continue
        figures = Markup("").join(Markup("<li>{}</li>").format(line) for line in row.limit.evidence)
        why = Markup("<td><details><summary>{}</summary><ul>{}</ul></details></td>").format(row.says, figures)
        _, _, rate, _, separate = row.cells
        head = row_head(row.vpn, report.metrics[row.metric].title)
        rows.append(head + cells_html([rate], numbers_from=0) + why + cells_html([separate], numbers_from=0))
    if not rows:
        return ""
    heads = ["VPN", "median", "what limits it", "on separate gateways"]
    return table_html(f"What limits each throughput, {name}", heads, rows, note=ABOUT_LIMITS, numbers=[1, 3])


def _capacity(report: Report, data: Mapping[str, Any]) -> dict[str, Any]:
    """Which VPN sustains a rate at no more than a share of the CPU? Empty where that is not known."""
    if not report.cores or not report.cpu_of or not report.sustained:
        return {}
    head = ["VPN and levels", "TCP throughput (Mbit/s)", "CPU for this rate", "sustains it"]
    return {
        "listed": "The configurations that no other of their VPN beats" if data["unbeaten"] else "Every configuration",
        "table": table_html("Rate and CPU", head, [], numbers=[1, 2]),
        "whose": f"of {report.cpu_of}, as a share of {text.counted(report.cores, 'core')}",
    }


def _experiment(report: Report, experiment: ExperimentReport, number: int, samples: Samples) -> dict[str, Any]:
    """One plot with its answer for a title; all other plots, tables and trials folded below."""
    left_out = note(report)
    listed = len(report.observations) <= LISTED
    ranged = [
        table_html(f"{table.title}: all cells of each VPN", RANGE_HEAD, _plain(ranges(table)), numbers=[1, 2, 3, 4])
        for table in (experiment.tables if left_out else ())
        if table.measured
    ]
    plots = plots_of(report, experiment, samples)
    first = next((plot for plot in plots if _height(plot) <= TALLEST), None)
    others = [plot for plot in plots if plot is not first]
    tables = shown(report, experiment).tables
    return {
        "id": f"experiment-{number}",
        "name": experiment.name,
        "answer": answer_of(experiment),
        "question": experiment.question,
        "method": experiment.method + (f" ({experiment.source})" if experiment.source else ""),
        "plot": figure(first) if first else "",
        "others": [figure(plot) for plot in others],
        "notes": [said for said in (left_out, "" if listed else _many(report)) if said],
        "tables": [*ranged, *[_metric(one, table_id(number, one), samples if listed else None) for one in tables]],
        "folded": f"{text.counted(len(tables), 'table')} with every trial"
        + (f", {text.counted(len(others), 'plot')} more" if others else ""),
        "missing": [_problem(experiment, one.number, samples) for one in experiment.problems],
    }


def _height(plot: Plot) -> float:
    """Of a plot in px, as far as its specification says."""
    height = plot.spec.get("height")
    return float(height) if isinstance(height, int | float) else 0.0


def _many(report: Report) -> str:
    return f"{len(report.observations)} measurements: trials.jsonl lists them, this page does not."


def _problem(experiment: ExperimentReport, number: int, samples: Samples) -> dict[str, Any]:
    """One reason, once, whose cells it explains, and the logs of those that failed."""
    one = next(problem for problem in experiment.problems if problem.number == number)
    rows = [row for table in experiment.tables for row in table.rows if row.problem == number]
    logs = dict.fromkeys(seen.log for row in rows for seen in samples.failed(row) if seen.log)
    return {
        "cells": ", ".join(one.cells),
        "status": one.status,
        "class": _class(one.status),
        "reason": one.reason,
        "logs": [link_html(log, "log") for log in logs],
    }


def _plain(rows: Sequence[Sequence[str]]) -> list[Markup]:
    return [
        Markup('<th scope="row">{}</th>{}').format(name, cells_html(numbers, numbers_from=0)) for name, *numbers in rows
    ]


def _metric(metric: MetricTable, name: str, samples: Samples | None) -> Markup:
    head = ["VPN and levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
    rows = [_measured(row, metric, samples) for row in metric.measured]
    about = f"{metric.better} is better; {metric.common}"
    table = table_html(metric.title, head, rows, note=about, numbers=list(range(1, 5)), name=name)
    return table + (Markup("<p class=soft>{}</p>").format(metric.crypto_limit) if metric.crypto_limit else "")


def _measured(row: Row, metric: MetricTable, samples: Samples | None) -> Markup:
    assert row.summary
    name = row_head(
        row.vpn, row_levels(row), "reference" if row.reference else "", "plain" if row.not_encrypted else ""
    )
    numbers = [
        text.with_interval(row.summary, metric.unit, row.at_least > 0),
        "baseline" if row.vpn == BASELINE else row_share(row, metric),
    ]
    status = f"{row.status}: {row.reason}" if row.reason else row.status
    return Markup("{}{}<td class=number>{}</td>{}<td class='{}'>{}</td>").format(
        name,
        cells_html(numbers, numbers_from=0),
        _trials(row, metric, samples),
        cells_html([text.percent(row.summary.variation)], numbers_from=0),
        f"{_class(row.status)} why" if row.reason else "",
        status,
    )


def _trials(row: Row, metric: MetricTable, samples: Samples | None) -> str | Markup:
    """The number of repetitions, which opens into the trials: value, what was negotiated, commands and logs."""
    seen = samples.of(row, metric.metric) if samples else []
    if not seen:
        return row_repetitions(row)
    items = Markup("").join(Markup("<li>{}</li>").format(_trial(one, metric)) for one in seen)
    return Markup("<details><summary>{}</summary><ul>{}</ul></details>").format(row_repetitions(row), items)


def _trial(seen: Observation, metric: MetricTable) -> Markup:
    where = f"{seen.repetition}" + (f" {seen.position}" if seen.position != "within" else "")
    value = text.quantity(seen.value or 0.0, metric.unit)
    said = f"{where}: {value}" + (f"; {seen.tunnel}" if seen.tunnel else "")
    logs = ((f"{seen.log}/commands.log", "commands"), (f"{seen.log}/", "logs")) if seen.log else ()
    links = Markup("").join(Markup(" ") + link_html(path, words) for path, words in logs)
    evidence = Markup(' <a href="#evidence-{}">evidence</a>').format(seen.proof) if seen.proof else ""
    return Markup("{}{}{}").format(said, links, evidence)


def _class(status: str) -> str:
    return {"lab_error": "failed"}.get(status, status.replace(" ", "-"))


def _papers(report: Report) -> Markup:
    """What is held against published numbers, and the stories of failures, where the run has any."""
    experiments = {one.name: f"experiment-{number}" for number, one in enumerate(report.experiments)}
    return Markup("").join(section_html(one, experiments) for one in report.sections if one.key != "limits")


def _setups(report: Report, samples: Samples) -> list[dict[str, Any]]:
    """How each VPN that was measured was set up: the levels, the command that prints the recipe, a trial's commands."""
    made = []
    for number, ranking in enumerate(report.rankings):
        for standing in ranking.standings:
            if not standing.blocks:
                continue
            found = [one for one in report.observations if one.vpn == standing.vpn and one.log and one.status == "ok"]
            mine = [one for one in found if standing.levels.items() <= one.params.items()]
            made.append(
                {
                    "number": number,
                    "vpn": standing.vpn,
                    "levels": ", ".join(f"{factor}={level}" for factor, level in standing.levels.items()),
                    "recipe": recipe(standing.vpn, standing.levels),
                    "log": link_html(f"{mine[0].log}/commands.log", "commands") if mine else "",
                }
            )
    return made


def _provenance(report: Report) -> dict[str, Any]:
    methods = dict.fromkeys(method for one in report.rankings for method in (one.method, one.probability_method))
    facts = [cells_html([fact.name, fact.value]) for fact in report.facts]
    return {
        "how": interval_method(report.summaries),
        "methods": list(methods),
        "evidence": section_html(proofs.section(report.proofs)),
        "facts": table_html("What was measured on", ["fact", "value"], facts),
        "elapsed": text.duration(report.elapsed_s),
        "share": text.percent(report.measuring_share, 0),
    }
