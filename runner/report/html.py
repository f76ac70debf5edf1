"""The report as one HTML page: no script, no network, light and dark. Every field is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from runner.ranking import Ranking
from runner.report import text
from runner.report.facts import BASELINE, interval_method
from runner.report.model import ExperimentReport, MetricTable, Report, Row, row_levels, row_repetitions, row_share

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --soft: #5b6675; --line: #d5dbe3;
  --band: #f4f6f9; --accent: #0b5cad; --good: #14713a; --bad: #b3151b; --warn: #8a5a00; --plain: #8a2a8a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ef; --paper: #12161c; --soft: #9aa7b8;
  --line: #303a47; --band: #1a2029; --accent: #7ab8ff; --good: #6fd596; --bad: #ff8a85; --warn: #f0c060;
  --plain: #e59be5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 1rem/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 2px solid var(--accent); padding-bottom: .2rem; }
a { color: var(--accent); } nav a { margin-right: 1rem; white-space: nowrap; }
.profile { display: inline-block; padding: .1rem .6rem; border-radius: 1rem; background: var(--accent);
  color: var(--paper); font-weight: 600; }
.soft, caption small { color: var(--soft); } .caveats li { margin: .3rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0; } .scroll:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; } caption small { font-weight: 400; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { background: var(--band); vertical-align: bottom; }
tbody th small { display: block; font-weight: 400; color: var(--soft); } tbody th { min-width: 8.5rem; }
@media (min-width: 40rem) { tbody th { min-width: 14rem; } }
.number { text-align: right; } td.number { white-space: nowrap; }
.first { color: var(--good); font-weight: 700; } .reference { color: var(--soft); }
.failed { color: var(--bad); font-weight: 600; } .partly { color: var(--bad); } .unsupported { color: var(--warn); }
tbody th small.plain { color: var(--plain); } .why { min-width: 14rem; white-space: pre-line; overflow-wrap: anywhere; }
"""
HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)


def html_text(report: Report) -> str:
    """The whole report as one page."""
    title = f"vpneval: {report.run_id}"
    links = [f'<a href="#ranking-{i}">Ranking: {escape(r.configuration)}</a>' for i, r in enumerate(report.rankings)]
    links += [f'<a href="#experiment-{i}">{escape(e.name)}</a>' for i, e in enumerate(report.experiments)]
    rankings = [_ranking(ranking, number) for number, ranking in enumerate(report.rankings)]
    if not rankings:
        rankings = ["<p class=failed>Nothing to rank: no VPN measured anything in a named configuration.</p>"]
    references = f"<p>Shown for reference, not ranked: {escape(', '.join(report.references))}.</p>"
    methods = dict.fromkeys(method for r in report.rankings for method in (r.method, r.probability_method))
    parts = [
        f'<!doctype html>\n<html lang="en"><head>{HEAD}<title>{escape(title)}</title>',
        f"<style>{STYLE}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>{_summary(report)}</header>",
        f'<nav aria-label="Contents">{" ".join(links)} <a href="#lab">Lab</a></nav><main>',
        *rankings,
        references if report.references else "",
        *[_experiment(experiment, number) for number, experiment in enumerate(report.experiments)],
        f"<section><h2>How to read this</h2><p>{escape(interval_method(report.summaries))}</p>",
        *[f"<p>Ranking: {escape(method)}.</p>" for method in methods],
        "</section>",
        _list("Warnings", report.warnings),
        '<section id="lab"><h2>The lab</h2>',
        _table("What was measured on", ["fact", "value"], [_cells([f.name, f.value]) for f in report.facts]),
        "</section></main></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _summary(report: Report) -> str:
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in report.trials.items() if number)
    caveats = "".join(f"<li>{escape(caveat)}</li>" for caveat in report.caveats)
    trimmed = f"; {text.counted(report.trimmed, 'trial')} trimmed" if report.trimmed else ""
    return (
        f"<p><span class=profile>{escape(report.profile)}</span> {escape(report.profile_note)}</p>"
        f"<p>{counts or 'no trials'}{trimmed}; {text.duration(report.elapsed_s)}, "
        f"{text.percent(report.measuring_share, 0)} of it spent measuring.</p>"
        + (f"<p>Until significant: {escape(report.separation)}.</p>" if report.separation else "")
        + f"<p class=soft>{escape(report.created_at)}, vpneval {escape(report.vpneval_version)}<br>"
        f"<code>{escape(report.command_line)}</code></p>" + (f"<ul class=caveats>{caveats}</ul>" if caveats else "")
    )


