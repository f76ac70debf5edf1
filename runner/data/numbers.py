"""Numbers that users give are read here."""

from __future__ import annotations

import math

MOST_LOG = 700.0  # a float holds e to the power of 709


def real(given: str | float) -> float:
    """The number in ``given``: infinite where it is too large for a float, not a number (NaN) where it is none."""
    try:
        return float(given)
    except ValueError:
        return math.nan
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


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
