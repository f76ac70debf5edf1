"""Summaries and comparisons of repeated measurements; their intervals are runner/evidence/intervals.py's.

Rates, times and costs are positive and vary in proportion, so intervals are made on logarithms: a ratio
is a difference there, and an interval never reaches below zero. A *block* is a round, in which every cell had its
turn, or one repetition of everything where the cells took no turns; what is compared is compared within blocks, so that
slow changes of the machine cancel out.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import numpy as np
import scipy  # its parts load at their first use; scipy.stats would take half a second

from runner.data.numbers import SAME, exp, same
from runner.data.trials import Trial
from runner.evidence.estimates import Estimate, Pooled, RoundValues, estimate_pair, independent
from runner.evidence.intervals import CONFIDENCE, Array, Interval, of_means, of_medians, same_length, standard_errors
from runner.evidence.model import ALL_EQUAL, Blocks, Drift, Ratio, Summary
from runner.evidence.ties import excludes_zero, settle_ties

NO_INTERVAL = "counts and verdicts that differ, no interval"


def trials_by_cell(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """The trials of each cell, by its key, in the order of the cells' first trials."""
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    return cells


def block_values(trials: Sequence[Trial], metric: str) -> dict[int, float]:
    """Block -> value of ``metric`` over the ok trials: their geometric mean where a block has several,
    as the baseline has (first, between and last). Rounds know which instance of the tunnel they were measured in (a
    trial is one); where a run has several machines, rounds and repetitions know on which of them. Of a search that was
    continued from trial to trial, the last value is about all of them."""
    machines = sorted({trial.machine for trial in trials} - {""})
    place = {name: number for number, name in enumerate(machines)} if len(machines) > 1 else {}
    measured = [
        (trial.repetition, place.get(trial.machine, trial.repetition), measurement)
        for trial in sorted(trials, key=lambda trial: trial.repetition)
        for measurement in trial.measurements
        if trial.status == "ok" and measurement.metric == metric
    ]
    instances: dict[int, int] = {}
    for repetition, instance, measurement in measured:
        instances |= dict.fromkeys(measurement.rounds or [repetition] * bool(place), instance)
    if searched := [
        (number, measurement) for number, _, measurement in measured if measurement.pooled_error is not None
    ]:
        last, pooled = searched[-1]
        return Pooled({last: pooled.value}, pooled.pooled_error or 0.0)
    by_block: dict[int, list[float]] = {}
    for repetition, _, measurement in measured:
        for block, value in measurement.blocks or [(repetition, measurement.value)]:
            by_block.setdefault(block, []).append(value)
    values = {block: values[0] if len(values) == 1 else _gmean(values) for block, values in sorted(by_block.items())}
    if not values or not instances.keys() >= values.keys():
        return values
    return RoundValues(values, instances, [*place], measured[-1][2].search_error or 0.0)


def summarise(values: Sequence[float]) -> Summary:
    """Median and mean of at least one repetition, and the median's interval.

    Below ten: Student's t on the logarithms, which bounds the median of log-normal values. From ten: the
    BCa bootstrap of the median. Values that are all equal, as of a quantity without chance, have an interval
    of no width. Values that are not all positive are taken as they are, not as logarithms.
    """
    return summarise_all([values])[0]


def summarise_all(many: Sequence[Sequence[float]], *, exact: bool = False) -> list[Summary]:
    """The summaries of many samples, much faster than one after the other. ``exact``: of counts and verdicts, which
    have no interval where they differ, and whose median is one of them."""
    arrays = [np.asarray(values, dtype=float) for values in many]
    in_logs = [bool((array > 0).all()) for array in arrays]
    equal = [settle_ties([*values]) for values in many]
    intervals = of_medians([np.log(array) if logs else array for array, logs in zip(equal, in_logs, strict=True)])
    moments = _moments(arrays)
    summaries = [_summary(*sample) for sample in zip(arrays, in_logs, intervals, moments, strict=True)]
    if not exact:
        return summaries
    return [
        each if each.n < 2 or each.method == ALL_EQUAL else _without_interval(each, array)
        for each, array in zip(summaries, arrays, strict=True)
    ]


