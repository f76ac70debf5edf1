"""The plots that set one metric, or one VPN, against another."""

from __future__ import annotations

from runner.data.levels import BASELINE, ranked_by
from runner.data.trials import cell_key
from runner.design.blocks import Plot
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.plots.drawing import WIDTH, Value, log_or_linear, spec_of
from runner.report.plots.plotting import Samples, key_of, label_of, unit_of


def groups(experiment: ExperimentReport, tcp: MetricTable, udp: MetricTable, samples: Samples) -> Plot | None:
    """TCP and UDP throughput side by side, the VPNs grouped by what carries them (after the thesis)."""
    scale, unit = text.prefix(
        max(row.summary.median for row in [*tcp.measured_rows, *udp.measured_rows] if row.summary), "bit/s"
    )
    values: list[Value] = []
    for table in (tcp, udp):
        wanted = ranked_by(table.measure)
        for row in table.measured_rows:
            usual = all(row.params.get(factor, level) == level for factor, level in wanted.items())
            if not (row.summary and usual):
                continue
            carrier = samples.carriers.get(row.vpn, "")
            words = (text.configuration(row.params), text.wan(row.params))
            cell = ", ".join(word for word in (row.vpn, *words) if word)
            value: Value = {"cell": cell, "group": "baseline" if row.vpn == BASELINE else f"over {carrier.upper()}"}
            value |= {"inside": table.metric[:3].upper(), "median": row.summary.median / scale}
            values.append(value | {"says": text.with_interval(row.summary, table.unit, row.at_least > 0)})
    if len({value["inside"] for value in values}) < 2:
        return None
    scale_x = log_or_linear(tcp.metric in samples.log)  # and the same for UDP
    x = {"field": "median", "type": "quantitative", "title": f"median throughput ({unit})", "scale": scale_x}
    encoding = {
        "row": {"field": "group", "title": None, "header": {"labelAngle": 0, "labelAlign": "left"}},
        "y": {"field": "cell", "title": None, "axis": {"labelLimit": 320}},
        "yOffset": {"field": "inside"},
        "x": x,
        "color": {"field": "inside", "title": "inside", "scale": {"range": ["#4c78a8", "#f58518"]}},
        "tooltip": [{"field": "cell"}, {"field": "inside"}, {"field": "says", "title": "median (95 %)"}],
    }
    mark = {"type": "point", "filled": True, "size": 70}
    shape = {"width": WIDTH - 160, "height": {"step": 11}, "data": {"values": values}, "mark": mark}
    spec = spec_of(shape | {"encoding": encoding, "resolve": {"scale": {"y": "independent"}}})
    return Plot(
        key=key_of(experiment, "groups"),
        title="TCP and UDP throughput, by what carries the VPN",
        alt="TCP and UDP throughput of each VPN side by side, grouped by the protocol that carries its packets.",
        spec=spec,
    )


def cost(experiment: ExperimentReport, tcp: MetricTable, cpu: MetricTable, samples: Samples) -> Plot | None:
    """CPU cost against throughput: the lower right is fast and cheap."""
    scale, unit = unit_of(tcp)
    costs = {cell_key(row.vpn, row.params): row for row in cpu.measured_rows}
    values: list[Value] = []
    for row in tcp.measured_rows:
        cost = costs.get(cell_key(row.vpn, row.params))
        if row.summary and cost and cost.summary:
            value: Value = {"cell": label_of(row), "vpn": row.vpn, "rate": row.summary.median / scale}
            says = f"{text.with_interval(row.summary, tcp.unit)}; {text.with_interval(cost.summary, cpu.unit)}"
            values.append(value | {"cost": cost.summary.median, "says": says})
    if len(values) < 2:
        return None
    encoding = {
        "x": {
            "field": "rate",
            "type": "quantitative",
            "title": f"TCP throughput ({unit})",
            "scale": log_or_linear(tcp.metric in samples.log),
        },
        "y": {
            "field": "cost",
            "type": "quantitative",
            "title": f"CPU cost ({cpu.unit})",
            "scale": log_or_linear(cpu.metric in samples.log),
        },
        "color": samples.colour,
        "tooltip": [{"field": "cell"}, {"field": "says", "title": "throughput; cost"}],
    }
    mark = {"type": "point", "filled": True, "size": 60}
    return Plot(
        key=key_of(experiment, "cost"),
        title="CPU cost against TCP throughput",
        alt="Each cell's CPU cost against its TCP throughput; lower right is fast and cheap.",
        spec=spec_of({"height": 260, "data": {"values": values}, "mark": mark, "encoding": encoding}),
    )
