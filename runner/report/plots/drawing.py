"""What all plots share, of whatever: Vega-Lite specifications, colours, scales, and how many points there are.

Every sample is a point until a plot has more than POINTS of them (fewer where there are many plots); then every k-th is
shown, and the plot says so. The interval and the median stay those of all. See decision 0017.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.report.plots.vega import SCHEMA, Spec

POINTS = 1500  # of one plot
WIDTH = 620
STEP = 22
# Colours that readers with any colour vision tell apart (Okabe and Ito, 2008), yellow last: it is pale on paper.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8c6d31", "#f0e442")
Value = dict[str, str | float | int]


def colours(vpns: Sequence[str]) -> dict[str, str]:
    """VPN -> its colour; with more VPNs than colours, some share one."""
    return {vpn: PALETTE[at % len(PALETTE)] for at, vpn in enumerate(vpns)}


def thin(values: Sequence[Value], points: int = POINTS) -> Sequence[Value]:
    """At most ``points`` of the values: every k-th."""
    return values[:: -(-len(values) // points)] if values else values


def thinning_sentence(values: Sequence[Value], points: int = POINTS) -> str:
    """The sentence that says how many samples ``thin`` leaves; empty where it leaves all."""
    shown = len(thin(values, points))
    return f"{shown} of {len(values)} samples are shown." if shown < len(values) else ""


def log_or_linear(log: bool) -> Spec:
    """The scale of an axis, as Vega-Lite has it."""
    return {"type": "log", "nice": False, "padding": 12} if log else {"zero": True}


def wide(values: Sequence[float]) -> bool:
    """Whether the values are positive and span more than a factor of 30."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > 30


def spec_of(body: Spec, note: str = "") -> Spec:
    """A whole Vega-Lite specification from its ``body``, which may override the width; ``note`` stands above it."""
    title: Spec = {"title": {"text": note, "anchor": "start", "fontSize": 11, "fontWeight": "normal"}} if note else {}
    config = {"style": {"ink": {"stroke": "#444", "color": "#444"}}}
    return {"$schema": SCHEMA, "width": WIDTH, "config": config} | title | body