def _without_interval(summary: Summary, array: Array) -> Summary:
    median = statistics.median_low(array.tolist())
    return summary.model_copy(update={"median": median, "low": None, "high": None, "method": NO_INTERVAL})


def _moments(arrays: Sequence[Array]) -> list[tuple[float, float | None]]:
    """Each sample's mean and standard deviation, those of one length at once."""
    moments: list[tuple[float, float | None]] = [(0.0, None)] * len(arrays)
    for n, indices in same_length(arrays).items():
        rows = np.array([arrays[index] for index in indices])
        deviations = rows.std(axis=1, ddof=1).tolist() if n > 1 else [None] * len(indices)
        for index, mean, deviation in zip(indices, rows.mean(axis=1).tolist(), deviations, strict=True):
            moments[index] = mean, deviation
    return moments


def _summary(array: Array, logs: bool, interval: Interval, moments: tuple[float, float | None]) -> Summary:
    low, high, method = interval
    mean, deviation = moments
    if logs:
        low, high = _exp(low), _exp(high)
    elif low is not None and method != ALL_EQUAL:
        method += " (of the values: not all are positive)"
    return Summary(
        n=len(array),
        median=statistics.median(array.tolist()),
        mean=mean,
        low=low,
        high=high,
        variation=deviation / mean if deviation is not None and mean else None,
        method=method,
    )


def compare_blocks(a: Blocks, b: Blocks) -> Ratio:
    """``a`` over ``b`` within the blocks that both have: t interval on the paired log ratios below ten
    blocks, studentised bootstrap of their mean from ten. Fewer than two shared blocks are not separable."""
    return compare_all([(a, b)])[0]


def compare_all(pairs: Sequence[tuple[Blocks, Blocks]]) -> list[Ratio]:
    """The ratio of each pair, much faster than one after the other. Rounds and searches: see evidence.estimates."""
    by_rounds = [_by_rounds(a, b) for a, b in pairs]
    logs = [None if ratio else _log_ratios(a, b) for (a, b), ratio in zip(pairs, by_rounds, strict=True)]
    intervals = of_means([np.array([]) if log_ratios is None else log_ratios for log_ratios in logs])
    return [
        made or _ratio(a, b, log_ratios, interval)
        for (a, b), made, log_ratios, interval in zip(pairs, by_rounds, logs, intervals, strict=True)
    ]


def _by_rounds(a: Blocks, b: Blocks) -> Ratio | None:
    """The ratio of two VPNs that took turns, or of which one is a search's result. None for repetitions, and where no
    estimate can be made."""
    both = isinstance(a, RoundValues) and isinstance(b, RoundValues)
    searched = isinstance(a, Pooled) or isinstance(b, Pooled)
    estimate = estimate_pair(a, b) if both or searched else None
    if estimate is None:
        return None
    return ratio_of(estimate, "trimmed mean of the log ratios by round" if both else "two independent log-normals")


def ratio_of(estimate: Estimate, method: str) -> Ratio:
    """The ratio that an estimate of its logarithm says, which was made by this method."""
    low, high = estimate.interval()
    return Ratio(
        blocks=estimate.blocks,
        ratio=exp(estimate.centre),
        low=exp(low),
        high=exp(high),
        significant=excludes_zero(low, high),
        method=method,
    )


def _log_ratios(a: Blocks, b: Blocks) -> Array | None:
    """The log ratios of the shared blocks, in their order; None where a value is not positive."""
    shared = sorted(a.keys() & b.keys())
    if not all(a[block] > 0 and b[block] > 0 for block in shared):
        return None
    return np.log(settle_ties([a[block] / b[block] for block in shared]))


def _ratio(a: Blocks, b: Blocks, logs: Array | None, interval: Interval) -> Ratio:
    if logs is None:
        return Ratio(
            blocks=len(a.keys() & b.keys()),
            ratio=None,
            low=None,
            high=None,
            significant=False,
            method="not separable: a value is not positive",
        )
    low, high, method = interval
    if len(logs) < 2:
        method = f"not separable: {len(logs)} shared block{'s' * (len(logs) != 1)}"
    return Ratio(
        blocks=len(logs),
        ratio=float(np.exp(logs.mean())) if len(logs) else None,
        low=_exp(low),
        high=_exp(high),
        significant=low is not None and high is not None and excludes_zero(low, high),
        method=f"{method}, paired within blocks" if len(logs) > 1 else method,
    )


def lead_of_differences(a: Blocks, b: Blocks) -> int:
    """For values that are not all positive and have no ratio, as verdicts of 0 and 1: is ``a`` (1) or ``b`` (-1)
    significantly more, by the interval of the differences within blocks? 0 where neither is, or one block is shared."""
    shared = sorted(a.keys() & b.keys())
    differences = settle_ties([0.0 if same(a[block], b[block]) else a[block] - b[block] for block in shared])
    low, high, _ = of_means([differences])[0]
    return 0 if low is None or high is None else int(low > 0) - int(high < 0)


def compare_independent(a: Sequence[float], b: Sequence[float]) -> tuple[Ratio, float | None]:
    """``b`` over ``a`` for two runs that share no blocks: Welch's t interval on the logarithms, and the
    p-value of no difference (None where either side has fewer than two values)."""
    if min(*a, *b) <= 0 or min(len(a), len(b)) < 2:
        why = "needs two repetitions on both sides" if min(*a, *b) > 0 else "a value is not positive"
        ratio = _gmean(b) / _gmean(a) if min(*a, *b) > 0 else None
        none = Ratio(blocks=0, ratio=ratio, low=None, high=None, significant=False, method=f"not separable: {why}")
        return none, None
    logs_a, logs_b = np.log(a), np.log(b)
    centre = float(logs_b.mean() - logs_a.mean())
    if max(np.ptp(logs_a), np.ptp(logs_b)) <= SAME:  # Welch's t divides by zero
        low = high = centre
        p = 1.0 if abs(centre) <= SAME else 0.0
    else:
        means = [
            Estimate(float(logs.mean()), float(standard_errors(logs)), len(logs) - 1, len(logs))
            for logs in (logs_b, logs_a)
        ]
        apart = independent(*means)
        low, high = apart.interval(CONFIDENCE)
        p = 2 * float(scipy.special.stdtr(apart.freedom, -abs(centre) / apart.error))
    return Ratio(
        blocks=min(len(a), len(b)),
        ratio=exp(centre),
        low=_exp(low),
        high=_exp(high),
        significant=excludes_zero(low, high),
        method="Welch's t interval on logarithms",
    ), p


def drift(baseline: Sequence[Trial], metric: str) -> Drift:
    """The movement of the baseline's trials of one cell, at least one."""
    at = {
        position: block_values([trial for trial in baseline if trial.position == position], metric)
        for position in ("first", "between", "last")
    }
    both = at["first"].keys() & at["last"].keys()
    ends = {block: _gmean([at["first"][block], at["last"][block]]) for block in both}
    last, between = compare_blocks(at["last"], at["first"]), compare_blocks(at["between"], ends)
    moved = last.significant or between.significant
    return Drift(metric=metric, params=baseline[0].params, last=last, between=between, moved=moved)


def blocks_of(ok: Sequence[Trial]) -> int:
    """The number of repetitions, or of rounds, of trials that ended ok."""
    turns = {number for trial in ok for measurement in trial.measurements for number in measurement.rounds}
    return max(len({trial.repetition for trial in ok}), len(turns))


def lower_bounds(trials: Sequence[Trial], metric: str) -> set[int]:
    """The blocks in which the value of ``metric`` is only a lower bound."""
    return {
        block
        for trial in trials
        for measurement in trial.measurements
        if trial.status == "ok" and measurement.metric == metric and measurement.at_least
        for block in measurement.rounds or [trial.repetition]
    }


def _gmean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if min(values) > 0 else statistics.fmean(values)


def _exp(value: float | None) -> float | None:
    return None if value is None else exp(value)
