"""Many numbers at once, ranked or put in order so that equal ones tie (runner/data/numbers.py says what is equal)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from runner.data.numbers import SAME
from runner.evidence.intervals import Array

Item = TypeVar("Item")


def excludes_zero(low: float, high: float) -> bool:
    """Does the interval of a difference of logarithms say that there is one?"""
    return low > SAME or high < -SAME


def settle_ties(values: Sequence[float] | Array, scale: float | None = None) -> Array:
    """The values, along the last axis, with equal ones made the same number: the lowest of them.

    ``scale``: what SAME is a share of, in place of the larger of two: 1 for logarithms, which may be around zero.
    """
    array = np.asarray(values, dtype=float)
    order = np.argsort(array, axis=-1, kind="stable")
    ordered = np.take_along_axis(array, order, axis=-1)
    share, difference = (SAME, 0.0) if scale is None else (0.0, SAME * scale)
    equal = np.isclose(ordered[..., :-1], ordered[..., 1:], rtol=share, atol=difference)
    first = np.arange(array.shape[-1]) * np.ones(array.shape, dtype=int)
    first[..., 1:][equal] = 0
    made = np.empty_like(array)
    lowest = np.take_along_axis(ordered, np.maximum.accumulate(first, axis=-1), axis=-1)
    np.put_along_axis(made, order, lowest, axis=-1)
    return made


def ranks(values: Sequence[float] | Array, scale: float | None = None) -> Array:
    """The ranks along the last axis, 1 for the lowest; equal ones share the mean of theirs. ``scale``: see settled."""
    array = settle_ties(values, scale)
    below = (array[..., :, None] > array[..., None, :]).sum(axis=-1)
    equal = (array[..., :, None] == array[..., None, :]).sum(axis=-1)
    return np.asarray(below + (equal + 1) / 2)


def in_order(items: Sequence[Item], values: Sequence[float], scale: float | None = None) -> list[Item]:
    """The items by their values, the lowest first; equal ones stay in the order that they have."""
    return [items[at] for at in np.argsort(settle_ties(values, scale), kind="stable")] if items else []
