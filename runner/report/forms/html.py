"""The report as one HTML page: no network, light and dark. Every field is escaped; without a script it still reads.

Three scripts stand in it, Vega's, plots.js and page.js, and the content security policy names them by their digests:
nothing else runs, whatever a run folder holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import quote

from runner.data.store import uncollected
from runner.ranking.ranking import Ranking
from runner.ranking.words import chance
from runner.report import behind, failures, limits, paper_tables, proofs, text, verdicts
from runner.report.facts import BASELINE, interval_method
from runner.report.findings import html_section
from runner.report.forms.explore import page_data, places_of, script_json, table_id, tables_of
from runner.report.model import ExperimentReport, MetricTable, Report, Row, row_levels, row_repetitions, row_share
from runner.report.observations import Observation
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Plot, Samples
from runner.report.plots.thinning import RANGE_HEAD, note, ranges, shown
from runner.report.plots.vega import script as vega

LISTED = 4000  # measurements: of more the page lists no trials, and trials.jsonl has them


@uncollected()
def html_text(report: Report) -> str:
    """The whole report as one page."""
    title = f"vpneval: {report.run_id}"
    data = page_data(report)
    samples = Samples(report)
    links = [f'<a href="#ranking-{i}">Ranking: {escape(r.configuration)}</a>' for i, r in enumerate(report.rankings)]
    links += [f'<a href="#experiment-{i}">{escape(e.name)}</a>' for i, e in enumerate(report.experiments)]
    caveats = [f'<a href="#caveats">{text.counted(len(report.caveats), "caveat")}</a>'] if report.caveats else []
    tables = ['<a href="#paper-tables">Paper\'s tables</a>'] if report.paper_tables else []
    evidence = ['<a href="#evidence">Evidence</a>'] if report.proofs else []
    links += [*tables, *caveats, *evidence, '<a href="#lab">Lab</a>']
    rankings = [_ranking(report, ranking, number) for number, ranking in enumerate(report.rankings)]
    if not rankings:
        rankings = ["<p class=failed>Nothing to rank: no VPN measured anything in a named configuration.</p>"]
    references = f"<p>Shown for reference, not ranked: {escape(', '.join(report.references))}.</p>"
    methods = dict.fromkeys(method for r in report.rankings for method in (r.method, r.probability_method))
    parts = [
        f"<header><h1>{escape(title)}</h1>{_summary(report)}</header>",
        f'<nav aria-label="Contents">{" ".join(links)}</nav><main>',
        _weights(data) if report.bases else "",
        *rankings,
        references if report.references else "",
        _caveats(report),
        _question(report, data),
        *[_experiment(report, experiment, number, samples) for number, experiment in enumerate(report.experiments)],
        html_section(
            report.findings, table_html, {e.name: f"experiment-{i}" for i, e in enumerate(report.experiments)}
        ),
        limits.html_section(report.limits, table_html),
        failures.html_section(report.failures, table_html, link_html),
        paper_tables.html_section(report.paper_tables, table_html),
        proofs.html_section(report.proofs, table_html),
        f"<section><h2>How to read this</h2><p>{escape(interval_method(report.summaries))}</p>",
        *[f"<p>Ranking: {escape(method)}.</p>" for method in methods],
        "</section>",
        _list("Warnings", report.warnings),
        '<section id="lab" tabindex="-1"><h2>The lab</h2>',
        table_html("What was measured on", ["fact", "value"], [cells_html([f.name, f.value]) for f in report.facts]),
        "</section></main>",
        f'<script type="application/json" id="data">{script_json(data)}</script>',
    ]
    return page(title, "\n".join(part for part in parts if part), "page.js")


def page(title: str, body: str, *more: str) -> str:
    """A page of its own, the style, Vega, plots.js and the scripts named in ``more`` within it. ``title`` is text,
    ``body`` HTML."""
    scripts = [vega(), *map(resource, ("plots.js", *more))]
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<title>{escape(title)}</title><style>{resource('page.css')}</style></head><body>",
            body,
            *[f"<script>{one}</script>" for one in scripts],
            "</body></html>\n",
        ]
    )


def resource(name: str) -> str:
    """The text of a file beside this one: a script or a style sheet of the page."""
    return resources.files("runner.report.forms").joinpath(name).read_text(encoding="utf-8")


def _weights(data: Mapping[str, Any]) -> str:
    """The sliders and presets; hidden until the script works them."""
    named = {name for weights in data["presets"].values() for name, _ in weights}
    named |= {name for ranking in data["rankings"] for name, _ in ranking["weights"]["counted"]}
    usual = [metric for metric in data["metrics"] if metric["name"] in named]
    others = [metric for metric in data["metrics"] if metric["name"] not in named]
    more = f"<details><summary>{text.counted(len(others), 'further metric')}</summary>{_sliders(others)}</details>"
    presets = "".join(
        f'<button type="button" data-preset="{name}" aria-pressed="false">{name}</button>' for name in data["presets"]
    )
    return (
        '<section id="weights" class="panel" hidden><h2>What counts for you?</h2>'
        f'<p><button type="button" data-preset="" aria-pressed="true">as reported</button>{presets}</p>'
        f'{_sliders(usual)}{more if others else ""}<p id="wrong" class="wrong" role="alert"></p>'
        '<p id="leader" role="status"></p><p class="soft">The address of this page carries the weights. The same in a '
        "terminal, in the folder that holds the run: <code id=command></code></p></section>"
    )


def _sliders(metrics: Sequence[Mapping[str, str]]) -> str:
    made = "".join(
        f'<label><span>{escape(metric["title"])}</span><input type="range" name="{escape(metric["name"])}" min="0" '
        f'max="10" step="0.5"><output>0</output></label>'
        for metric in metrics
    )
    return f'<div class="sliders">{made}</div>'


def _question(report: Report, data: Mapping[str, Any]) -> str:
    """Which VPN sustains a rate at no more than a share of the CPU? Hidden until the script answers."""
    if not report.cores or not report.cpu_of or not report.sustained:
        return ""
    listed = "The configurations that no other of their VPN beats" if data["unbeaten"] else "Every configuration"
    head = ["VPN and levels", "TCP throughput (Mbit/s)", "CPU for this rate", "sustains it"]
    whose = f"of {report.cpu_of}, as a share of {text.counted(report.cores, 'core')}"
    return (
        '<section id="question" class="panel" hidden><h2>Which VPN sustains a rate?</h2><p><label>'
        '<input id="rate" type="number" min="1" step="any" value="100"> Mbit/s</label> at no more than <label>'
        '<input id="share" type="number" min="1" max="100" step="any" value="50"> % of the CPU</label></p>'
        '<p role="status"><strong id="answer"></strong></p>'
        f"<details><summary>{listed}</summary>"
        f'<div id="capacity">{table_html("Rate and CPU", head, [], numbers=[1, 2])}</div></details>'
        f"<p class=soft>CPU: {escape(whose)}. Yes: the whole 95 % intervals of throughput and CPU cost say so; the "
        "cost of a byte is taken to be the same at this rate as at the full one.</p></section>"
    )


def _summary(report: Report) -> str:
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in report.trials.items() if number)
    trimmed = f"; {text.counted(report.trimmed, 'trial')} trimmed" if report.trimmed else ""
    return (
        f"<p><span class=profile>{escape(report.profile)}</span> {escape(report.profile_note)}</p>"
        f"<p>{counts or 'no trials'}{trimmed}; {text.duration(report.elapsed_s)}, "
        f"{text.percent(report.measuring_share, 0)} of it spent measuring.</p>"
        + (f"<p>Until significant: {escape(report.separation)}.</p>" if report.separation else "")
        + f"<p class=soft>{escape(report.created_at)}, vpneval {escape(report.vpneval_version)}<br>"
        f"<code>{escape(report.command_line)}</code></p>"
    )


def _caveats(report: Report) -> str:
    items = "".join(f"<li>{escape(caveat)}</li>" for caveat in report.caveats)
    head = '<section class="box" id="caveats" tabindex="-1"><h2>What to know before believing it</h2>'
    return f"{head}<ul>{items}</ul></section>" if items else ""


def _ranking(report: Report, ranking: Ranking, number: int) -> str:
    metrics = list(ranking.weights.counted)
    where = places_of(report, number)
    numbers = report.behind[number] if report.behind else []
    ranks = {metric: text.ranks(ranking, metric) for metric in metrics}
    head = ["place", "VPN, as configured", "weighted average rank", "place (95\u00a0%)", "chance of best"]
    weighted = {metric: f"{text.SHORT.get(metric, metric)} ×{ranking.weights.counted[metric]:g}" for metric in metrics}
    links = {words: f"#{where[metric]}" for metric, words in weighted.items() if metric in where}
    head += weighted.values()
    rows = []
    for standing in ranking.standings:
        if standing.average is None:
            continue
        cells = [f"{standing.average:.2f}", text.place_interval(standing), chance(standing.best_probability)]
        cells += [ranks[metric].get(standing.vpn, text.NONE) for metric in metrics]
        name = row_head(standing.vpn, text.configuration(standing.levels), "first" if standing.place == 1 else "")
        rows.append(f"<td class=number>{text.place(standing)}</td>{name}{cells_html(cells, numbers_from=0)}")
    for vpns, why in text.unranked(ranking):
        rows.append(
            f'<td class=number>{text.NONE}</td><th scope="row">{escape(vpns)}</th>'
            f'<td colspan="{len(head) - 2}" class="unsupported why">not ranked: {escape(why)}</td>'
        )
    notes = [f"<p>{escape(vpns)} {escape(f'{text.IMPUTED} {why}')}</p>" for vpns, why in text.imputed(ranking)]
    notes += [f"<p>{escape(said)}</p>" for said in (text.doubts(ranking), text.slack(ranking)) if said]
    name = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    caption = f"Weights: {text.weights(ranking)}"
    hidden = " hidden" if any(s.place for s in ranking.standings) else ""
    return (
        f'<section id="ranking-{number}" tabindex="-1"><h2>Ranking: {escape(name)}</h2>'
        f'<p class="failed nobody"{hidden}>No VPN could be ranked.</p>'
        + table_html(caption, head, rows, numbers=[0, *range(2, len(head))], links=links)
        + f'<div class="notes">{"".join(notes)}</div></section>'
        + verdicts.html_part(report.verdicts, report.spreads, ranking, table_html)
        + behind.html_part(numbers, number, report.metrics, tables_of(report, ranking), table_html)
    )


def _experiment(report: Report, experiment: ExperimentReport, number: int, samples: Samples) -> str:
    source = f" ({escape(experiment.source)})" if experiment.source else ""
    listed = len(report.observations) <= LISTED
    many = f"<p class=soft>{len(report.observations)} measurements: trials.jsonl lists them, this page does not.</p>"
    left_out = note(report)
    shorter = shown(report, experiment)
    ranged = [
        table_html(f"{table.title}: all cells of each VPN", RANGE_HEAD, _plain(ranges(table)), numbers=[1, 2, 3, 4])
        for table in (experiment.tables if left_out else ())
        if table.measured
    ]
    return (
        f'<section id="experiment-{number}" tabindex="-1"><h2>{escape(experiment.name)}</h2>'
        f"<p><strong>{escape(experiment.question)}</strong><br>"
        f"<span class=soft>{escape(experiment.method)}{source}</span></p>"
        + ("" if listed else many)
        + (f"<p class=soft>{escape(left_out)}</p>" if left_out else "")
        + "".join(ranged)
        + "".join(figure(plot) for plot in plots_of(report, experiment, samples))
        + "".join(_metric(metric, table_id(number, metric), samples if listed else None) for metric in shorter.tables)
        + "</section>"
    )


def _plain(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f'<th scope="row">{escape(name)}</th>{cells_html(numbers, numbers_from=0)}' for name, *numbers in rows]


def figure(plot: Plot) -> str:
    """A plot that page.js draws; its label says what it shows, and the tables have its numbers."""
    return (
        f"<figure><figcaption>{escape(plot.title)}</figcaption>"
        f'<div class="plot" role="img" aria-label="{escape(plot.alt)}"></div>'
        f'<script type="application/json">{script_json(plot.spec)}</script></figure>'
    )


def _metric(metric: MetricTable, name: str, samples: Samples | None) -> str:
    head = ["VPN and levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
    rows = [_measured(row, metric, samples) for row in metric.measured]
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in metric.absent:
        grouped.setdefault((row.vpn, row.status, row.reason), []).append(row)
    for (vpn, status, reason), same in grouped.items():
        levels = "; ".join(row.levels for row in same)
        logs = [one.log for row in same for one in (samples.failed(row) if samples else []) if one.log]
        said = " ".join(link_html(log, "log") for log in dict.fromkeys(logs))
        rows.append(
            f"{row_head(vpn, levels)}"
            f'<td colspan="4" class="why">{escape(reason)}{" " if said else ""}{said}</td>'
            f'<td class="{_class(status)}">{escape(status)}</td>'
        )
    note = f"{metric.better} is better; {metric.common}"
    table = table_html(metric.title, head, rows, note=note, numbers=list(range(1, 5)), name=name)
    return table + (f"<p class=soft>{escape(metric.crypto_limit)}</p>" if metric.crypto_limit else "")


def _measured(row: Row, metric: MetricTable, samples: Samples | None) -> str:
    assert row.summary
    name = row_head(
        row.vpn, row_levels(row), "reference" if row.reference else "", "plain" if row.not_encrypted else ""
    )
    numbers = [
        text.with_interval(row.summary, metric.unit, row.at_least > 0),
        "baseline" if row.vpn == BASELINE else row_share(row, metric),
    ]
    reason = f'<td class="{_class(row.status)} why">{escape(row.status)}: {escape(row.reason)}</td>'
    return (
        name
        + cells_html(numbers, numbers_from=0)
        + f"<td class=number>{_trials(row, metric, samples)}</td>"
        + cells_html([text.percent(row.summary.variation)], numbers_from=0)
        + (reason if row.reason else f"<td>{row.status}</td>")
    )


def _trials(row: Row, metric: MetricTable, samples: Samples | None) -> str:
    """The number of repetitions, which opens into the trials: value, what was negotiated, commands and logs."""
    seen = samples.of(row, metric.metric) if samples else []
    if not seen:
        return row_repetitions(row)
    items = "".join(f"<li>{_trial(one, metric)}</li>" for one in seen)
    return f"<details><summary>{row_repetitions(row)}</summary><ul>{items}</ul></details>"


def _trial(seen: Observation, metric: MetricTable) -> str:
    where = f"{seen.repetition}" + (f" {seen.position}" if seen.position != "within" else "")
    value = text.quantity(seen.value or 0.0, metric.unit)
    said = f"{where}: {value}" + (f"; {seen.tunnel}" if seen.tunnel else "")
    logs = ((f"{seen.log}/commands.log", "commands"), (f"{seen.log}/", "logs")) if seen.log else ()
    links = "".join(f" {link_html(path, words)}" for path, words in logs)
    links += f' <a href="#evidence-{seen.proof}">evidence</a>' if seen.proof else ""
    return escape(said) + links


def link_html(path: str, words: str) -> str:
    """A link into the run folder, whatever the path says."""
    return f'<a href="./{escape(quote(path))}">{words}</a>'


def row_head(vpn: str, levels: str, vpn_class: str = "", levels_class: str = "") -> str:
    """The row's name for eye and screen reader: the VPN, and its levels below it."""
    small = f'<small class="{levels_class}">{escape(levels)}</small>' if levels else ""
    return f'<th scope="row" class="{vpn_class}">{escape(vpn)}{small}</th>'


