"""What limits each throughput, what gateways with cores of their own would carry, and where the order would change."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from runner.data.levels import outside_of_tunnel, tunnel_levels
from runner.data.loads import Limit
from runner.data.trials import Run, Strict, Trial, cell_key
from runner.ranking.basis import Basis
from runner.ranking.gateways import Apart, apart, overtakings
from runner.report import text
from runner.report.sections import Section, SectionTable

RATE = "_throughput"
HELD = ("quota", "path")  # with these, what the programs cost is not what limits them
ABOUT = (
    "While a throughput was measured, every machine of the lab was read: cores, threads, queues, quotas. Shared cores "
    "rank the VPNs by the CPU time of all nodes together; separate gateways rank them by their busiest thread."
)
ABOUT_APART = (
    "On separate gateways: the rate at which the slowest program would be busy all the time, if each gateway had these "
    "cores for itself. The lower end counts all that the program was charged with, the upper one leaves out the "
    "kernel's part. Real network cards cost more."
)
HEAD = ("VPN", "levels", "rate", "what limits it", "on separate gateways")


class LimitRow(Strict):
    """One cell of one throughput: its median in ``unit``, the ``limit`` that most of its trials had (``trials`` of
    ``of``), and what separate gateways would carry, None where that is not known."""

    vpn: str
    params: dict[str, str]
    levels: str
    metric: str
    unit: str
    median: float
    limit: Limit
    trials: int
    of: int
    apart: Apart | None = None

    @property
    def says(self) -> str:
        """The sentence, and how many trials say so."""
        return self.limit.sentence + (f" ({self.trials} of {self.of} trials)" if self.trials < self.of else "")

    @property
    def cells(self) -> list[str]:
        """As text, under HEAD."""
        there = self.apart and [text.quantity(bps, "bit/s") for bps in (self.apart.low_bps, self.apart.high_bps)]
        separate = " to ".join(there) if there else text.NONE
        return [self.vpn, self.levels, text.quantity(self.median, self.unit), self.says, separate]


class Limits(Strict):
    """The section: a row for each cell; ``orders``: for each ranking and throughput, what becomes of the order on
    separate gateways, in a sentence. ``stands``: does it stand everywhere, as far as is known? None: nobody knows."""

    rows: list[LimitRow] = []
    orders: list[str] = []
    stands: bool | None = None

    @property
    def beside(self) -> dict[tuple[str, str], str]:
        """(Metric, cell) -> the sentence, for the tables."""
        return {(row.metric, cell_key(row.vpn, row.params)): row.says for row in self.rows}


def limits(run: Run, trials: Sequence[Trial], bases: Sequence[Basis]) -> Limits:
    """The section, from all trials that were watched."""
    by_cell: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        for found in trial.measurements if trial.limit else ():
            if found.metric.endswith(RATE):
                by_cell.setdefault((found.metric, trial.cell), []).append(trial)
    rows = [_row(metric, own) for (metric, _), own in by_cell.items()]
    orders, stands = [], []
    for basis in bases:
        for metric in basis.traffic:
            mine = {row.vpn: row for row in rows if row.metric == metric and _ranked(row, basis)}
            if (said := _order(run, basis, mine, metric)) is not None:
                orders.append(said[0])
                stands.append(said[1])
    return Limits(rows=rows, orders=orders, stands=all(stands) if stands else None)


def _row(metric: str, trials: Sequence[Trial]) -> LimitRow:
    limits = [trial.limit for trial in trials if trial.limit]
    kinds = Counter((limit.kind, limit.where) for limit in limits)
    (kind, where), most = kinds.most_common(1)[0]
    found = [one for trial in trials for one in trial.measurements if one.metric == metric]
    free = [trial.loads for trial in trials if trial.limit and trial.limit.kind not in HELD]
    return LimitRow(
        vpn=trials[0].vpn,
        params=trials[0].params,
        levels=text.levels(trials[0].params),
        metric=metric,
        unit=found[0].unit,
        median=statistics.median(one.value for one in found),
        limit=next(limit for limit in limits if (limit.kind, limit.where) == (kind, where)),
        trials=most,
        of=len(limits),
        apart=apart(free),
    )


def _ranked(row: LimitRow, basis: Basis) -> bool:
    """Is it what this ranking ranks its VPN by?"""
    same = row.params.get("image", "") == basis.image and tunnel_levels(row.params) == basis.levels.get(row.vpn)
    return same and outside_of_tunnel(row.params) == basis.traffic[row.metric]


def _order(run: Run, basis: Basis, rows: Mapping[str, LimitRow], metric: str) -> tuple[str, bool] | None:
    """What becomes of the order of one ranking in one throughput, and whether it stands."""
    there = {vpn: row.apart for vpn, row in rows.items() if row.apart}
    if len(there) < 2:
        return None
    surely, perhaps = overtakings({vpn: row.median for vpn, row in rows.items()}, there)
    said = [f"{slower} would pass {', '.join(faster)}" for slower, faster in _grouped(surely)]
    said += [f"{slower} might pass {', '.join(faster)}" for slower, faster in _grouped(perhaps)]
    unknown = [vpn for vpn in rows if vpn not in there]
    where = f"{run.metrics[metric].title}, {basis.configuration}{f' ({basis.image})' if basis.image else ''}"
    what = "; ".join(said) if said else f"the order of {', '.join(there)} would stand"
    rest = f" Not known of {', '.join(unknown)}: the kernel does the work." if unknown else ""
    return f"{where}: on separate gateways {what}.{rest}", not said


def _grouped(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    for slower in dict.fromkeys(slower for slower, _ in pairs):
        yield slower, [faster for one, faster in pairs if one == slower]


def section(found: Limits) -> Section | None:
    """The section of every form; None where no machine was watched."""
    if not found.rows:
        return None
    notes = [ABOUT_APART] if any(row.apart for row in found.rows) else []
    rows = [row.cells for row in found.rows]
    table = SectionTable(title="What limits each throughput", head=list(HEAD), rows=rows, notes=[*notes, *found.orders])
    return Section(key="limits", title="What limits it", about=ABOUT, tables=[table])
