"""Many numbers at once, ranked or put in order so that equal ones tie (runner/data/numbers.py says what is equal)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from runner.data.numbers import SAME
from runner.evidence.intervals import Array

Item = TypeVar("Item")
FEW = 64


def excludes_zero(low: float, high: float) -> bool:
    """Does the interval of a difference of logarithms say that there is one?"""
    return low > SAME or high < -SAME


def settle_ties(values: Sequence[float] | Array, scale: float | None = None) -> Array:
    """The values, along the last axis, with equal ones made the same number: the lowest of them.

    ``scale``: what SAME is a share of, in place of the larger of two: 1 for logarithms, which may be around zero.
    """
    share, difference = (SAME, 0.0) if scale is None else (0.0, SAME * scale)
    if isinstance(values, list) and len(values) <= FEW and math.isfinite(sum(values)):
        return _settle_few(values, share, difference)
    array = np.asarray(values, dtype=float)
    order = np.argsort(array, axis=-1, kind="stable")
    ordered = np.take_along_axis(array, order, axis=-1)
    equal = np.isclose(ordered[..., :-1], ordered[..., 1:], rtol=share, atol=difference)
    first = np.arange(array.shape[-1]) * np.ones(array.shape, dtype=int)
    first[..., 1:][equal] = 0
    made = np.empty_like(array)
    lowest = np.take_along_axis(ordered, np.maximum.accumulate(first, axis=-1), axis=-1)
    np.put_along_axis(made, order, lowest, axis=-1)
    return made


def _settle_few(values: list[float], share: float, difference: float) -> Array:
    """The same of a few finite numbers, where arrays take fifty times as long: a run has a list for each pair."""
    made = np.array(values, dtype=float)
    lowest = before = math.nan
    for at in sorted(range(len(values)), key=values.__getitem__):
        value = values[at]
        lowest = lowest if abs(before - value) <= difference + share * abs(value) else value
        made[at], before = lowest, value
    return made


def ranks(values: Sequence[float] | Array, scale: float | None = None) -> Array:
    """The ranks along the last axis, 1 for the lowest; equal ones share the mean of theirs. ``scale``: see settled."""
    array = settle_ties(values, scale)
    order = np.argsort(array, axis=-1, kind="stable")
    ordered = np.take_along_axis(array, order, axis=-1)
    places = np.broadcast_to(np.arange(array.shape[-1]), array.shape)
    begins = np.ones(array.shape, dtype=bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = np.ones(array.shape, dtype=bool)
    ends[..., :-1] = begins[..., 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, places, array.shape[-1])[..., ::-1], axis=-1)[..., ::-1]
    made = np.empty_like(array)
    np.put_along_axis(made, order, (first + last) / 2 + 1, axis=-1)
    return made


def in_order(items: Sequence[Item], values: Sequence[float], scale: float | None = None) -> list[Item]:
    """The items by their values, the lowest first; equal ones stay in the order that they have."""
    return [items[at] for at in np.argsort(settle_ties(values, scale), kind="stable")] if items else []
