"""Numbers: how those that users give are read, and when two are equal.

The last digits of a result are not measured: NumPy, BLAS and the C library choose their code by the CPU, and Python
adds up with another rounding since 3.12. So two numbers that differ by SAME of the larger one, or less, are equal, and
who is ahead never depends on the reader's machine.
"""

from __future__ import annotations

import math

from runner.data.errors import UsageError

SAME = 1e-9  # of the larger one; of logarithms and of averages of ranks, which are about 1, the difference itself
MOST_LOG = 700.0  # a float holds e to the power of 709


def real(given: str | float) -> float:
    """The number in ``given``: infinite where it is too large for a float, not a number (NaN) where it is none."""
    try:
        return float(given)
    except ValueError:
        return math.nan
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def same(a: float, b: float) -> bool:
    """Are two numbers equal?"""
    return math.isclose(a, b, rel_tol=SAME)


def lead(a: float, b: float) -> int:
    """1 where ``a`` is more, -1 where ``b`` is, 0 where they are equal."""
    return 0 if same(a, b) else int(a > b) - int(a < b)


def exp(log: float) -> float:
    """e to the power of ``log``, limited so that it is neither 0 nor infinite: a ratio that can be divided by."""
    return math.exp(min(max(log, -MOST_LOG), MOST_LOG))


def number(given: str | float, low: float, high: float, *, whole: bool = False) -> float:
    """The number in ``given``, finite, from ``low`` to ``high``. Raises ValueError that names what is valid."""
    value = real(given)
    if low <= value <= high and (not whole or value.is_integer()):
        return value
    shown = repr(given) if isinstance(given, str) else f"{value:g}"
    shown = shown if len(shown) <= 60 else f"{shown[:30]}…{shown[-10:]}"
    raise ValueError(f"a {'whole ' * whole}number from {low:.10g} to {high:.10g}, not {shown}")


def rate_bps(text: str, option: str = "--max-rate") -> float:
    """``500k``, ``200M`` or ``1.5G`` in bit/s. Raises UsageError for anything else, which names the ``option``."""
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    count, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        return number(count, 1e5 / unit, 1e12 / unit) * unit
    except ValueError:
        raise UsageError(f"{option} must be a rate from 100k to 1000G, like 200M, not {text!r:.60}") from None


def seconds(text: str, option: str = "--deadline") -> float:
    """``360``, ``90s``, ``6m`` or ``2h`` in seconds. Raises UsageError for anything else."""
    units = {"s": 1, "m": 60, "h": 3600}
    count, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return number(count, 1e-3, 1e7 / unit) * unit
    except ValueError:
        raise UsageError(f"{option} must be a time like 360, 90s, 6m or 2h, not {text!r:.60}") from None


def roughly(seconds: float) -> str:
    """A time that is an estimate, in the unit that suits planning: seconds below two minutes, then minutes to days."""
    minutes = seconds / 60
    return (
        f"{max(1, round(seconds))} s"
        if minutes < 2
        else f"{minutes:.0f} min"
        if minutes < 120
        else f"{minutes / 60:.0f} h"
        if minutes < 2880
        else f"{minutes / 1440:.0f} days"
    )


def chance(probability: float | None) -> str:
    """A probability from draws: never 0 or 100 %, which draws cannot show; a dash for None."""
    if probability is None:
        return "–"
    return "<1 %" if probability < 0.01 else ">99 %" if probability > 0.99 else f"{100 * probability:.0f} %"
