"""95 % intervals of many samples at once: Student's t below ten values, the bootstrap from ten on.

Samples of one length share one set of resamples, drawn once with a fixed seed, so that a thousand cells cost little
more than one, and a sample has the same interval (to twelve digits: vectors are rounded otherwise than single numbers)
whatever is asked for with it. scipy.stats.bootstrap makes the same intervals from the same resamples, as the tests
hold, but takes each resample's statistic anew, which is thirty times slower: so what it does with them is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from runner.evidence.model import ALL_EQUAL

CONFIDENCE = 0.95
ENDS = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2  # as shares of the resamples
BOOTSTRAP_FROM = 10  # below it, a bootstrap has too few distinct values and its intervals are too narrow
RESAMPLES = 2999  # the interval's ends then move by a hundredth of its width at another seed
STUDENT = "t interval on logarithms"
MOST_DRAWN = 10_000  # values, of which resamples are drawn one by one: above it they would take gigabytes
AT_ONCE = 2_000_000  # numbers that one step works on: 16 MB
Array = np.ndarray[Any, np.dtype[np.float64]]
Interval = tuple[float | None, float | None, str]  # low, high, the method's name


def of_medians(samples: Sequence[Array]) -> list[Interval]:
    """The interval of each sample's median, in the order of the samples."""
    return _sample_intervals(samples, _bootstrap_medians)


def of_means(samples: Sequence[Array]) -> list[Interval]:
    """The interval of each sample's mean, in the order of the samples."""
    return _sample_intervals(samples, _bootstrap_means)


