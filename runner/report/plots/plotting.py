"""What all plots of a report share: Vega-Lite specifications, colours, scales, and how many points there are.

Every sample is a point until a plot has more than POINTS of them (fewer where there are many plots); then every k-th is
shown, and the plot says so. The interval and the median stay those of all. See decision 0017.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.trials import cell_key
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_levels
from runner.report.facts import BASELINE
from runner.report.model import Report
from runner.report.observations import Observation
from runner.report.plots.vega import SCHEMA, Spec

POINTS = 1500  # of one plot
ALL_POINTS, FEWEST = 12_000, 200  # of all plots of a page together; but at least so many of each
WIDTH = 620
STEP = 22
STEP_OF_TWO = 34  # where labels have a second line
LINES = "split(datum.label, ' · ')"  # the label's levels on a line of their own
SHARED = ("tcp_throughput", "udp_throughput")  # metrics that share an axis
# Colours that readers with any colour vision tell apart (Okabe and Ito, 2008), yellow last: it is pale on paper.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8c6d31", "#f0e442")
OF_BASELINE = "#888888"
Value = dict[str, str | float | int]


def colours(vpns: Sequence[str]) -> dict[str, str]:
    """VPN -> its colour; with more VPNs than colours, some share one."""
    return {vpn: PALETTE[at % len(PALETTE)] for at, vpn in enumerate(vpns)}


class Samples:
    """The observations of a report by cell and metric, and what is alike in every plot: the colours of the VPNs, the
    number of ``points`` at most, and the metrics with a logarithmic axis (``log``)."""

    def __init__(self, report: Report) -> None:
        self.carriers = report.carriers
        self.log = logarithmic(report)
        tables = sum(len(experiment.tables) for experiment in report.experiments)
        self.points = max(FEWEST, min(POINTS, ALL_POINTS // max(1, tables)))
        self.by_cell: dict[tuple[str, str], list[Observation]] = {}
        self.bad: dict[str, list[Observation]] = {}
        for seen in report.observations:
            if seen.status not in ("ok", "unsupported"):
                self.bad.setdefault(cell_key(seen.vpn, seen.params), []).append(seen)
            if seen.value is not None:
                self.by_cell.setdefault((cell_key(seen.vpn, seen.params), seen.metric), []).append(seen)
        vpns = sorted({seen.vpn for seen in report.observations if seen.value is not None} - {BASELINE})
        self.colours = colours(vpns)
        scale: Spec = {"domain": [BASELINE, *vpns]}
        few = {"range": [OF_BASELINE, *self.colours.values()]}
        scale |= few if len(vpns) <= len(PALETTE) else {"scheme": "tableau20"}
        self.colour: Spec = {"field": "vpn", "type": "nominal", "title": "VPN", "scale": scale}

    def observations_of(self, row: Row, metric: str) -> list[Observation]:
        """The observations of the row's cell that have a value of ``metric``."""
        return self.by_cell.get((cell_key(row.vpn, row.params), metric), [])

    def failed_observations(self, row: Row) -> list[Observation]:
        """The observations of the row's cell whose trials are neither ok nor unsupported."""
        return self.bad.get(cell_key(row.vpn, row.params), [])


def logarithmic(report: Report) -> set[str]:
    """The metrics that have a logarithmic axis wherever they are drawn, because their medians, or the exchanges of a
    distribution, span much. Metrics that share an axis have the same kind. A metric with a value of zero has a linear
    axis."""
    drawn: dict[str, list[float]] = {}
    for experiment in report.experiments:
        for table in experiment.tables:
            drawn.setdefault(table.metric, []).extend(row.summary.median for row in table.measured_rows if row.summary)
    values: dict[str, list[float]] = {}
    for seen in report.observations:
        if seen.value is not None:
            values.setdefault(seen.metric, []).append(seen.value)
        if len(seen.samples) > 1 and report.metrics[seen.metric].plot == "distribution":
            drawn.setdefault(seen.metric, []).extend((min(seen.samples), max(seen.samples)))
    together = {metric for metric in SHARED if drawn.get(metric)}
    log = {metric for metric, medians in drawn.items() if wide(medians)}
    zero = {metric for metric, medians in drawn.items() if min([*medians, *values.get(metric, ())], default=0.0) <= 0}
    log |= together if log & together else set()
    zero |= together if zero & together else set()
    return log - zero


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


def unit_of(table: MetricTable) -> tuple[float, str]:
    """The prefix in which the largest median reads best."""
    return text.prefix(max(row.summary.median for row in table.measured_rows if row.summary), table.unit)


def label_of(row: Row) -> str:
    """The row's name in a plot: the VPN, and those of its levels that vary."""
    levels = row_levels(row)
    return f"{row.vpn} · {levels}" if levels else row.vpn


def key_of(experiment: ExperimentReport, what: str) -> str:
    """A file name of letters, digits and dashes."""
    words = f"{experiment.name}-{what}".replace("_", "-")
    return "".join(letter if letter.isalnum() or letter == "-" else "-" for letter in words)


def spec_of(body: Spec, note: str = "") -> Spec:
    """A whole Vega-Lite specification from its ``body``, which may override the width; ``note`` stands above it."""
    title: Spec = {"title": {"text": note, "anchor": "start", "fontSize": 11, "fontWeight": "normal"}} if note else {}
    config = {"style": {"ink": {"stroke": "#444", "color": "#444"}}}
    return {"$schema": SCHEMA, "width": WIDTH, "config": config} | title | body
