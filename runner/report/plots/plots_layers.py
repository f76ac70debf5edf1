"""One packet on the WAN, layer by layer."""

from __future__ import annotations

from runner.data.packet import AGREE_BYTES, HEADER, INNER, INSIDE, IV, OUTER, OUTER_IPV6, PADDING, TAG, overhead_of
from runner.design.blocks import Plot
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.plots.drawing import STEP, Value, spec_of
from runner.report.plots.plotting import Samples, key_of

AROUND = "around it"
# The layers of a packet as runner/data/packet.py names them -> their colours.
LAYERS = {OUTER: "#4c78a8", "UDP": "#72b7b2", "TCP": "#439894", HEADER: "#f58518", IV: "#eeca3b", INSIDE: "#b279a2"}
LAYERS |= {OUTER_IPV6: "#2f4b6e", INNER: "#bab0ac", PADDING: "#ff9da6", TAG: "#54a24b", AROUND: "#e45756"}


def layers(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot | None:
    """One packet on the WAN, of the longest inner one that most configurations carry, layer by layer.

    The layers are the closed form's, where what was measured is as long; else the packet, and what is around it. None
    for a single bar."""
    lengths = [
        row.params["packet_bytes"] for row in table.measured_rows if row.params.get("packet_bytes", "").isdecimal()
    ]
    if not lengths:
        return None
    inner = max(set(lengths), key=lambda length: (lengths.count(length), int(length)))
    values: list[Value] = []
    rows = [row for row in table.measured_rows if row.summary and row.params.get("packet_bytes") == inner]
    cells = [" ".join(filter(None, (row.vpn, text.configuration(row.params), text.wan(row.params)))) for row in rows]
    if len(cells) < 2:
        return None
    for row, cell in zip(rows, cells, strict=True):
        assert row.summary
        known = next(
            (seen.layers for seen in samples.observations_of(row, table.metric) if seen.layers), {INNER: int(inner)}
        )
        drawn: dict[str, float] = {**known}
        if abs(overhead_of(known) - row.summary.median) > AGREE_BYTES:
            drawn = {INNER: int(inner), AROUND: row.summary.median}
        for order, (layer, length) in enumerate(drawn.items()):
            values.append({"cell": cell, "layer": layer, "bytes": length, "order": order})
    present = {value["layer"] for value in values}
    scale = {
        "domain": [layer for layer in LAYERS if layer in present],
        "range": [LAYERS[layer] for layer in LAYERS if layer in present],
    }
    encoding = {
        "y": {"field": "cell", "sort": cells, "title": None, "axis": {"labelLimit": 320}},
        "x": {"field": "bytes", "type": "quantitative", "stack": True, "title": "bytes of one packet on the WAN"},
        "color": {"field": "layer", "type": "nominal", "title": None, "scale": scale},
        "order": {"field": "order"},
        "tooltip": [{"field": "cell"}, {"field": "layer"}, {"field": "bytes", "format": ".4~g"}],
    }
    return Plot(
        key=key_of(experiment, f"{table.metric}-layers"),
        title=f"A packet of {inner} bytes on the WAN, layer by layer",
        alt=f"Stacked bars: the layers of one packet on the WAN, the inner packet of {inner} bytes among them, of "
        f"{text.count_noun(len(cells), 'cell')}.",
        spec=spec_of({"height": STEP * len(cells), "data": {"values": values}, "mark": "bar", "encoding": encoding}),
    )
