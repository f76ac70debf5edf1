"""The timeline of a handover, a takeover or a reroute: what was lost in each direction, from the break to the first
packet after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runner.data.trials import LossGap, Timeline
from runner.design.blocks import Plot
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.failures import DRAWN, FailureRow, spread
from runner.report.plots.drawing import Value, spec_of
from runner.report.plots.plotting import key_of
from runner.report.text import count_noun

LANES = ("events", "forward", "reverse")  # of one failure, from top to bottom
LANE, PADDING = 7, 16  # pixels
BREAK, EVENT, FIRST, NEVER = "the break", "what was done or seen", "first packet after", "given up"
DECADES = (0, 0.1, 0.3, 1, 3, 10, 30, 60)  # seconds
WIDE = 20  # outages further apart than this factor are drawn on a logarithmic axis
FAILURES = f"Up to {DRAWN} failures of each cell, from the shortest outage to the longest."


def timelines(experiment: ExperimentReport, table: MetricTable, failures: list[FailureRow]) -> Plot | None:
    """Failures as lanes, in seconds after the break: grouped by cell in the order of the table, and those of one cell
    in the order of their outages. What was lost before the break is left out."""
    rows = _in_the_tables_order(failures, table)
    drawn = [(row, number, timeline) for row in rows for number, timeline in enumerate(row.drawn)]
    events = [event for row, number, timeline in drawn for event in _events(row, number, timeline)]
    gaps = [gap for row, number, timeline in drawn for gap in _gaps(row, number, timeline)]
    if not events:
        return None
    lanes = [f"{number} {lane}" for number in range(max(len(row.drawn) for row in rows)) for lane in LANES]
    cells = {str(event["cell"]): None for event in events}
    note = "One failure of each cell." if len(lanes) == len(LANES) else FAILURES
    layers = _layers(gaps, events, lanes)
    return Plot(
        key=key_of(experiment, f"{table.metric}-timelines"),
        title=f"{table.title}: when nothing arrived, seconds after the break",
        alt=f"Timelines of the failures of {count_noun(len(cells), 'cell')}. {note} The table below has the words.",
        spec=spec_of({"height": len(cells) * (len(lanes) * LANE + PADDING), "layer": layers}, note),
    )


def _in_the_tables_order(failures: list[FailureRow], table: MetricTable) -> list[FailureRow]:
    """The failures of the table's cells, in the order of the table."""
    places = {(row.vpn, tuple(sorted(row.params.items()))): place for place, row in enumerate(table.measured_rows)}
    placed = [(places.get((row.vpn, tuple(sorted(row.params.items())))), row) for row in failures]
    return [row for _, row in sorted(((at, row) for at, row in placed if at is not None), key=lambda each: each[0])]


def _cell(row: FailureRow, number: int) -> Value:
    return {"cell": f"{row.vpn} · {row.levels}", "failure": number + 1}


def _break_s(timeline: Timeline) -> float:
    return timeline.events[0].at_s if timeline.events else 0.0


def _since_the_break(timeline: Timeline) -> list[LossGap]:
    return [gap for gap in timeline.gaps if gap.end_s > _break_s(timeline)]


def _gaps(row: FailureRow, number: int, timeline: Timeline) -> Iterator[Value]:
    """The bars of one failure, in a lane for each direction."""
    zero = _break_s(timeline)
    for gap in _since_the_break(timeline):
        where: Value = {"lane": f"{number} {gap.direction}", "direction": gap.direction, "lost": gap.lost}
        yield _cell(row, number) | where | {"from": round(gap.start_s - zero, 4), "to": round(gap.end_s - zero, 4)}


def _events(row: FailureRow, number: int, timeline: Timeline) -> Iterator[Value]:
    """The points of one failure: the break, what was done or seen, and the first packet after the last gap."""
    since = _since_the_break(timeline)
    every = len(row.outages_ms)  # from the shortest on, and so those that never ended are the last
    given_up = spread(every)[number] >= every - row.unrecovered
    seen = [(event.at_s, EVENT, event.what) for event in timeline.events]
    seen[:1] = [(at, BREAK, what) for at, _, what in seen[:1]]
    seen[-1:] = [(at, NEVER if given_up else kind, what) for at, kind, what in seen[-1:]]
    if since and not given_up:
        seen.append((max(gap.end_s for gap in since), FIRST, "the first packet after the last gap"))
    for at, kind, what in seen:
        since_s = round(at - _break_s(timeline), 4)
        yield _cell(row, number) | {"lane": f"{number} events", "at": since_s, "kind": kind, "what": what}


def _layers(gaps: Sequence[Value], events: Sequence[Value], lanes: Sequence[str]) -> list[dict[str, Any]]:
    """Bars of the gaps, and points of the events above them."""
    x = _seconds_after_the_break(gaps)
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
    return [bars, points]


def _seconds_after_the_break(gaps: Sequence[Value]) -> dict[str, Any]:
    """The axis of time: logarithmic where the outages are far apart."""
    ends = [float(gap["to"]) for gap in gaps if float(gap["to"]) > 0]
    wide = bool(ends) and max(ends) / min(ends) > WIDE
    return {
        "type": "quantitative",
        "title": "seconds after the break" + (" (logarithmic from 0.1 s on)" if wide else ""),
        "scale": {"type": "symlog", "constant": 0.1} if wide else {},
        "axis": {"values": list(DECADES), "format": "~g"} if wide else {},
    }
