"""The thesis' Table 3 for this run: mean and standard deviation of the loss at the UDP throughput."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from runner.data.trials import Measurement, Run, Trial, cell_key
from runner.papers.published import paper
from runner.report.text import NONE

HEAD = (
    *("VPN", "cipher", "UDP throughput, Mbit/s", "trials at it", "mean loss, %", "standard deviation, %"),
    "the thesis: mean; deviation",
)
AT_IT = 0.01  # a trial that offered the throughput within this share was made at it
ABOUT = (
    "The loss of the trials that offered the UDP throughput (within 1 %), over all repetitions: mean and standard "
    "deviation. The thesis has ten tests at each rate; a search without confirmation has one or two. Beside it, as "
    "printed, the thesis' mean and deviation. What the receiver's socket drops is no loss here, and was one there: its "
    "buffers were 9 KB (sender) and 192 KB (receiver), here it has 2 MB where the kernel grants it. The experiment "
    "sockets measures with buffers of both lengths, and counts these drops."
)


def rows(run: Run, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each cell of the thesis' UDP test (AES-128-CBC, or the nearest that the VPN has), without references;
    empty for a run of other experiments."""
    cells: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        known = run.vpns.get(trial.vpn)
        if "thesis" in trial.experiments and trial.status == "ok" and known and not known.reference:
            cells[cell_key(trial.vpn, trial.params)].append(trial)
    table_rows = []
    for own in cells.values():
        measured = [m for trial in own for m in trial.measurements if m.metric == "udp_throughput"]
        if measured:
            table_rows.append(_row(own[0], measured))
    return sorted(table_rows)


def _row(first: Trial, measured: Sequence[Measurement]) -> list[str]:
    losses = [loss for measurement in measured for loss in _losses_at(measurement)]
    mean = f"{100 * statistics.fmean(losses):.2f}" if losses else NONE
    deviation = f"{100 * statistics.stdev(losses):.2f}" if len(losses) > 1 else NONE
    rate = statistics.median(measurement.value for measurement in measured) / 1e6
    return [first.vpn, first.params["cipher"], f"{rate:.1f}", str(len(losses)), mean, deviation, _printed(first.vpn)]


def _losses_at(measured: Measurement) -> list[float]:
    """The loss ratios of the search's trials that offered the rate which the search found."""
    trials = measured.detail.get("trials", [])
    return [trial["loss_ratio"] for trial in trials if abs(trial["offered_rate_bps"] / measured.value - 1) <= AT_IT]


def _printed(vpn: str) -> str:
    stated = {value.id: value.value for value in paper("thesis").values}
    mean, deviation = stated.get(f"loss.udp.{vpn}"), stated.get(f"loss.udp.{vpn}.sd")
    return NONE if mean is None else f"{mean:g}; {deviation:g}"
