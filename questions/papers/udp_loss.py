"""The thesis' Table 3 for this run: mean and standard deviation of the loss at the UDP throughput."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from runner.data.trials import Measurement, Run, Trial, cell_key
from runner.papers.published import paper
from runner.report.text import NONE

HEAD = (
    *("VPN", "cipher", "buffers: sender, receiver", "UDP throughput, Mbit/s", "trials at it"),
    *("the VPN's loss, %", "with what the socket drops, %", "the thesis, %"),
)
TO_PROGRAM = "udp_socket_throughput"
METRICS = ("udp_throughput", TO_PROGRAM)
AT_IT = 0.01  # a trial that offered the throughput within this share was made at it
ABOUT = (
    "The loss of the trials that offered the UDP throughput (within 1 %), over all repetitions: mean ± standard "
    "deviation. The thesis has ten tests at each rate; a search without confirmation has one or two. In the thesis, "
    "what the receiver's socket dropped was lost, too; its buffers were 9 KB (sender) and 192 KB (receiver). Without "
    "buffers in the third column, they are as large as the kernel grants, and the throughput is that of the VPN's own "
    "loss. With buffers (experiment sockets), it is that of both together."
)


def rows(run: Run, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each cell of the thesis' UDP test (AES-128-CBC, or the nearest that the VPN has) and of the experiment
    sockets, without references; empty for a run of other experiments."""
    cells: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        known = run.vpns.get(trial.vpn)
        if {"thesis", "sockets"} & {*trial.experiments} and trial.status == "ok" and known and not known.reference:
            cells[cell_key(trial.vpn, trial.params)].append(trial)
    table_rows = []
    for own in cells.values():
        measured = [m for trial in own for m in trial.measurements if m.metric in METRICS]
        if measured:
            table_rows.append(_row(own[0], measured))
    return sorted(table_rows)


def _row(first: Trial, measured: Sequence[Measurement]) -> list[str]:
    at_it = [trial for measurement in measured for trial in _trials_at(measurement)]
    sign = -1 if measured[0].metric == TO_PROGRAM else 1  # what the socket dropped is in its loss ratio, or is not
    losses = [trial["loss_ratio"] for trial in at_it]
    others = [t["loss_ratio"] + sign * t["receiver_drop_ratio"] for t in at_it if "receiver_drop_ratio" in t]
    own, both = (losses, others) if sign > 0 else (others, losses)
    sizes = [first.params.get(f"{who}_buffer_bytes") for who in ("send", "receive")]
    buffers = ", ".join(f"{int(size) / 1024:g} KB" for size in sizes if size) or NONE
    rate = statistics.median(measurement.value for measurement in measured) / 1e6
    numbers = [f"{rate:.1f}", str(len(losses)), _spread(own), _spread(both)]
    return [first.vpn, first.params["cipher"], buffers, *numbers, _printed_loss(first.vpn)]


def _spread(losses: Sequence[float]) -> str:
    """Mean and standard deviation of loss ratios, in per cent; a dash for none."""
    if not losses:
        return NONE
    deviation = f"{100 * statistics.stdev(losses):.2f}" if len(losses) > 1 else NONE
    return f"{100 * statistics.fmean(losses):.2f} ± {deviation}"


def _trials_at(measured: Measurement) -> list[dict[str, Any]]:
    """The search's trials that offered the rate which the search found."""
    trials = measured.detail.get("trials", [])
    searched = trials if isinstance(trials, list) else []  # of some instruments it is their number
    return [trial for trial in searched if abs(trial["offered_rate_bps"] - measured.value) <= AT_IT * measured.value]


def _printed_loss(vpn: str) -> str:
    stated = {value.id: value.value for value in paper("thesis").values}
    mean, deviation = stated.get(f"loss.udp.{vpn}"), stated.get(f"loss.udp.{vpn}.sd")
    return NONE if mean is None else f"{mean:g} ± {deviation:g}"