def _ranking(ranking: Ranking, number: int) -> str:
    metrics = list(ranking.weights.counted)
    ranks = {metric: text.ranks(ranking, metric) for metric in metrics}
    head = ["place", "VPN, as configured", "weighted average rank", "place (95\u00a0%)", "chance of best"]
    head += [f"{text.SHORT.get(metric, metric)} ×{ranking.weights.counted[metric]:g}" for metric in metrics]
    rows = []
    for standing in ranking.standings:
        if standing.average is None:
            continue
        cells = [f"{standing.average:.2f}", text.place_interval(standing), text.chance(standing.best_probability)]
        cells += [ranks[metric].get(standing.vpn, text.NONE) for metric in metrics]
        name = _row_head(standing.vpn, text.configuration(standing.levels), "first" if standing.place == 1 else "")
        rows.append(f"<td class=number>{text.place(ranking, standing)}</td>{name}{_cells(cells, numbers_from=0)}")
    for vpns, why in text.unranked(ranking):
        rows.append(
            f'<td class=number>{text.NONE}</td><th scope="row">{escape(vpns)}</th>'
            f'<td colspan="{len(head) - 2}" class="unsupported why">not ranked: {escape(why)}</td>'
        )
    notes = [f"<p>{escape(vpns)} {escape(f'{text.IMPUTED} {why}')}</p>" for vpns, why in text.imputed(ranking)]
    notes += [f"<p>{escape(said)}</p>" for said in (text.doubts(ranking), text.slack(ranking)) if said]
    name = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    caption = f"Weights: {text.weights(ranking)}"
    return (
        f'<section id="ranking-{number}"><h2>Ranking: {escape(name)}</h2>'
        + ("" if any(s.place for s in ranking.standings) else "<p class=failed>No VPN could be ranked.</p>")
        + _table(caption, head, rows, numbers=[0, *range(2, len(head))])
        + "".join(notes)
        + "</section>"
    )


def _experiment(experiment: ExperimentReport, number: int) -> str:
    source = f" ({escape(experiment.source)})" if experiment.source else ""
    return (
        f'<section id="experiment-{number}"><h2>{escape(experiment.name)}</h2>'
        f"<p><strong>{escape(experiment.question)}</strong><br>"
        f"<span class=soft>{escape(experiment.method)}{source}</span></p>"
        + "".join(_metric(metric) for metric in experiment.tables)
        + "</section>"
    )


def _metric(metric: MetricTable) -> str:
    head = ["VPN and levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
    rows = [_measured(row, metric) for row in metric.measured]
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in metric.absent:
        grouped.setdefault((row.vpn, row.status, row.reason), []).append(row)
    for (vpn, status, reason), same in grouped.items():
        levels = "; ".join(row.levels for row in same)
        rows.append(
            f"{_row_head(vpn, levels)}"
            f'<td colspan="4" class="why">{escape(reason)}</td><td class="{_class(status)}">{escape(status)}</td>'
        )
    note = f"{metric.better} is better; {metric.common}"
    table = _table(metric.title, head, rows, note=note, numbers=list(range(1, 5)))
    return table + (f"<p class=soft>{escape(metric.crypto_limit)}</p>" if metric.crypto_limit else "")


def _measured(row: Row, metric: MetricTable) -> str:
    assert row.summary
    name = _row_head(
        row.vpn, row_levels(row), "reference" if row.reference else "", "plain" if row.not_encrypted else ""
    )
    numbers = [
        text.with_interval(row.summary, metric.unit, row.at_least > 0),
        "baseline" if row.vpn == BASELINE else row_share(row, metric),
        row_repetitions(row),
        text.percent(row.summary.variation),
    ]
    reason = f'<td class="{_class(row.status)} why">{escape(row.status)}: {escape(row.reason)}</td>'
    return name + _cells(numbers, numbers_from=0) + (reason if row.reason else f"<td>{row.status}</td>")


def _row_head(vpn: str, levels: str, vpn_class: str = "", levels_class: str = "") -> str:
    """The row's name for eye and screen reader: the VPN, and its levels below it."""
    small = f'<small class="{levels_class}">{escape(levels)}</small>' if levels else ""
    return f'<th scope="row" class="{vpn_class}">{escape(vpn)}{small}</th>'


def _class(status: str) -> str:
    return {"lab_error": "failed"}.get(status, status.replace(" ", "-"))


def _list(heading: str, items: Sequence[str]) -> str:
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<section><h2>{heading}</h2><ul>{entries}</ul></section>" if items else ""


def _cells(values: Sequence[str], numbers_from: int = 99) -> str:
    return "".join(
        f"<td{' class=number' if index >= numbers_from else ''}>{escape(value)}</td>"
        for index, value in enumerate(values)
    )


def _table(caption: str, head: Sequence[str], rows: Sequence[str], note: str = "", numbers: Sequence[int] = ()) -> str:
    """A table in a box of its own that scrolls on a phone. ``rows`` are HTML; the rest is text."""
    small = f" <small>{escape(note)}</small>" if note else ""
    heads = "".join(
        f'<th scope="col"{" class=number" if index in numbers else ""}>{escape(name)}</th>'
        for index, name in enumerate(head)
    )
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}{small}</caption><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )
