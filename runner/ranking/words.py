"""Probabilities as people read them."""

from __future__ import annotations

NONE = "–"


def chance(probability: float | None) -> str:
    """A probability from draws: never 0 or 100 %, which draws cannot show; a dash for None."""
    if probability is None:
        return NONE
    return "<1 %" if probability < 0.01 else ">99 %" if probability > 0.99 else f"{100 * probability:.0f} %"
