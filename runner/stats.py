"""Summaries and comparisons of repeated measurements. Every estimator is scipy's.

Rates, times and costs are positive and vary in proportion, so intervals are made on logarithms: a ratio
is a difference there, and an interval never reaches below zero. A *block* is one repetition of everything
asked for; what is compared is compared within blocks, so that slow changes of the machine cancel out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from runner.model import Strict, Trial

CONFIDENCE = 0.95
BOOTSTRAP_FROM = 10  # below it, a bootstrap has too few distinct values and its intervals are too narrow
Array = np.ndarray[Any, np.dtype[np.float64]]


class Summary(Strict):
    """The repetitions of one metric in one cell; everything but ``n`` and ``variation`` in the metric's unit.

    ``low`` and ``high`` bound the median with 95 % confidence and are None for one repetition; ``method``
    names how they were made. ``variation`` is the coefficient of variation (sample standard deviation over
    mean; the thesis' appendix tables), None for one repetition or a mean of zero.
    """

    n: int
    median: float
    mean: float
    low: float | None
    high: float | None
    variation: float | None
    method: str


class Ratio(Strict):
    """One quantity over another: geometric mean of the ratios within shared blocks, with a 95 % interval.

    ``ratio`` is None without a shared block, the bounds are None with fewer than two. ``significant``: the
    interval excludes 1.
    """

    blocks: int
    ratio: float | None
    low: float | None
    high: float | None
    significant: bool
    method: str


def block_values(trials: Sequence[Trial], metric: str) -> dict[int, float]:
    """Block -> value of ``metric`` over the ok trials: their geometric mean where a block has several,
    as the baseline has (first and last)."""
    found: dict[int, list[float]] = {}
    for trial in trials:
        for measurement in trial.measurements:
            if trial.status == "ok" and measurement.metric == metric:
                found.setdefault(trial.repetition, []).append(measurement.value)
    return {block: values[0] if len(values) == 1 else _gmean(values) for block, values in sorted(found.items())}


def summarise(values: Sequence[float]) -> Summary:
    """Median and mean of at least one repetition, and the median's interval.

    Below ten: Student's t on the logarithms, which bounds the median of log-normal values. From ten: the
    BCa bootstrap of the median. Values that are not all positive are taken as they are, not as logarithms.
    """
    array = np.asarray(values, dtype=float)
    logs = bool((array > 0).all())
    low, high, method = _interval(np.log(array) if logs else array, np.median)
    if logs:
        low, high = _exp(low), _exp(high)
    elif low is not None:
        method += " (of the values: not all are positive)"
    mean = float(array.mean())
    return Summary(
        n=len(array),
        median=float(np.median(array)),
        mean=mean,
        low=low,
        high=high,
        variation=float(stats.variation(array, ddof=1)) if len(array) > 1 and mean else None,
        method=method,
    )


def compare_blocks(a: Mapping[int, float], b: Mapping[int, float]) -> Ratio:
    """``a`` over ``b`` within the blocks that both have: t interval on the paired log ratios below ten
    blocks, BCa bootstrap of their mean from ten. Fewer than two shared blocks are not separable."""
    shared = sorted(a.keys() & b.keys())
    if not all(a[block] > 0 and b[block] > 0 for block in shared):
        return Ratio(
            blocks=len(shared),
            ratio=None,
            low=None,
            high=None,
            significant=False,
            method="not separable: a value is not positive",
        )
    logs = np.log([a[block] / b[block] for block in shared])
    low, high, method = _interval(logs, np.mean)
    if len(shared) < 2:
        method = f"not separable: {len(shared)} shared block{'s' * (len(shared) != 1)}"
    return Ratio(
        blocks=len(shared),
        ratio=float(np.exp(logs.mean())) if len(shared) else None,
        low=_exp(low),
        high=_exp(high),
        significant=low is not None and high is not None and (low > 0 or high < 0),
        method=f"{method}, paired within blocks" if len(shared) > 1 else method,
    )


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
    if np.ptp(logs_a) < 1e-12 and np.ptp(logs_b) < 1e-12:  # Welch's t divides by zero
        low = high = centre
        p = 1.0 if abs(centre) < 1e-12 else 0.0
    else:
        test = stats.ttest_ind(logs_b, logs_a, equal_var=False)
        bounds, p = test.confidence_interval(CONFIDENCE), float(test.pvalue)
        low, high = float(bounds.low), float(bounds.high)
    return Ratio(
        blocks=min(len(a), len(b)),
        ratio=math.exp(centre),
        low=_exp(low),
        high=_exp(high),
        significant=low > 0 or high < 0,
        method="Welch's t interval on logarithms",
    ), p


def drift(baseline: Sequence[Trial], metric: str) -> Ratio:
    """The last over the first baseline of each block, over trials of the same traffic: ``significant``
    means that the machine moved within the blocks by more than the interval."""
    first = block_values([trial for trial in baseline if trial.position == "first"], metric)
    last = block_values([trial for trial in baseline if trial.position == "last"], metric)
    return compare_blocks(last, first)


def _interval(sample: Array, statistic: Any) -> tuple[float | None, float | None, str]:
    """The 95 % interval of the sample's centre, and the method's name."""
    if len(sample) < 2:
        return None, None, f"n={len(sample)}, no interval"
    if np.ptp(sample) < 1e-12:  # neither method can tell a spread from values that are all equal
        return float(sample[0]), float(sample[0]), "all repetitions equal"
    if len(sample) < BOOTSTRAP_FROM:
        bounds = stats.ttest_1samp(sample, 0.0).confidence_interval(CONFIDENCE)
        return float(bounds.low), float(bounds.high), "t interval on logarithms"
    bounds = _bootstrap(sample, statistic, "BCa")
    if math.isfinite(bounds.low) and math.isfinite(bounds.high):
        return float(bounds.low), float(bounds.high), "BCa bootstrap"
    bounds = _bootstrap(sample, statistic, "percentile")  # BCa is undefined where most values are equal
    return float(bounds.low), float(bounds.high), "percentile bootstrap"


def _bootstrap(sample: Array, statistic: Any, method: Any) -> Any:
    """scipy's bootstrap of one sample, without its warning of what the caller looks at itself; seeded."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return stats.bootstrap(
            (sample,), statistic, confidence_level=CONFIDENCE, method=method, rng=np.random.default_rng(0)
        ).confidence_interval


def _gmean(values: Sequence[float]) -> float:
    return float(stats.gmean(values)) if min(values) > 0 else float(np.mean(values))


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)
