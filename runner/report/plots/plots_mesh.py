"""The plots of meshes against their number of sites, measured and predicted, beside the OSLV paper's curves.

The paper has formulas of the effort to join (Table 5), and says of memory that N tunnels take N times as much, so
that a tunnel's share stays the same ("Scalability"). Time, CPU and configuration have no curve there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.design.blocks import Plot
from runner.report import text
from runner.report.mesh import WHAT, MeshPoint, quantity_or_number
from runner.report.plots.drawing import Value, spec_of
from runner.report.plots.vega import Spec


def mesh_plots(points: Sequence[MeshPoint], key: Callable[[str], str]) -> list[Plot]:
    """A plot for each quantity, against the number of sites. ``key`` makes a file's name from that of a quantity."""
    vpns = sorted({point.vpn for point in points})
    colour: Spec = {"field": "vpn", "type": "nominal", "title": "VPN", "scale": {"domain": vpns}}
    plots = [_against_n(points, what, title, unit, colour, key) for what, title, unit in WHAT]
    return [plot for plot in plots if plot]


def _against_n(
    points: Sequence[MeshPoint], what: str, title: str, unit: str, colour: Spec, key: Callable[[str], str]
) -> Plot | None:
    """Filled: brought up (or counted); hollow: predicted; dashed: the paper's curve."""
    known = [point for point in points if getattr(point, what) is not None]
    if not any(getattr(point, what) for point in known):
        return None
    scale, prefixed = text.prefix(max(getattr(point, what) for point in known), unit)
    values: list[Value] = []
    for point in known:
        value: Value = {"vpn": point.vpn, "sites": point.sites, "value": getattr(point, what) / scale}
        how = "counted" if what == "effort" else "predicted" if point.predicted else "measured"
        values.append(value | {"how": how, "says": quantity_or_number(getattr(point, what), unit)})
    of_paper = _paper_curve(points, what, scale)
    x = {"field": "sites", "type": "quantitative", "title": "sites of the full mesh (N)", "scale": {"zero": False}}
    y = {"field": "value", "type": "quantitative", "title": title + (f" ({prefixed})" if prefixed != "1" else "")}
    tooltip = [{"field": "vpn"}, {"field": "sites"}, {"field": "says", "title": title}, {"field": "how"}]
    solid = [value for value in values if value["how"] != "predicted"]
    layers: list[Spec] = [
        {
            "data": {"values": of_paper},
            "mark": {"type": "line", "strokeDash": [5, 4]},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        {
            "data": {"values": values},
            "mark": {"type": "line", "opacity": 0.5},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        {
            "data": {"values": solid},
            "mark": {"type": "point", "filled": True, "size": 55},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
        },
        {
            "data": {"values": [value for value in values if value["how"] == "predicted"]},
            "mark": {"type": "point", "filled": False, "size": 55},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
        },
    ]
    note = (
        "Filled: measured; hollow: predicted, not measured."
        if what != "effort"
        else "Files, routes and keys, counted from the recipe."
    )
    note += " Dashed: the paper's curve." if of_paper else " The paper has no curve of this."
    predicted = len(values) - len(solid)
    return Plot(
        key=key(what.replace("_", "-")),
        title=f"{title}, by the number of sites",
        alt=f"{title} against the number of sites: {text.count_noun(len(solid), 'point')} and {predicted} predicted.",
        spec=spec_of({"height": 240, "layer": layers}, note),
    )


def _paper_curve(points: Sequence[MeshPoint], what: str, scale: float) -> list[Value]:
    """The points of the paper's formula of the effort; for memory, of its claim that each tunnel takes as much as the
    first."""
    curve: list[Value] = []
    if what == "effort":
        curves = [(point, point.effort_of_the_paper) for point in points]
    elif what == "memory_bytes":
        first = {point.vpn: point.memory_bytes for point in points if point.sites == 2 and not point.predicted}
        curves = [(point, first.get(point.vpn)) for point in points]
    else:
        return curve
    for point, value in curves:
        if value:
            curve.append({"vpn": point.vpn, "sites": point.sites, "value": value / scale})
    return curve
