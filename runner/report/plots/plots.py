"""The plots of one metric, and all plots of an experiment: one dictionary for the page, for SVG and for PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import numpy as np

from runner.data.levels import BASELINE
from runner.design.blocks import Plot
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.model import Report
from runner.report.observations import Observation
from runner.report.plots.drawing import STEP, Value, log_or_linear, spec_of, thin, thinning_sentence
from runner.report.plots.plots_between import cost, groups
from runner.report.plots.plots_boxes import boxes
from runner.report.plots.plots_failures import timelines
from runner.report.plots.plots_layers import layers
from runner.report.plots.plots_matrix import encryption_by_integrity, matrix
from runner.report.plots.plots_mesh import mesh_plots
from runner.report.plots.plotting import LINES, STEP_OF_TWO, Samples, key_of, label_of, unit_of
from runner.report.plots.thinning import thin_experiment
from runner.report.plots.vega import Spec

QUANTILES = 60  # of a distribution: enough for a line, whatever the number of samples
LOSS_BOUND = 0.01
TOLD = 12  # of a cell's values, in a tooltip


def plots_of(report: Report, experiment: ExperimentReport, samples: Samples) -> list[Plot]:
    """The plots of one experiment, as many as its metrics have data for."""
    experiment = thin_experiment(report, experiment)
    tables = {table.metric: table for table in experiment.tables if table.measured_rows}
    plots: list[Plot | None] = []
    for table in tables.values():
        plots += _of_metric(report, experiment, table, samples)
    plots += _of_tcp_throughput(experiment, tables, samples)
    if report.mesh and any(table.metric == "mesh_time" for table in experiment.tables):
        plots += mesh_plots(report.mesh, lambda what: key_of(experiment, f"by-sites-{what}"))
    return [plot for plot in plots if plot]


def _of_metric(
    report: Report, experiment: ExperimentReport, table: MetricTable, samples: Samples
) -> Iterator[Plot | None]:
    """The plots that every metric has, then those of this one."""
    yield _intervals(experiment, table, samples)
    yield _searches(experiment, table, samples)
    drawn = report.metrics[table.metric].plot
    if drawn == "distribution":
        yield _distribution(experiment, table, samples)
    if drawn == "boxes":
        yield boxes(experiment, table, samples)
    if any(row.params.get("packet_bytes", "").isdecimal() for row in table.measured_rows):
        yield _by_length(experiment, table, samples)
    if drawn == "timelines":
        yield timelines(experiment, table, report.failures)
    if table.metric == "packet_rate_both_ways":
        yield from encryption_by_integrity(experiment, table)
    if table.metric == "overhead_bytes":
        yield layers(experiment, table, samples)


def _of_tcp_throughput(
    experiment: ExperimentReport, tables: Mapping[str, MetricTable], samples: Samples
) -> Iterator[Plot | None]:
    """TCP throughput by cipher, and against other metrics."""
    tcp = tables.get("tcp_throughput")
    if tcp is None:
        return
    yield matrix(experiment, tcp)
    if "udp_throughput" in tables:
        yield groups(experiment, tcp, tables["udp_throughput"], samples)
    if "cpu_per_gigabyte" in tables:
        yield cost(experiment, tcp, tables["cpu_per_gigabyte"], samples)


def _intervals(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot | None:
    """Median and 95 % interval of each cell, and the values that both are made from: those of its rounds, where it was
    measured by rounds, else of its trials. The baseline is a dashed line through all. The axis follows the points: an
    interval that is longer ends in an arrow. None for a single cell."""
    if sum(row.vpn != BASELINE for row in table.measured_rows) < 2:
        return None
    scale, unit = unit_of(table)
    labels = [label_of(row) for row in table.measured_rows]
    cells: list[Value] = []
    points: list[Value] = []
    for row, label in zip(table.measured_rows, labels, strict=True):
        assert row.summary
        low, high = (_scale(v, scale) for v in (row.summary.low, row.summary.high))
        median = float(f"{row.summary.median / scale:.6g}")
        interval = text.with_interval(row.summary, table.unit, row.at_least > 0)
        mine = [point for seen in samples.observations_of(row, table.metric) for point in _of_trial(seen, label, scale)]
        cell: Value = {"cell": label, "vpn": row.vpn, "median": median, "n": row.summary.n, "says": interval}
        cell["values"] = _raw(mine, unit)
        cells.append(cell if low is None or high is None else cell | {"low": low, "high": high})
        points += mine
    low_end, high_end = axis_ends([float(p["value"]) for p in points] + [float(c["median"]) for c in cells])
    log = table.metric in samples.log
    scale_x = log_or_linear(log) | {"domain": [low_end if log else min(0.0, low_end), high_end], "nice": False}
    x = {"type": "quantitative", "title": f"{table.title} ({unit})", "scale": scale_x}
    two = any(" · " in label for label in labels)
    axis = {"labelLimit": 320} | ({"labelExpr": LINES} if two else {})
    y = {"field": "cell", "type": "nominal", "sort": labels, "title": None, "axis": axis}
    baseline = [{"median": cell["median"]} for cell in cells if cell["vpn"] == BASELINE]
    colour = samples.colour | {"legend": None}
    layers = [
        {
            "data": {"values": baseline},
            "mark": {"type": "rule", "strokeDash": [4, 4], "style": "ink"},
            "encoding": {"x": x | {"field": "median"}},
        },
        *_medians(cells, clip_intervals(cells, scale_x["domain"]), x, y, colour),
        _points(thin(points, samples.points), x | {"field": "value"}, y, colour),
    ]
    note = thinning_sentence(points, samples.points)
    best = text.with_interval(table.measured_rows[0].summary, table.unit) if table.measured_rows[0].summary else ""
    return Plot(
        key=key_of(experiment, table.metric),
        title=f"{table.title}: median, 95 % interval, values",
        alt=f"{table.title} of {text.count_noun(len(cells), 'cell')}; best: {labels[0]}, {best}. The table says it "
        "all.",
        spec=spec_of(
            {"height": (STEP_OF_TWO if two else STEP) * len(labels), "layer": layers},
            note or ("Dashed: the baseline, plain IP." if baseline else ""),
        ),
    )


def _medians(
    cells: Sequence[Value], arrows: Mapping[str, Sequence[tuple[str, str, float]]], x: Spec, y: Spec, colour: Spec
) -> list[Spec]:
    """The layers of the medians and their intervals, with an arrow where one is longer than the axis."""
    tooltip = [{"field": "cell", "title": "cell"}, {"field": "says", "title": "median (95 %)"}, {"field": "n"}]
    tooltip.append({"field": "values", "title": "values"})
    return [
        {
            "data": {"values": [cell for cell in cells if "low" in cell]},
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
            "encoding": {
                "y": y,
                "x": x | {"field": "low"},
                "x2": {"field": "high"},
                "color": colour,
                "tooltip": tooltip,
            },
        },
        *[
            {
                "data": {"values": [{"cell": cell, "vpn": vpn, "end": end} for cell, vpn, end in beyond]},
                "mark": {"type": "point", "shape": f"triangle-{side}", "filled": True, "size": 60, "opacity": 0.9},
                "encoding": {"y": y, "x": x | {"field": "end"}, "color": colour},
            }
            for side, beyond in arrows.items()
            if beyond
        ],
        {
            "data": {"values": cells},
            "mark": {"type": "tick", "thickness": 3, "size": 15},
            "encoding": {"y": y, "x": x | {"field": "median"}, "color": colour, "tooltip": tooltip},
        },
    ]


def axis_ends(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis: around the points, with a twentieth of their span to spare."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 30:
        return low / 1.2, high * 1.2
    spare = (high - low) / 20 or abs(high) / 20 or 1.0
    return (low - spare if low < 0 else low), high + spare


def clip_intervals(cells: Sequence[Value], domain: Sequence[float]) -> dict[str, list[tuple[str, str, float]]]:
    """Shorten the intervals that leave the axis, within ``cells``. Returns side -> (cell, VPN, end of the axis) of each
    interval that an arrow ends."""
    arrows: dict[str, list[tuple[str, str, float]]] = {"left": [], "right": []}
    for cell in cells:
        if "low" not in cell:
            continue
        for side, what, end in (("left", "low", domain[0]), ("right", "high", domain[1])):
            value = float(cell[what])
            if value < end if side == "left" else value > end:
                cell[what] = end
                arrows[side].append((str(cell["cell"]), str(cell["vpn"]), end))
    return arrows


def _searches(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot | None:
    """Loss by offered rate, a line for each search of each repetition (the thesis' Figure 15)."""
    values: list[Value] = []
    for row in table.measured_rows:
        for seen in samples.observations_of(row, table.metric):
            for rate, loss in seen.search:
                point: Value = {
                    "cell": label_of(row),
                    "vpn": row.vpn,
                    "trial": seen.trial,
                    "repetition": seen.repetition,
                }
                values.append(point | {"rate": rate, "loss": loss} | _log(seen))
    if not values:
        return None
    top = max(float(value["rate"]) for value in values)
    scale, unit = text.prefix(top, "bit/s")
    for value in values:
        value["rate"] = float(value["rate"]) / scale
    x = {
        "field": "rate",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": f"offered rate ({unit})",
    }
    y = {
        "field": "loss",
        "type": "quantitative",
        "scale": {"type": "symlog", "constant": 0.002, "domain": [0, 1]},
        "axis": {"format": ".1~%", "values": [0, 0.001, 0.01, 0.1, 1]},
        "title": "loss ratio",
    }
    tooltip = [
        {"field": "cell", "title": "cell"},
        {"field": "repetition", "title": "repetition"},
        {"field": "rate", "title": f"offered ({unit})", "format": ".4~g"},
        {"field": "loss", "title": "loss", "format": ".3~%"},
    ]
    bound = {
        "data": {"values": [{"loss": LOSS_BOUND}]},
        "mark": {"type": "rule", "strokeDash": [4, 4], "style": "ink"},
        "encoding": {"y": y},
    }
    dots = {
        "data": {"values": thin(values, samples.points)},
        "mark": {"type": "point", "filled": True, "size": 28, "opacity": 0.75},
        "encoding": {"x": x, "y": y, "color": samples.colour, "tooltip": tooltip, "href": {"field": "log"}},
    }
    lines = {
        "data": {"values": values if len(values) <= samples.points else []},
        "mark": {"type": "line", "opacity": 0.35, "strokeWidth": 1},
        "encoding": {"x": x, "y": y, "color": samples.colour, "detail": {"field": "trial"}},
    }
    note = thinning_sentence(values, samples.points) or "Dashed: the bound, 1 %."
    return Plot(
        key=key_of(experiment, f"{table.metric}-searches"),
        title=f"{table.title}: loss by offered rate, each search a line",
        alt=f"Loss ratio against offered rate, {text.count_noun(len(values), 'trial')} of all searches; the bound is "
        "1 %.",
        spec=spec_of({"height": 260, "layer": [bound, lines, dots]}, note),
    )


def _distribution(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot | None:
    """The cumulative distribution of all exchanges, by their quantiles."""
    values: list[Value] = []
    for row in table.measured_rows:
        exchanges = [sample for seen in samples.observations_of(row, table.metric) for sample in seen.samples]
        if len(exchanges) < 2:
            continue
        shares = np.linspace(0, 1, min(len(exchanges), QUANTILES) + 1)
        for share, value in zip(shares, np.quantile(exchanges, shares), strict=True):
            values.append({"cell": label_of(row), "vpn": row.vpn, "ms": round(float(value), 6), "share": float(share)})
    if not values:
        return None
    encoding = {
        "x": {
            "field": "ms",
            "type": "quantitative",
            "scale": log_or_linear(table.metric in samples.log),
            "title": f"{table.title} (ms)",
        },
        "y": {
            "field": "share",
            "type": "quantitative",
            "axis": {"format": "%"},
            "title": "share of exchanges at most this",
        },
        "color": samples.colour,
        "detail": {"field": "cell"},
        "tooltip": [{"field": "cell"}, {"field": "ms", "format": ".3~g"}, {"field": "share", "format": ".1%"}],
    }
    return Plot(
        key=key_of(experiment, f"{table.metric}-distribution"),
        title=f"{table.title}: cumulative distribution of all exchanges",
        alt=f"Cumulative distributions of the {table.title.lower()} of {len({v['cell'] for v in values})} cells.",
        spec=spec_of({"height": 240, "data": {"values": values}, "mark": {"type": "line"}, "encoding": encoding}),
    )


def _by_length(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot:
    """The metric by the length of the inner packet, a line for each configuration."""
    scale, unit = unit_of(table)
    values: list[Value] = []
    for row in table.measured_rows:
        if row.summary and row.params.get("packet_bytes", "").isdecimal():
            rest = {factor: level for factor, level in row.params.items() if factor != "packet_bytes"}
            value: Value = {"vpn": row.vpn, "configuration": f"{row.vpn} {text.configuration(rest)}"}
            value |= {"bytes": int(row.params["packet_bytes"]), "median": row.summary.median / scale}
            values.append(value | {"says": text.with_interval(row.summary, table.unit, row.at_least > 0)})
    encoding = {
        "x": {"field": "bytes", "type": "quantitative", "title": "inner packet (bytes)", "scale": {"zero": False}},
        "y": {
            "field": "median",
            "type": "quantitative",
            "scale": log_or_linear(table.metric in samples.log),
            "title": f"{table.title} ({unit})",
        },
        "color": samples.colour,
        "detail": {"field": "configuration"},
        "tooltip": [{"field": "configuration"}, {"field": "bytes"}, {"field": "says", "title": "median (95 %)"}],
    }
    mark = {"type": "line", "point": True}
    return Plot(
        key=key_of(experiment, f"{table.metric}-by-length"),
        title=f"{table.title} by packet length",
        alt=f"{table.title} against the length of the inner packet, one line for each configuration.",
        spec=spec_of({"height": 260, "data": {"values": values}, "mark": mark, "encoding": encoding}),
    )


def _points(points: Sequence[Value], x: Spec, y: Spec, colour: Spec) -> Spec:
    tooltip = [
        {"field": "repetition", "title": "repetition"},
        {"field": "value", "title": "value", "format": ".4~g"},
    ]
    return {
        "data": {"values": points},
        "mark": {"type": "circle", "size": 26, "opacity": 0.8},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip, "href": {"field": "log"}},
    }


def _raw(points: Sequence[Value], unit: str) -> str:
    """The values, as many as a tooltip holds."""
    more = f" and {len(points) - TOLD} more" if len(points) > TOLD else ""
    return ", ".join(f"{point['value']:.4g}" for point in points[:TOLD]) + f"{more} {unit}"


def _of_trial(seen: Observation, label: str, scale: float) -> list[Value]:
    """The values of a trial: one for each round, or its own."""
    assert seen.value is not None
    values = seen.samples if seen.rounds else [seen.value]
    point: Value = {"cell": label, "vpn": seen.vpn, "repetition": seen.repetition}
    return [point | {"value": _scale(value, scale) or 0.0} | _log(seen) for value in values]


def _log(seen: Observation) -> Value:
    """The link to the trial's commands, for a mark that has one."""
    return {"log": f"./{quote(seen.log)}/commands.log"} if seen.log else {}


def _scale(value: float | None, scale: float) -> float | None:
    return None if value is None else float(f"{value / scale:.6g}")
