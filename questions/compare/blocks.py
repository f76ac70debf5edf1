"""A comparison as blocks and checks: its words with its plots between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from questions.compare import words
from questions.compare.judgement import Comparisons, MetricChange
from runner.data.streams import visible_text
from runner.design.blocks import Block, Heading, Plot
from runner.design.question import Said
from runner.report import text
from runner.report.plots.drawing import STEP, Value, spec_of


def say(judged: Comparisons) -> Said:
    """Every comparison, one after another."""
    brief, whole = list[Block](), list[Block]()
    several = len(judged.comparisons)
    for number, one in enumerate(judged.comparisons, 1):
        if one.machines and several > 1:
            brief.append(Heading(f"kind of machine {number} of {several}"))
        brief += words.changes_first(one)
        whole += [Heading(words.heading(one)), *words.opening(one), *_plots(one.changes), *words.numbers(one)]
    return Said(
        line="; ".join(map(words.answer, judged.comparisons)),
        brief=brief,
        whole=whole,
        checks={visible_text(words.title(one)): words.checks(one) for one in judged.comparisons},
    )


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
    cells = text.count_noun(len(values), "cell")
    x = {"type": "quantitative", "axis": {"format": "+.0%"}, "title": "change"}
    y: dict[str, Any] = {"field": "cell", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}}
    colours = {"domain": ["regression", "improvement", "no difference", "not separable", "now failing", "not judged"]}
    colours |= {"range": ["#d62728", "#2ca02c", "#7f7f7f", "#bcbd22", "#d62728", "#dddddd"]}
    shared: dict[str, Any] = {"y": y, "color": {"field": "verdict", "type": "nominal", "scale": colours}}
    shared |= {"tooltip": [{"field": "cell"}, {"field": "says", "title": "change (95 %)"}, {"field": "verdict"}]}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"at": 0}]},
            "mark": {"type": "rule", "style": "ink", "strokeDash": [4, 4]},
            "encoding": {"x": x | {"field": "at"}},
        },
        {
            "data": {"values": [value for value in values if "low" in value]},
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
            "encoding": shared | {"x": x | {"field": "low"}, "x2": {"field": "high"}},
        },
        {
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": shared | {"x": x | {"field": "ratio"}},
        },
    ]
    return Plot(
        key=known.metric,
        title=f"{known.title} ({known.better} is better): change from before to after",
        alt=f"Change of the {text.lower(known.title)} of {cells}. The table has all numbers.",
        spec=spec_of({"height": STEP * len(values), "layer": layers}),
    )
