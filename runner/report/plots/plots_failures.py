"""The timeline of a handover, a takeover or a reroute: what was lost in each direction, from the break to the first
packet after it."""

from __future__ import annotations

from runner.report.failures import DRAWN, FailureRow
from runner.report.model import ExperimentReport, MetricTable
from runner.report.plots.plotting import Plot, Value, key_of, spec_of
from runner.report.text import counted

LANES = ("events", "forward", "reverse")  # of one failure, from top to bottom
LANE, PADDING = 7, 16  # pixels
BREAK, EVENT, FIRST, NEVER = "the break", "what was done or seen", "first packet after", "given up"
DECADES = (0, 0.1, 0.3, 1, 3, 10, 30, 60)  # seconds
WIDE = 20  # outages further apart than this factor are drawn on a logarithmic axis
FAILURES = f"Up to {DRAWN} failures of each cell, from the shortest outage to the longest."


def timelines(experiment: ExperimentReport, table: MetricTable, failures: list[FailureRow]) -> Plot | None:
    """Failures as lanes, grouped by cell in the order of the table, seconds after the break; those of one cell by
    their outage. What was lost before the break is none of it, and left out."""
    places = {(row.vpn, tuple(sorted(row.params.items()))): place for place, row in enumerate(table.measured)}
    found = [(places.get((row.vpn, tuple(sorted(row.params.items())))), row) for row in failures]
    rows = [row for _, row in sorted(((at, row) for at, row in found if at is not None), key=lambda each: each[0])]
    gaps: list[Value] = []
    events: list[Value] = []
    for row in rows:
        for number, timeline in enumerate(row.drawn):
            zero = timeline.events[0].at_s if timeline.events else 0.0
            cell: Value = {"cell": f"{row.vpn} · {row.levels}", "failure": number + 1}
            since = [gap for gap in timeline.gaps if gap.end_s > zero]
            for gap in since:
                where: Value = {"lane": f"{number} {gap.direction}", "direction": gap.direction, "lost": gap.lost}
                gaps.append(cell | where | {"from": round(gap.start_s - zero, 4), "to": round(gap.end_s - zero, 4)})
            kinds = [NEVER if event.what.startswith(NEVER) else EVENT for event in timeline.events]
            seen = [(event.at_s, kind, event.what) for event, kind in zip(timeline.events, kinds, strict=True)]
            seen[:1] = [(at, BREAK, what) for at, _, what in seen[:1]]
            if since and NEVER not in kinds:
                seen.append((max(gap.end_s for gap in since), FIRST, "the first packet after the last gap"))
            for at, kind, what in seen:
                events.append(
                    cell | {"lane": f"{number} events", "at": round(at - zero, 4), "kind": kind, "what": what}
                )
    if not events:
        return None
    lanes = [f"{number} {lane}" for number in range(max(len(row.drawn) for row in rows)) for lane in LANES]
    ends = [float(gap["to"]) for gap in gaps if float(gap["to"]) > 0]
    wide = bool(ends) and max(ends) / min(ends) > WIDE
    axis = {"values": list(DECADES), "format": "~g"} if wide else {}
    x = {
        "type": "quantitative",
        "title": "seconds after the break" + (" (logarithmic from 0.1 s on)" if wide else ""),
        "scale": {"type": "symlog", "constant": 0.1} if wide else {},
        "axis": axis,
    }
    y = {"field": "cell", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}}
    lane = {"field": "lane", "type": "nominal", "scale": {"domain": lanes}}
    colour = {"domain": ["forward", "reverse"], "range": ["#4c78a8", "#f58518"]}
    shapes = {"domain": [BREAK, EVENT, FIRST, NEVER], "range": ["triangle-down", "diamond", "circle", "cross"]}
    bars = {
        "data": {"values": gaps},
        "mark": {"type": "bar"},
        "encoding": {
            "x": x | {"field": "from"},
            "x2": {"field": "to"},
            "y": y,
            "yOffset": lane,
            "color": {"field": "direction", "title": "nothing arrives", "scale": colour},
            "tooltip": [{"field": field} for field in ("cell", "failure", "direction", "from", "to", "lost")],
        },
    }
    points = {
        "data": {"values": events},
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1, "style": "ink"},
        "encoding": {
            "x": x | {"field": "at"},
            "y": y,
            "yOffset": lane,
            "shape": {"field": "kind", "title": None, "scale": shapes},
            "tooltip": [{"field": field} for field in ("cell", "failure", "what", "at")],
        },
    }
    cells = {str(event["cell"]): None for event in events}
    told = "One failure of each cell." if len(lanes) == len(LANES) else FAILURES
    return Plot(
        key=key_of(experiment, f"{table.metric}-timelines"),
        title=f"{table.title}: when nothing arrived, seconds after the break",
        alt=f"Timelines of the failures of {counted(len(cells), 'cell')}. {told} The table below has the words.",
        spec=spec_of({"height": len(cells) * (len(lanes) * LANE + PADDING), "layer": [bars, points]}, told),
    )
