"""``vpneval compare`` and ``vpneval history`` as pages of their own; the numbers come from compare.py."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from runner.data.checks import check
from runner.data.levels import outside_of_tunnel
from runner.data.merge import identity, merge_metrics, same_estimands
from runner.data.metric import Metric
from runner.data.streams import shown
from runner.data.trials import Run, Strict, Trial
from runner.design.blocks import Block, Heading, Paragraph, Plot, Table, TableCell
from runner.evidence.stats import Summary, block_values, summarise
from runner.ranking.basis import Basis, bases
from runner.report import text
from runner.report.compare import COUNTED, Comparison, MetricChange
from runner.report.facts import BASELINE
from runner.report.forms.elements import page
from runner.report.forms.markdown import lines_of
from runner.report.forms.terminal_comparison import answer, smallest
from runner.report.plots.plotting import STEP, Value, spec_of

PLAIN = "plain IP"  # in a history
BAD, UNDECIDED = ("regression", "now failing"), ("not separable", "not judged")
CLASSES = {"regression": "failed", "now failing": "failed", "improvement": "first"}


def comparison_html(comparison: Comparison) -> str:
    """Two runs side by side: the verdict, every change as an interval, and every number."""
    head, table = _blocks(comparison)
    return page(_title(comparison), [*head, *_plots(comparison.changes), *table])


def comparison_md(comparisons: Sequence[Comparison]) -> str:
    """The same as Markdown, for a pull request: of each comparison the verdict and every number."""
    blocks: list[Block] = []
    for comparison in comparisons:
        head, table = _blocks(comparison)
        blocks += [Heading(_title(comparison)), *head, *table]
    return "\n".join(lines_of(blocks))


def comparison_junit(comparisons: Sequence[Comparison]) -> str:
    """The same as JUnit XML: a test case for each measurement, which fails where it became worse or fails now, and is
    skipped where nothing is decided."""
    suites = ElementTree.Element("testsuites", name="vpneval compare")
    for comparison in comparisons:
        suite = ElementTree.SubElement(suites, "testsuite", name=shown(_title(comparison)))
        cases = [_case(suite, change) for change in comparison.changes if not change.reference]
        if comparison.outcome == "nothing measured":
            cases.append(("error", ElementTree.SubElement(suite, "testcase", name="measurements in common")))
            ElementTree.SubElement(cases[-1][1], "error", message=answer(comparison))
        kinds = [kind for kind, _ in cases]
        for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(kinds.count(kind)))
        suite.set("tests", str(len(cases)))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, change: MetricChange) -> tuple[str, ElementTree.Element]:
    """The test case of a change, and how it ended: ``failure``, ``skipped`` or ``passed``."""
    name = f"{change.vpn} ({change.levels})" if change.levels else change.vpn
    case = ElementTree.SubElement(suite, "testcase", classname=shown(name), name=change.title)
    kind = "failure" if change.verdict in BAD else "skipped" if change.verdict in UNDECIDED else "passed"
    moved = text.change(change.ratio) if change.ratio else ""
    said = shown(f"{change.verdict}: {' '.join(filter(None, (moved, change.reason)))}")
    if kind != "passed":
        ElementTree.SubElement(case, kind, message=said)
    return kind, case


def _title(comparison: Comparison) -> str:
    return f"vpneval compare: {comparison.before} and {comparison.after}"


def _blocks(comparison: Comparison) -> tuple[list[Block], list[Block]]:
    """The verdict and what limits it; and every number."""
    head = ["VPN and levels", "metric", "before", "after", "change (95 %)", "verdict"]
    changed = sorted(comparison.changes, key=lambda change: change.verdict in COUNTED)
    rows = [_change(change, turns=comparison.turns) for change in changed]
    about = "" if comparison.turns else "a: absolute numbers, not shares of the baseline"
    table = Table("Before and after", head, rows, about=about, named=True)
    only = [("before", comparison.only_before), ("after", comparison.only_after)]
    blocks: list[Block] = [Paragraph(answer(comparison), "good" if comparison.outcome == "fine" else "bad")]
    blocks += [Paragraph(visible)] if (visible := smallest(comparison)) else []
    blocks += [Paragraph(f"On the machines with {comparison.machines}")] if comparison.machines else []
    for difference in comparison.differences:
        blocks.append(Paragraph(f"The runs differ in {difference}: a change may be due to that.", "bad"))
    rest: list[Block] = [table]
    rest += [Paragraph(f"Only {when}: {'; '.join(cells)}") for when, cells in only if cells]
    rest += [
        Paragraph(f"{agreement.configuration}, {agreement.what}: {agreement.said}")
        for agreement in comparison.agreement
    ]
    return blocks, rest


def _change(change: MetricChange, *, turns: bool) -> list[str | TableCell]:
    after = text.with_interval(change.after, change.unit, "after" in change.bounded) if change.after else change.reason
    moved = text.change(change.ratio) if change.ratio else text.NONE
    return [
        TableCell(change.vpn, small=change.levels),
        change.title,
        text.with_interval(change.before, change.unit, "before" in change.bounded),
        after,
        moved + (" a" if change.ratio and not change.of_baseline and not turns else ""),
        TableCell(change.verdict, tone=CLASSES.get(change.verdict, "")),
    ]


def _plots(changes: Sequence[MetricChange]) -> list[Plot]:
    """One plot for each metric: the change of each cell, with its interval."""
    by_metric: dict[str, list[Value]] = {}
    known = {change.metric: change for change in changes}
    for change in changes:
        if change.ratio and change.ratio.ratio:
            cell = f"{change.vpn} · {change.levels}" if change.levels else change.vpn
            value: Value = {"cell": cell, "ratio": change.ratio.ratio - 1}
            if change.ratio.low is not None and change.ratio.high is not None:
                value |= {"low": change.ratio.low - 1, "high": change.ratio.high - 1}
            value |= {"verdict": change.verdict, "says": text.change(change.ratio)}
            by_metric.setdefault(change.metric, []).append(value)
    return [_forest(known[metric], values) for metric, values in by_metric.items()]


def _forest(known: MetricChange, values: list[Value]) -> Plot:
    """The plot of one metric. ``known``: any change of the metric, which has its title and unit."""
    cells = text.counted(len(values), "cell")
    x = {"type": "quantitative", "axis": {"format": "+.0%"}, "title": "change"}
    y = {"field": "cell", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}}
    colours = {"domain": ["regression", "improvement", "no difference", "not separable", "now failing", "not judged"]}
    colours |= {"range": ["#d62728", "#2ca02c", "#7f7f7f", "#bcbd22", "#d62728", "#dddddd"]}
    colour = {"field": "verdict", "type": "nominal", "scale": colours}
    tooltip = [{"field": "cell"}, {"field": "says", "title": "change (95 %)"}, {"field": "verdict"}]
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"at": 0}]},
            "mark": {"type": "rule", "style": "ink", "strokeDash": [4, 4]},
            "encoding": {"x": x | {"field": "at"}},
        },
        {
            "data": {"values": [value for value in values if "low" in value]},
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
            "encoding": {
                "y": y,
                "x": x | {"field": "low"},
                "x2": {"field": "high"},
                "color": colour,
                "tooltip": tooltip,
            },
        },
        {
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {"y": y, "x": x | {"field": "ratio"}, "color": colour, "tooltip": tooltip},
        },
    ]
    return Plot(
        key=known.metric,
        title=f"{known.title} ({known.better} is better): change from before to after",
        alt=f"MetricChange of the {text.lower(known.title)} of {cells}. The table has all numbers.",
        spec=spec_of({"height": STEP * len(values), "layer": layers}),
    )


class Trend(Strict):
    """One VPN's metric in one configuration, run after run; ``summaries`` has None for a run without it."""

    lab: str
    configuration: str
    metric: Metric
    vpn: str
    runs: list[str]
    dates: list[str]
    summaries: list[Summary | None]


