"""What each machine of a farm says of a ranking: on how many of them the order holds, the ratios on each, and the
machines that stand out."""

from __future__ import annotations

from collections.abc import Sequence

from runner.design.blocks import Block, Heading, Note, Paragraph, Plot, Table
from runner.ranking.model import OneMachine, OnMachines
from runner.report import text
from runner.report.plots.drawing import STEP, WIDTH, Value, spec_of

LABELS = 160  # px that the machines' names may take
ABOUT = (
    "Each machine by itself. A ratio pairs the values of a round, so how fast the machine is cancels out. The "
    "intervals of the ranking contain the differences between machines. A machine is named as not like the others "
    "where a ratio on it differs from theirs by more than chance explains (5 % for all machines and ratios together; "
    "from four machines on)."
)


def section(rankings: Sequence[OnMachines]) -> list[Block]:
    """The section; empty where there is no farm, or no two machines have ratios of their own."""
    if not rankings:
        return []
    holding = Paragraph(holds(rankings[0]), "strong")
    tables = map(_table, rankings)
    return [Heading("Machines", "machines"), Paragraph(ABOUT), holding, *tables, *machine_plots(rankings)]


def holds(ranking: OnMachines) -> str:
    """``wireguard_go leads on 9 of 10 machines; on m7 openvpn leads.``"""
    every, elsewhere = len(ranking.machines), ranking.elsewhere
    leads = f"{ranking.first} leads on {every - len(elsewhere)} of {text.count_noun(every, 'machine')}"
    by_leader: dict[str, list[str]] = {}
    for machine in elsewhere:
        by_leader.setdefault(machine.leader, []).append(machine.machine)
    others = [f"on {', '.join(names)} {leader} leads" for leader, names in by_leader.items()]
    out = [machine.machine for machine in ranking.machines if machine.stands_out]
    stand = f" Not like the others: {', '.join(out)}." if out else ""
    return "; ".join([leads, *others]) + "." + stand


def _table(ranking: OnMachines) -> Table:
    ratios = [f"{title}: {ranking.first} over {ranking.second}" for title in ranking.titles.values()]
    where = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    return Table(
        where,
        ["machine", "leads", "blocks", *ratios],
        [
            [machine.machine, machine.leader, str(machine.blocks), *_cells(machine, ranking)]
            for machine in ranking.machines
        ],
        notes=[
            Note(f"{machine.machine}: {sentence}") for machine in ranking.machines for sentence in machine.stands_out
        ],
    )


def _cells(machine: OneMachine, ranking: OnMachines) -> list[str]:
    known = {ratio.metric: f"{ratio.ratio:.3g} ({ratio.low:.3g}–{ratio.high:.3g})" for ratio in machine.ratios}
    return [known.get(metric, text.NONE) for metric in ranking.titles]


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
