"""What the plots of a report share: its samples, their colours and axes, and what they call a cell."""

from __future__ import annotations

from runner.data.levels import BASELINE
from runner.data.trials import cell_key
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_levels
from runner.report.model import Report
from runner.report.observations import Observation
from runner.report.plots.drawing import PALETTE, POINTS, colours, wide
from runner.report.plots.vega import Spec

ALL_POINTS, FEWEST = 12_000, 200  # of all plots of a page together; but at least so many of each
STEP_OF_TWO = 34  # where labels have a second line
LINES = "split(datum.label, ' · ')"  # the label's levels on a line of their own
SHARED = ("tcp_throughput", "udp_throughput")  # metrics that share an axis
OF_BASELINE = "#888888"


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
