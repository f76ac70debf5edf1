"""A look at a run, as the loop takes it: its verdicts, what is in doubt, and which cells go on to rank VPNs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from questions import rank
from questions.rank import Doubt, Rank
from runner.data.trials import Cell, Run, Trial
from runner.design.question import Evidence, Going
from runner.ranking.model import Verdict, Weights


def look(run: Run, trials: Sequence[Trial], weights: Weights | None = None, looks: int | None = None) -> list[Verdict]:
    """The verdicts of a run that is looked at ``looks`` times; None: as often as it says."""
    return Rank().judge(Evidence(looked_at(run, looks), trials, weights)).verdicts


def doubts(
    run: Run, trials: Sequence[Trial], looks: int | None = None, widths: Mapping[str, float] | None = None
) -> list[Doubt]:
    """What is in doubt, the soonest decided first."""
    return rank.doubts(Rank().judge(Evidence(looked_at(run, looks), trials)), widths or {})


def going(
    run: Run, trials: Sequence[Trial], cells: Sequence[Cell], weights: Weights | None, left_s: float, share: float
) -> Going:
    """Which cells go on, with so many seconds left, when this share of the run is over."""
    evidence = Evidence(run, trials, weights, share)
    return Rank().going(evidence, Rank().judge(evidence), cells, left_s)


def looked_at(run: Run, looks: int | None) -> Run:
    """The run, looked at so often."""
    return run if looks is None else run.model_copy(update={"looks": looks})