def trends(runs: Sequence[tuple[Run, Sequence[Trial]]]) -> list[Trend]:
    """The values that the rankings of all runs are made from, for each VPN and metric, and plain IP's with the same
    traffic, in the order of the runs' dates. Runs of different labs, kernels, images or profiles are in separate
    trends: see runner.data.merge.identity."""
    labs: dict[str, list[tuple[Run, Sequence[Trial]]]] = {}
    for run, trials in runs:
        check(run, trials)
    for run, trials in sorted(runs, key=lambda pair: (pair[0].created_at, pair[0].run_id)):
        labs.setdefault(", ".join(str(value) for value in identity(run).values() if value), []).append((run, trials))
    rows = []
    for lab, same in labs.items():
        metrics = merge_metrics([run for run, _ in same])
        same_estimands(same)
        made = [
            (run, {(b.configuration, b.image): _values(b, trials) for b in bases(run, trials)}) for run, trials in same
        ]
        keys = {
            (key, metric, vpn): None
            for _, by_key in made
            for key, by_metric in by_key.items()
            for metric, by_vpn in by_metric.items()
            for vpn in by_vpn
        }
        for key, metric, vpn in keys:
            values = [by_key.get(key, {}).get(metric, {}).get(vpn, []) for _, by_key in made]
            rows.append(
                Trend(
                    lab=lab,
                    configuration=key[0] + (f", {key[1]}" if key[1] else ""),
                    metric=metrics[metric],
                    vpn=vpn,
                    runs=[run.run_id for run, _ in made],
                    dates=[run.created_at for run, _ in made],
                    summaries=[summarise(of_run) if of_run else None for of_run in values],
                )
            )
    return rows


