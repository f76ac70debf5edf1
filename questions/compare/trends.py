"""The values of each VPN, run after run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from runner.data.checks import check
from runner.data.kinds import Strict
from runner.data.merge import identity, merge_metrics, same_estimands
from runner.data.metric import Metric
from runner.data.trials import Run, Trial
from runner.design.blocks import Block, Heading, Plot, Table
from runner.evidence.cells import Baseline
from runner.evidence.model import Summary
from runner.evidence.stats import summarise
from runner.ranking.basis import Basis, bases
from runner.report import text
from runner.report.plots.drawing import Value, spec_of

PLAIN = "plain IP"


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
    found = {}
    for metric, by_vpn in basis.values.items():
        plain, _ = Baseline(trials, metric).values_at(basis.traffic[metric])
        found[metric] = {vpn: [*blocks.values()] for vpn, blocks in {**by_vpn, PLAIN: plain or {}}.items() if blocks}
    return found


def sections_of(trends: Sequence[Trend]) -> list[list[Block]]:
    """A section for each lab: a plot and a table of each metric and configuration."""
    sections: dict[str, list[Block]] = {trend.lab: [Heading(trend.lab)] for trend in trends}
    for lab, section in sections.items():
        same = [trend for trend in trends if trend.lab == lab]
        vpns = sorted({trend.vpn for trend in same})
        for what in dict.fromkeys((trend.configuration, trend.metric.name) for trend in same):
            mine = [trend for trend in same if (trend.configuration, trend.metric.name) == what]
            section += [_trend(mine, vpns), _trend_table(mine)]
    return [*sections.values()]


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
        alt=f"{known.title} of {text.count_noun(len(trends), 'VPN')} over "
        f"{text.count_noun(len(trends[0].runs), 'run')}.",
        spec=spec_of({"height": 240, "data": {"values": values}, "layer": layers}),
    )


def _trend_table(trends: Sequence[Trend]) -> Table:
    unit = trends[0].metric.unit
    rows = [
        [trend.vpn, *[text.with_interval(summary, unit) if summary else text.NONE for summary in trend.summaries]]
        for trend in trends
    ]
    return Table(f"{trends[0].configuration}: {trends[0].metric.title}", ["VPN", *trends[0].runs], rows, named=True)
