"""The plot of a farm: on each machine the ratio of the first two VPNs, a panel for each metric."""

from __future__ import annotations

from collections.abc import Sequence

from runner.design.blocks import Plot
from runner.ranking.machines import OnMachines
from runner.report.plots.plotting import STEP, WIDTH, Value, spec_of

LABELS = 160  # px that the machines' names may take


def machine_plots(rankings: Sequence[OnMachines]) -> list[Plot]:
    """A plot for each ranking whose machines have ratios."""
    plots = [_ratios(ranking, number) for number, ranking in enumerate(rankings)]
    return [plot for plot in plots if plot]


def _ratios(ranking: OnMachines, number: int) -> Plot | None:
    values: list[Value] = [
        {
            "machine": machine.machine,
            "metric": ranking.titles[ratio.metric],
            "ratio": ratio.ratio,
            "low": ratio.low,
            "high": ratio.high,
            "like": "not like the others" if machine.stands_out else "like the others",
            "says": f"{ratio.ratio:.3g} ({ratio.low:.3g} to {ratio.high:.3g})",
        }
        for machine in ranking.machines
        for ratio in machine.ratios
    ]
    if not values:
        return None
    scale = {"type": "log", "nice": False, "padding": 12, "zero": False}
    y = {"field": "machine", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": LABELS}}
    x = {"type": "quantitative", "scale": scale}
    like = {"domain": ["like the others", "not like the others"], "range": ["#4c78a8", "#e45756"]}
    colour = {"field": "like", "title": None, "scale": like}
    title = f"{ranking.first} over {ranking.second}"
    layers = [
        {"mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": {"x": {"datum": 1, **x}}},
        {"mark": "rule", "encoding": {"y": y, "x": {"field": "low", "title": title, **x}, "x2": {"field": "high"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {
                "y": y,
                "x": {"field": "ratio", "title": title, **x},
                "color": colour,
                "tooltip": [{"field": "machine"}, {"field": "metric"}, {"field": "says", "title": title}],
            },
        },
    ]
    shape = {"width": WIDTH - LABELS, "height": {"step": STEP}, "layer": layers}
    header = {"labelAnchor": "start", "title": None}
    spec = spec_of(
        {
            "data": {"values": values},
            "facet": {"row": {"field": "metric", "header": header | {"labelOrient": "top"}}},
            "spec": shape,
            "resolve": {"scale": {"x": "independent"}},
        }
    )
    spec.pop("width")  # each panel of a facet has a width of its own
    where = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    return Plot(
        key=f"machines-{number}",
        title=f"{ranking.first} over {ranking.second} on each machine ({where})",
        alt=f"{ranking.first}'s value over {ranking.second}'s on each machine with its 95 % interval, a panel "
        "for each metric.",
        spec=spec,
    )
