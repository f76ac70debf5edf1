"""The papers' ratios against those of runs: on the diagonal, both are the same."""

from __future__ import annotations

from collections.abc import Sequence

from questions.papers.findings import COLOUR, FindingRow
from runner.design.blocks import Plot
from runner.report.plots.drawing import WIDTH, Value
from runner.report.plots.vega import SCHEMA

COLOURS = {
    **{"reproduced": "#2a7f3f", "not reproduced": "#b3261e", "answered": "#1f77b4", "undecided": "#8a8a8a"},
    **{"unmeasured": "#c8c8c8", "incomparable": "#b8860b"},
}


def published_against_measured(rows: Sequence[tuple[str, FindingRow]]) -> Plot:
    """A point for each finding with a published and a measured ratio, with its 95 % interval. ``rows``: (the letters of
    the runs, finding). Left out are times, which need axes of their own, what a run's kernel is no scale for, and what
    a busy machine measured."""
    points: list[Value] = []
    for run, row in rows:
        if row.published and row.value and row.value > 0 and not row.unit and row.kind not in ("scale", "busy"):
            name = f"{row.experiment}/{row.id} ({run})"
            point: Value = {"name": name, "published": row.published, "value": row.value, "verdict": row.verdict}
            if row.low is not None and row.high is not None:
                point |= {"low": row.low, "high": row.high}
            points.append(point)
    numbers = [float(point[key]) for point in points for key in ("published", "value", "low", "high") if key in point]
    low, high = min(numbers, default=0.1) / 1.2, max(numbers, default=10.0) * 1.2
    scale = {"type": "log", "domain": [low, high], "nice": False}
    colour = {"domain": list(COLOUR), "range": [COLOURS[verdict] for verdict in COLOUR]}
    x = {"field": "published", "type": "quantitative", "title": "published ratio", "scale": scale}
    y = {"field": "value", "type": "quantitative", "title": "measured ratio (95 % interval)", "scale": scale}
    shade = {"field": "verdict", "type": "nominal", "title": None, "scale": colour}
    spec = {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": WIDTH,
        "data": {"values": points},
        "layer": [
            {
                "data": {"values": [{"a": low, "b": low}, {"a": high, "b": high}]},
                "mark": {"type": "line", "strokeDash": [4, 4], "color": "#8a8a8a"},
                "encoding": {
                    "x": {"field": "a", "type": "quantitative", "scale": scale},
                    "y": {"field": "b", "type": "quantitative", "scale": scale},
                },
            },
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": "rule",
                "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": shade},
            },
            {"mark": {"type": "point", "filled": True, "size": 50}, "encoding": {"x": x, "y": y, "color": shade}},
            {
                "mark": {"type": "text", "align": "left", "dx": 7, "fontSize": 9},
                "encoding": {"x": x, "y": y, "text": {"field": "name"}},
            },
        ],
    }
    title = "Published ratio against measured ratio"
    about = f"{len(points)} findings that have both a published and a measured ratio, with 95 % intervals."
    return Plot(key="findings", title=title, alt=f"{title}: {about}", spec=spec)
