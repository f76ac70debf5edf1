"""What the levels of an experiment's factor change, as ratios with intervals: the answer to a question about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.kinds import Strict
from runner.data.levels import BASELINE
from runner.data.trials import Cell, ExperimentRecord, Trial
from runner.evidence.model import Ratio, Summary
from runner.evidence.stats import block_values, compare_all, compare_independent, summarise_all
from runner.report.text import configuration, traffic, wan


class Effect(Strict):
    """One metric of one VPN at level ``of`` of ``factor`` over that at level ``over``, where ``held`` are the levels of
    the other factors that vary. All three in words. ``value``: what was measured at ``of``."""

    metric: str
    vpn: str
    factor: str
    of: str
    over: str
    held: str
    value: Summary
    ratio: Ratio


def effects(
    record: ExperimentRecord, by_cell: Mapping[str, Sequence[Trial]], better: Mapping[str, str], metrics: Sequence[str]
) -> list[Effect]:
    """The effects of the first of the experiment's factors that varies, for each of ``metrics``.

    Of two levels, and of numbers, it is the last over the first in the declared order; of more names, the best over the
    worst. ``better``: metric -> ``higher`` or ``lower``.
    """
    found = []
    for metric in metrics:
        values = [(cell, block_values(by_cell.get(cell.key, []), metric)) for cell in record.cells]
        measured = [(cell, blocks) for cell, blocks in values if blocks]
        factor = next((name for name, levels in record.factors.items() if _varies(measured, name, levels)), "")
        if factor:
            found += _of_factor(record, factor, measured, metric, better[metric])
    return found


Measured = Sequence[tuple[Cell, dict[int, float]]]


def _varies(measured: Measured, factor: str, levels: Sequence[str]) -> bool:
    """Has a VPN values at two of these levels?"""
    seen = {(cell.vpn, cell.params.get(factor)) for cell, _ in measured if cell.params.get(factor) in levels}
    return len(seen) > len({vpn for vpn, _ in seen})


def _of_factor(record: ExperimentRecord, factor: str, measured: Measured, metric: str, better: str) -> list[Effect]:
    order = record.factors[factor]
    others = [name for name in record.factors if name != factor and len(record.factors[name]) > 1]
    groups: dict[tuple[str, ...], dict[str, dict[int, float]]] = {}
    for cell, blocks in measured:
        if cell.params.get(factor) in order and cell.vpn != BASELINE:
            held = (cell.vpn, *(cell.params.get(name, "") for name in others))
            groups.setdefault(held, {}).setdefault(cell.params[factor], blocks)
    pairs = {held: _pair(order, levels, better) for held, levels in groups.items() if len(levels) > 1}
    both = [(groups[held][of], groups[held][over]) for held, (of, over) in pairs.items()]
    ratios = [made if made.blocks else _ratio_apart(*two) for two, made in zip(both, compare_all(both), strict=True)]
    values = summarise_all([list(blocks.values()) for blocks, _ in both])
    return [
        Effect(
            metric=metric,
            vpn=held[0],
            factor=factor,
            of=_words({factor: of}),
            over=_words({factor: over}),
            held=_words({name: level for name, level in zip(others, held[1:], strict=True) if level}),
            value=value,
            ratio=ratio,
        )
        for (held, (of, over)), value, ratio in zip(pairs.items(), values, ratios, strict=True)
    ]


def _ratio_apart(of: Mapping[int, float], over: Mapping[int, float]) -> Ratio:
    """The ratio of levels that share no block, because one of them was measured in other rounds."""
    return compare_independent([*over.values()], [*of.values()])[0]


def _pair(order: Sequence[str], levels: Mapping[str, Mapping[int, float]], better: str) -> tuple[str, str]:
    """The two levels that are compared."""
    there = [level for level in order if level in levels]
    if len(there) == 2 or all(level.replace(".", "", 1).isdigit() for level in there):
        return there[-1], there[0]
    by_mean = sorted(there, key=lambda level: sum(levels[level].values()) / len(levels[level]))
    return (by_mean[-1], by_mean[0]) if better == "higher" else (by_mean[0], by_mean[-1])


def _words(levels: Mapping[str, str]) -> str:
    if levels == {"compression": "off"}:
        return "no compression"
    said = filter(None, (configuration(levels), wan(levels), traffic(levels)))
    return ", ".join(said) or ", ".join(levels.values())