def _class(status: str) -> str:
    return {"lab_error": "failed"}.get(status, status.replace(" ", "-"))


def _list(heading: str, items: Sequence[str]) -> str:
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<section><h2>{heading}</h2><ul>{entries}</ul></section>" if items else ""


def cells_html(values: Sequence[str], numbers_from: int = 99) -> str:
    """Escaped ``td`` elements; from the index ``numbers_from`` on they are set as numbers."""
    return "".join(
        f"<td{' class=number' if index >= numbers_from else ''}>{escape(value)}</td>"
        for index, value in enumerate(values)
    )


def table_html(
    caption: str,
    head: Sequence[str],
    rows: Sequence[str],
    note: str = "",
    numbers: Sequence[int] = (),
    name: str = "",
    links: Mapping[str, str] | None = None,
) -> str:
    """A table in a box of its own that scrolls on a phone. ``rows`` are HTML; the rest is text. ``name``: its id;
    ``links``: heads -> where they lead to."""
    small = f" <small>{escape(note)}</small>" if note else ""
    heads = "".join(
        f'<th scope="col"{" class=number" if index in numbers else ""}>{_head(words, links or {})}</th>'
        for index, words in enumerate(head)
    )
    called = f' id="{escape(name)}"' if name else ""
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return (
        f'<div class="scroll"{called} tabindex="0" role="group" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}{small}</caption><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _head(words: str, links: Mapping[str, str]) -> str:
    return f'<a href="{escape(links[words])}">{escape(words)}</a>' if words in links else escape(words)
