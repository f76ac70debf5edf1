"""Finds what limits each throughput of a run, and what becomes of the order of its VPNs on separate gateways."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from runner.data.limits import evidence
from runner.data.loads import MachineLoad
from runner.data.own_cores import on_own_cores, overtakings
from runner.data.scale import no_scale
from runner.data.trials import Run, Trial
from runner.evidence.model import Configuration
from runner.evidence.stats import block_values, trials_by_cell
from runner.report import text
from runner.report.limits import LimitRow, LimitsSection, SeparateOrder, bits_of, is_compared

HELD = ("quota", "path")  # limits other than the CPU time of the programs


def find_limits(run: Run, trials: Sequence[Trial], configurations: Sequence[Configuration]) -> LimitsSection:
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
        compared = [row for row in rows if is_compared(row, configuration)]
        for metric in configuration.traffic:
            mine = {row.vpn: row for row in compared if row.metric == metric}
            if (order := _order(run, configuration, mine, metric)) is not None:
                orders.append(order)
    stands = all(order.stands for order in orders) if orders else None
    return LimitsSection(rows=rows, orders=[order.sentence for order in orders], changes=orders, stands=stands)


def _bps(value: float, unit: str, params: Mapping[str, str]) -> float:
    """A value as a rate in bit/s: of payload, or of whole packets for a packet rate."""
    if unit == "bit/s":
        return value
    bits = bits_of(params)
    return bits * value if unit == "packet/s" else bits / value


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