def _values(basis: Basis, trials: Sequence[Trial]) -> dict[str, dict[str, list[float]]]:
    """Metric -> VPN -> its values in this basis, plain IP's among them."""
    plain = [trial for trial in trials if trial.vpn == BASELINE]
    found = {}
    for metric, by_vpn in basis.values.items():
        same = [trial for trial in plain if outside_of_tunnel(trial.params) == basis.traffic[metric]]
        own = {vpn: list(blocks.values()) for vpn, blocks in by_vpn.items()}
        found[metric] = own | ({PLAIN: list(blocks.values())} if (blocks := block_values(same, metric)) else {})
    return found


def history_html(trends: Sequence[Trend]) -> str:
    """A page with a section for each lab: a plot and a table of each metric and configuration."""
    sections: dict[str, list[Block]] = {trend.lab: [Heading(trend.lab)] for trend in trends}
    for lab, section in sections.items():
        same = [trend for trend in trends if trend.lab == lab]
        vpns = sorted({trend.vpn for trend in same})
        for what in dict.fromkeys((trend.configuration, trend.metric.name) for trend in same):
            mine = [trend for trend in same if (trend.configuration, trend.metric.name) == what]
            section += [_trend(mine, vpns), _trend_table(mine)]
    return page("vpneval history", *sections.values())


def _trend(trends: Sequence[Trend], vpns: Sequence[str]) -> Plot:
    known = trends[0].metric
    medians = [summary.median for trend in trends for summary in trend.summaries if summary]
    scale, unit = text.prefix(statistics.median(medians), known.unit)
    values: list[Value] = []
    for trend in trends:
        for run, date, summary in zip(trend.runs, trend.dates, trend.summaries, strict=True):
            if summary:
                value: Value = {"vpn": trend.vpn, "run": run, "date": date, "median": summary.median / scale}
                if summary.low is not None and summary.high is not None:
                    value |= {"low": summary.low / scale, "high": summary.high / scale}
                values.append(value | {"says": text.with_interval(summary, known.unit)})
    x = {"field": "date", "type": "temporal", "title": None}
    y = {"type": "quantitative", "title": f"{known.title} ({unit})", "scale": {"zero": False}}
    colour = {"field": "vpn", "type": "nominal", "title": "VPN", "scale": {"domain": vpns}}  # the same in every plot
    tooltip = [{"field": "vpn"}, {"field": "run"}, {"field": "says", "title": "median (95 %)"}]
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "opacity": 0.4, "clip": True},
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "line", "point": {"filled": True, "size": 45}},
            "encoding": {"x": x, "y": y | {"field": "median"}, "color": colour, "tooltip": tooltip},
        },
    ]
    return Plot(
        key=f"{trends[0].configuration}-{known.name}",
        title=f"{trends[0].configuration}: {known.title} ({known.better} is better)",
        alt=f"{known.title} of {text.counted(len(trends), 'VPN')} over {text.counted(len(trends[0].runs), 'run')}.",
        spec=spec_of({"height": 240, "data": {"values": values}, "layer": layers}),
    )


def _trend_table(trends: Sequence[Trend]) -> Table:
    unit = trends[0].metric.unit
    rows = [
        [trend.vpn, *[text.with_interval(summary, unit) if summary else text.NONE for summary in trend.summaries]]
        for trend in trends
    ]
    return Table(f"{trends[0].configuration}: {trends[0].metric.title}", ["VPN", *trends[0].runs], rows, named=True)
