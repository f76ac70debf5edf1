"""Continuing a run: which trials it has, and a plan of the repetitions that follow them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runner.data.trials import Cell, Trial
from runner.design.profile import Profile
from runner.sweep.plan import Plan


def measured_ids(trials: Sequence[Trial], retry_failed: bool) -> set[str]:
    """The ids of the trials that are not to be measured again."""
    again = {"lab_error", "failed"} if retry_failed else {"lab_error"}
    return {trial.id for trial in trials if trial.status not in again}


def without_number(trials: Sequence[Trial], cells: Iterable[str], retry_failed: bool) -> set[str]:
    """Of these cell keys those that have no number yet, because no earlier call had time to measure them."""
    tried = {trial.cell for trial in trials if trial.status == "ok" or (trial.status == "failed" and not retry_failed)}
    return set(cells) - tried


def after_all(
    trials: Sequence[Trial], cells: Sequence[Cell], hopeless: set[str], seed: int, profile: Profile, instances: int
) -> Plan:
    """A plan of ``instances`` more repetitions of these cells, after all repetitions that the run has."""
    begun = max(trial.repetition for trial in trials)
    return Plan(cells, begun + instances, seed, set(), hopeless, profile, begun, first=begun + 1)
