"""What limits each throughput, what gateways with cores of their own would carry, and where the order would change."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from runner.data.kinds import Strict
from runner.data.levels import outside_of_tunnel, traffic_factors, tunnel_levels
from runner.data.limits import evidence
from runner.data.loads import Limit, MachineLoad
from runner.data.own_cores import Apart, on_own_cores, overtakings
from runner.data.scale import no_scale
from runner.data.trials import Run, Trial, cell_key
from runner.design.blocks import Block, Heading, Note, Paragraph, Table
from runner.evidence.model import Configuration
from runner.evidence.stats import block_values, trials_by_cell
from runner.report import text

HELD = ("quota", "path")  # limits other than the CPU time of the programs
ABOUT = (
    "While it measured a throughput, vpneval watched every machine of the lab: cores, threads, queues, quotas. Where "
    "all nodes share the cores, the VPN that takes the least CPU time of all of them carries the most. On separate "
    "gateways, the VPN whose busiest thread has the least to do carries the most. A program waits while it is ready to "
    "run and has no core."
)
ABOUT_APART = (
    "The throughput on separate gateways is an estimate: each gateway has these cores for itself, and the program that "
    "limits the VPN keeps one of them fully busy. At the lower end, a byte costs it as much CPU time as here, at the "
    "upper end a third of that: the more packets wait, the less each of them costs. In our measurements, programs "
    "reached between 0.9 and 2.9 times the lower end. Neither end is below what was measured here. Real network cards "
    "take additional CPU time."
)
HEAD = ("VPN", "levels", "median", "what limits it", "on separate gateways")


class LimitRow(Strict):
    """One cell of one throughput: its median in ``unit``, the ``limit`` that most of its trials had (``trials`` of
    ``of``), and what separate gateways would carry, None where that is not known; ``unknown`` says why."""

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
    unknown: str = ""

    @property
    def says(self) -> str:
        """The sentence, and how many trials say so."""
        return self.limit.sentence + (f" ({self.trials} of {self.of} trials)" if self.trials < self.of else "")

    @property
    def cells(self) -> list[str]:
        """The cells of the row as text, in the columns of HEAD."""
        ends = (self.apart.low_bps, self.apart.high_bps) if self.apart else ()
        there = sorted(_in_unit(bps, self.unit, self.params) for bps in ends)
        separate = " to ".join(text.quantity(value, self.unit) for value in there) if there else text.NONE
        return [self.vpn, self.levels, text.quantity(self.median, self.unit), self.says, separate]


class SeparateOrder(Strict):
    """What becomes of the order of a ranking, by its ``configuration`` and ``image``, in the throughput ``title`` on
    separate gateways, in a sentence; ``stands``: nothing is known to change it."""

    title: str
    configuration: str
    image: str
    stands: bool
    says: str

    @property
    def sentence(self) -> str:
        """The sentence with what it is about before it."""
        return f"{self.title}, {self.configuration}{f' ({self.image})' if self.image else ''}: {self.says}"


class LimitsSection(Strict):
    """The section: a row for each cell; ``orders``: for each ranking and throughput, what becomes of the order on
    separate gateways, in a sentence, and ``changes`` as data. ``stands``: does it stand everywhere, as far as is known?
    None: nobody knows."""

    rows: list[LimitRow] = []
    orders: list[str] = []
    changes: list[SeparateOrder] = []
    stands: bool | None = None

    @property
    def verdict(self) -> str:
        """What ``stands`` means, in a sentence; empty where it is not known."""
        if self.stands is None:
            return ""
        if self.stands:
            return "As far as this run can tell, separate gateways would not change the order of the VPNs."
        return "Separate gateways might change the order of the VPNs: an order here holds for shared cores."

    @property
    def about_apart(self) -> str:
        """What the throughputs on separate gateways are, or why there are none; empty where no machine was watched."""
        if any(row.apart for row in self.rows):
            return ABOUT_APART
        whys = sorted({row.unknown for row in self.rows})
        return f"The throughput on separate gateways is not estimated: {'; '.join(whys)}." if whys else ""

    @property
    def sentences_by_cell(self) -> dict[tuple[str, str], str]:
        """(Metric, cell) -> the sentence on its limit, for the tables of the experiments."""
        return {(row.metric, cell_key(row.vpn, row.params)): row.says for row in self.rows}


def limits(run: Run, trials: Sequence[Trial], configurations: Sequence[Configuration]) -> LimitsSection:
    """The section, from all trials whose machines were watched."""
    by_cell: dict[tuple[str, str], list[Trial]] = {}
    every = trials_by_cell(trials)
    for trial in trials:
        for measurement in trial.measurements if trial.limit else ():
            if run.metrics[measurement.metric].limited:
                by_cell.setdefault((measurement.metric, trial.cell), []).append(trial)
    rows = [
        _row(run, metric, own, blocks)
        for (metric, cell), own in by_cell.items()
        if (blocks := block_values(every[cell], metric))
    ]
    orders = []
    for configuration in configurations:
        compared = [row for row in rows if _is_compared(row, configuration)]
        for metric in configuration.traffic:
            mine = {row.vpn: row for row in compared if row.metric == metric}
            if (order := _order(run, configuration, mine, metric)) is not None:
                orders.append(order)
    stands = all(order.stands for order in orders) if orders else None
    return LimitsSection(rows=rows, orders=[order.sentence for order in orders], changes=orders, stands=stands)


def rows_of(limited: LimitsSection, configuration: Configuration) -> list[LimitRow]:
    """What limits these VPNs in the throughputs that are compared: the rows, the VPNs in their order."""
    mine = [row for row in limited.rows if _is_compared(row, configuration)]
    return sorted(mine, key=lambda row: ([*configuration.levels].index(row.vpn), row.metric))


def orders_of(limited: LimitsSection, configuration: Configuration) -> list[SeparateOrder]:
    """What becomes of the order of these VPNs on separate gateways, throughput by throughput."""
    this = (configuration.configuration, configuration.image)
    return [order for order in limited.changes if (order.configuration, order.image) == this]


def changed_order(limited: LimitsSection, configuration: Configuration, title: str) -> str:
    """How separate gateways would change the order in the throughput called ``title``, in a sentence; empty where no
    change is known."""
    return next((one.says for one in orders_of(limited, configuration) if one.title == title and not one.stands), "")


def _bits(params: Mapping[str, str]) -> int:
    """The length in bits of a packet, or of a file: what is measured at these levels has one length; 0 where none."""
    return 8 * next((int(params[factor]) for factor in traffic_factors(params) if factor.endswith("_bytes")), 0)


def _bps(value: float, unit: str, params: Mapping[str, str]) -> float:
    """A value as a rate in bit/s: of payload, or of whole packets for a packet rate."""
    if unit == "bit/s":
        return value
    bits = _bits(params)
    return bits * value if unit == "packet/s" else bits / value


def _in_unit(bps: float, unit: str, params: Mapping[str, str]) -> float:
    """A rate in bit/s as a value in ``unit``: the reverse of ``_bps``."""
    if unit == "bit/s":
        return bps
    bits = _bits(params)
    return bps / bits if unit == "packet/s" else bits / bps


def _row(run: Run, metric: str, trials: Sequence[Trial], blocks: Mapping[int, float]) -> LimitRow:
    """The row of one cell, from its ``trials`` that were watched. Its median is that of the tables, over all
    ``blocks``."""
    limits = [trial.limit for trial in trials if trial.limit]
    kinds = Counter((limit.kind, limit.where) for limit in limits)
    (kind, where), most = kinds.most_common(1)[0]
    watched = next(trial for trial in trials if trial.limit and (trial.limit.kind, trial.limit.where) == (kind, where))
    assert watched.limit
    unit = next(
        measurement.unit for trial in trials for measurement in trial.measurements if measurement.metric == metric
    )
    median = statistics.median(blocks.values())
    free = [trial.loads for trial in trials if trial.limit and trial.limit.kind not in HELD]
    here_bps = _bps(median, unit, trials[0].params)
    unknown = _why_unknown(run, trials[0].vpn, free)
    there = on_own_cores(free, here_bps) if here_bps and not unknown else None
    return LimitRow(
        vpn=trials[0].vpn,
        params=trials[0].params,
        levels=text.levels(trials[0].params),
        metric=metric,
        unit=unit,
        median=median,
        limit=watched.limit.model_copy(update={"evidence": [*evidence(watched.loads)] or watched.limit.evidence}),
        trials=most,
        of=len(limits),
        apart=there,
        unknown="" if there else unknown or "the CPU time that it takes at this throughput was not measured",
    )


def _why_unknown(run: Run, vpn: str, free: Sequence[Sequence[MachineLoad]]) -> str:
    """Why the throughput on separate gateways cannot be estimated; empty where the loads may suffice. ``free``: the
    loads of the trials that neither a quota nor the path limited."""
    if vpn in run.vpns and run.vpns[vpn].dataplane == "kernel":
        return "the kernel does the work"
    if no_scale(run):
        return "CPU times here are not those of a real machine"
    return "" if free else "a quota or the path limited it here"


def _is_compared(row: LimitRow, configuration: Configuration) -> bool:
    """Are its tunnel and its traffic those that are compared?"""
    same_image = row.params.get("image", "") == configuration.image
    same = same_image and tunnel_levels(row.params) == configuration.levels.get(row.vpn)
    return same and outside_of_tunnel(row.params) == configuration.traffic.get(row.metric)


def _order(run: Run, configuration: Configuration, rows: Mapping[str, LimitRow], metric: str) -> SeparateOrder | None:
    """What becomes of the order of one ranking in one throughput on separate gateways. None where this is not known of
    two VPNs."""
    there = {vpn: row.apart for vpn, row in rows.items() if row.apart}
    if len(there) < 2:
        return None
    surely, perhaps = overtakings({vpn: _bps(row.median, row.unit, row.params) for vpn, row in rows.items()}, there)
    phrases = [f"{slower} would pass {', '.join(faster)}" for slower, faster in _group_pairs(surely)]
    phrases += [f"{slower} might pass {', '.join(faster)}" for slower, faster in _group_pairs(perhaps)]
    unknown: dict[str, list[str]] = {}
    for vpn, row in rows.items():
        if vpn not in there:
            unknown.setdefault(row.unknown, []).append(vpn)
    what = "; ".join(phrases) if phrases else f"the order of {', '.join(there)} would stand"
    rest = [f" Not known of {', '.join(vpns)}: {why}." for why, vpns in unknown.items()]
    return SeparateOrder(
        title=run.metrics[metric].title,
        configuration=configuration.configuration,
        image=configuration.image,
        stands=not phrases,
        says=f"on separate gateways {what}.{''.join(rest)}",
    )


def _group_pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    for slower in dict.fromkeys(slower for slower, _ in pairs):
        yield slower, [faster for vpn, faster in pairs if vpn == slower]


def section(limited: LimitsSection) -> list[Block]:
    """The section, for every form; empty where no machine was watched."""
    if not limited.rows:
        return []
    notes = [limited.about_apart]
    notes += [limited.verdict] if limited.verdict else []
    rows = [row.cells for row in limited.rows]
    table = Table(
        "What limits each throughput", HEAD, rows, notes=[Note(sentence) for sentence in [*notes, *limited.orders]]
    )
    return [Heading("What limits it", "limits"), Paragraph(ABOUT), table]