def _sample_intervals(samples: Sequence[Array], bootstrap: Callable[[Array], list[Interval]]) -> list[Interval]:
    """The interval of each sample. Samples of one length are the rows of one array; ``bootstrap`` makes the intervals
    of ten values or more, Student's t those of fewer."""
    intervals: list[Interval] = [(None, None, f"n={len(sample)}, no interval") for sample in samples]
    for n, every in same_length(samples).items():
        if n < 2:
            continue
        spread = np.ptp(np.array([samples[index] for index in every]), axis=1) >= 1e-12
        indices = [index for index, some in zip(every, spread, strict=True) if some]
        for index in (index for index, some in zip(every, spread, strict=True) if not some):
            value = float(samples[index][0])
            intervals[index] = value, value, ALL_EQUAL  # no method can tell a spread
        step = max(1, AT_ONCE // (n * max(n, RESAMPLES // n)))
        for some in (indices[start : start + step] for start in range(0, len(indices), step)):
            rows = np.array([samples[index] for index in some])
            made = _student(rows) if n < BOOTSTRAP_FROM else bootstrap(rows)
            for index, interval in zip(some, made, strict=True):
                intervals[index] = interval
    return intervals


def same_length(samples: Sequence[Array]) -> dict[int, list[int]]:
    """Length -> the indices of the samples that have it."""
    by_length: dict[int, list[int]] = {}
    for index, sample in enumerate(samples):
        by_length.setdefault(len(sample), []).append(index)
    return by_length


def standard_errors(rows: Array) -> Array:
    """The standard error of the mean along the last axis; scipy.stats takes half a second to load for it."""
    return np.asarray(rows.std(axis=-1, ddof=1) / math.sqrt(rows.shape[-1]))


def _student(rows: Array) -> list[Interval]:
    n, means = rows.shape[1], rows.mean(axis=1)
    reach = scipy.special.stdtrit(n - 1, ENDS[1]) * standard_errors(rows)
    return [(low, high, STUDENT) for low, high in zip((means - reach).tolist(), (means + reach).tolist(), strict=True)]


def _bootstrap_medians(rows: Array) -> list[Interval]:
    """BCa intervals of the medians. Where BCa is undefined, because every sample less one value has the same median,
    the percentile bootstrap."""
    n = rows.shape[1]
    lower, upper = _middles(n)
    ordered = np.sort(rows, axis=1)
    medians = (ordered[:, lower] + ordered[:, upper]) / 2
    still = np.ptp(ordered[:, (n - 1) // 2 - n % 2 : n // 2 + 1 + n % 2], axis=1) == 0
    intervals: list[Interval] = []
    for row, shares, stuck in zip(medians, _bca_shares(ordered, medians), still, strict=True):
        if np.isfinite(shares).all() and not stuck:
            low, high = np.quantile(row, shares)
            intervals.append((float(low), float(high), "BCa bootstrap of the median"))
        else:
            low, high = np.quantile(row, ENDS)
            intervals.append((float(low), float(high), "percentile bootstrap of the median"))
    return intervals


def _bca_shares(ordered: Array, medians: Array) -> Array:
    """Which shares of the resampled ``medians`` are the ends of each row's BCa interval, shape (rows, 2); not finite
    where there is none. Efron and Tibshirani, An Introduction to the Bootstrap, §14.3: z0 corrects the bias,
    ``acceleration`` the skewness, which the medians without one value each show."""
    n = ordered.shape[1]
    lower, upper = (n - 2) // 2, (n - 1) // 2  # the middle of n - 1 values
    without = np.arange(n)
    left = (ordered[:, lower + (lower >= without)] + ordered[:, upper + (upper >= without)]) / 2
    away = left.mean(axis=1, keepdims=True) - left
    median = np.median(ordered, axis=1)[:, None]
    with np.errstate(all="ignore"):
        acceleration = (away**3).sum(axis=1) / (away**2).sum(axis=1) ** 1.5 / 6
        z0 = scipy.special.ndtri(((medians < median).mean(axis=1) + (medians <= median).mean(axis=1)) / 2)
        z = z0[:, None] + scipy.special.ndtri(ENDS)
        return np.asarray(scipy.special.ndtr(z0[:, None] + z / (1 - acceleration[:, None] * z)))


def _bootstrap_means(rows: Array) -> list[Interval]:
    """Bootstrap-t intervals of the means (Efron and Tibshirani, An Introduction to the Bootstrap, §12.5): the
    percentiles of the resamples' t statistic replace Student's. See decision 0010."""
    n = rows.shape[1]
    if n > MOST_DRAWN:  # the mean of so many is normal
        return _student(rows)
    means, errors = rows.mean(axis=1), standard_errors(rows)
    away = rows - means[:, None]
    moments = _counts(n) @ np.stack([away, away**2], axis=2) / n  # of every resample: shape (rows, RESAMPLES, 2)
    moved, spread = moments[:, :, 0], moments[:, :, 1] - moments[:, :, 0] ** 2
    spread[spread < 1e-12 * (away**2).mean(axis=1, keepdims=True)] = 0.0  # a resample of equal values
    with np.errstate(all="ignore"):
        t = moved / np.sqrt(spread / (n - 1))
    intervals: list[Interval] = []
    with np.errstate(all="ignore"):
        ends = np.quantile(t, ENDS, axis=1).T
    for row, mean, error, (low, high) in zip(rows, means, errors, ends, strict=True):
        if np.isfinite((low, high)).all():
            method = "studentised bootstrap on logarithms"
            intervals.append((float(mean - high * error), float(mean - low * error), method))
        else:  # many equal values: some resamples have no spread
            intervals += _student(row[None, :])
    return intervals


def _drawn(n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which of ``n`` values each resample takes, shape (RESAMPLES, n)."""
    return np.random.default_rng(0).integers(0, n, (RESAMPLES, n))


@lru_cache(maxsize=8)
def _counts(n: int) -> Array:
    """How often each resample takes each of ``n`` values, shape (RESAMPLES, n)."""
    return np.array([np.bincount(resample, minlength=n) for resample in _drawn(n)], dtype=float)


@lru_cache(maxsize=8)
def _middles(n: int) -> tuple[Any, Any]:
    """The two places, in the ordered sample, between which each resample's median lies; one and the same for an odd
    ``n``. Each of shape (RESAMPLES,).

    Of many values the places are drawn directly: the k-th smallest of n uniform numbers is Beta(k, n + 1 - k), and
    those above it are uniform again (David and Nagaraja, Order Statistics, §2.1 and §2.5).
    """
    if n > MOST_DRAWN:
        rng, place = np.random.default_rng(0), (n - 1) // 2
        lower = rng.beta(place + 1, n - place, RESAMPLES)
        upper = lower if n % 2 else lower + (1 - lower) * rng.beta(1, n - place - 1, RESAMPLES)
        return (lower * n).astype(int), (upper * n).astype(int)
    ordered = np.sort(_drawn(n), axis=1)
    return ordered[:, (n - 1) // 2], ordered[:, n // 2]
