"""The numbers that say which VPN sustains a rate. They do not depend on the tables of the experiments: CPU cost is
measured by the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.kinds import Strict
from runner.data.trials import Run, Trial
from runner.evidence.model import Summary
from runner.evidence.stats import block_values, summarise
from runner.report import text

SUSTAINED = ("tcp_throughput", "cpu_per_gigabyte")


class Sustained(Strict):
    """One cell's TCP throughput (bit/s) and its CPU cost (s/GB)."""

    vpn: str
    levels: str
    rate: Summary
    cost: Summary


def sustained_costs(
    run: Run, by_cell: Mapping[str, Sequence[Trial]], made: Mapping[tuple[str, str], Summary]
) -> list[Sustained]:
    """Throughput and CPU cost of every cell whose trials measured both, without references (plain IP), which no ranking
    has. ``made``: (cell, metric) -> a summary that was made already."""
    references = {name for name, record in run.vpns.items() if record.reference}
    cells = []
    for cell, trials in by_cell.items():
        if trials[0].vpn in references:
            continue
        both = [made.get((cell, metric)) or _summary(trials, metric) for metric in SUSTAINED]
        if both[0] and both[1]:
            levels = text.levels(trials[0].params)
            cells.append(Sustained(vpn=trials[0].vpn, levels=levels, rate=both[0], cost=both[1]))
    return cells


def _summary(trials: Sequence[Trial], metric: str) -> Summary | None:
    blocks = block_values(trials, metric)
    return summarise(list(blocks.values())) if blocks else None
