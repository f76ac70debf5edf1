"""Box plots of handovers, as in the ClusterIP paper: the least, the quartiles, the median and the greatest."""

from __future__ import annotations

import numpy as np

from runner.design.blocks import Plot
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.plots.drawing import Value, spec_of
from runner.report.plots.plotting import STEP_OF_TWO, Samples, key_of, label_of

ENOUGH = 20  # samples of a cell, for quartiles
ENDS = ("least", "low", "median", "high", "greatest")


def boxes(experiment: ExperimentReport, table: MetricTable, samples: Samples) -> Plot | None:
    """A box for each cell of the table that has enough samples; None where none has."""
    cells: list[Value] = []
    for row in table.measured_rows:
        every = [sample for seen in samples.observations_of(row, table.metric) for sample in seen.samples]
        if len(every) >= ENOUGH:
            ends = dict(zip(ENDS, (float(end) for end in np.percentile(every, (0, 25, 50, 75, 100))), strict=True))
            cells.append({"cell": label_of(row), "vpn": row.vpn, "n": len(every), **ends})
    if not cells:
        return None
    x = {"type": "quantitative", "title": f"{table.title} ({table.unit})", "scale": {"zero": True}}
    encoding = {
        "y": {"field": "cell", "type": "nominal", "title": None, "sort": None},
        "color": samples.colour | {"legend": None},
        "tooltip": [{"field": field} for field in ("cell", "n", *ENDS)],
    }
    whisker = {"mark": "rule", "encoding": {"x": x | {"field": "least"}, "x2": {"field": "greatest"}}}
    box = {
        "mark": {"type": "bar", "size": 14, "opacity": 0.5},
        "encoding": {"x": x | {"field": "low"}, "x2": {"field": "high"}},
    }
    median = {
        "mark": {"type": "tick", "thickness": 2, "size": 14, "style": "ink"},
        "encoding": {"x": x | {"field": "median"}},
    }
    body = {"data": {"values": cells}, "encoding": encoding, "layer": [whisker, box, median]}
    return Plot(
        key=key_of(experiment, f"{table.metric}-boxes"),
        title=f"{table.title}: box plots of all samples",
        alt=f"Box plots of {text.count_noun(sum(int(cell['n']) for cell in cells), 'sample')} of "
        f"{text.count_noun(len(cells), 'cell')}.",
        spec=spec_of(body | {"height": STEP_OF_TWO * len(cells)}, "Box: the quartiles. Line: least to greatest."),
    )
