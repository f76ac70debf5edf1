"""The rankings of a run that is still being measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from questions.rank.judge import ranked_numbers
from questions.rank.judgement import RankedNumber
from runner.data.trials import Run, Trial
from runner.ranking.model import Ranking, Weights
from runner.ranking.rankings import Rankings


class RankedNumbers(NamedTuple):
    """A ranking, and the numbers behind its ranks."""

    ranking: Ranking
    numbers: list[RankedNumber]


def so_far(run: Run, trials: Sequence[Trial], weights: Weights | None = None) -> list[RankedNumbers]:
    """Every ranking of a run that is still being measured, with the numbers behind it. Rankings with places come first,
    and of these the recommended configuration."""
    made = Rankings(run, trials, weights)
    rankings = [RankedNumbers(*pair) for pair in zip(made.rankings, map(ranked_numbers, made.bases), strict=True)]

    def place(ranked: RankedNumbers) -> tuple[bool, bool]:
        placed = any(standing.place for standing in ranked.ranking.standings)
        return not placed, ranked.ranking.configuration != "recommended"

    return sorted(rankings, key=place)
