"""At a look: which cells go on, so that the time that is left decides the most pairs."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.trials import MOST_LOOKS, Cell, Run, Trial
from runner.ranking.doubts import Doubt, cells_in_doubt, doubts, look
from runner.ranking.weights import Weights


def going(
    run: Run, trials: Sequence[Trial], cells: Sequence[Cell], weights: Weights | None, left_s: float, of_s: float
) -> tuple[list[Cell], list[str]]:
    """The cells of the undecided pairs that ``left_s`` seconds can decide, by what they have shown so far, or of all
    where it can decide none, and all cells of a run that has no pairs; and every undecided pair in words. ``of_s``:
    seconds of the whole run, which is looked at six times."""
    found = doubts(run, trials, weights, MOST_LOOKS, share=min(1.0, max(0.05, 1 - left_s / of_s)))
    if not found and not look(run, trials, weights):
        return list(cells), []
    return cells_in_doubt(within(found, left_s), cells), [doubt.words for doubt in found]


def within(found: Sequence[Doubt], left_s: float) -> list[Doubt]:
    """The doubts that so many seconds may settle; all where they settle none."""
    return [doubt for doubt in found if doubt.seconds is None or doubt.seconds <= left_s] or list(found)
