"""The throughput search: it is handed a ``measure`` function, and never sees a lab.

``find_throughput`` answers: at which offered rate does the mean loss reach the loss ratio?
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from runner.data.errors import UsageError
from runner.search import bayes, bisection, rounds
from runner.search.model import TAKES, Account, Engine, Flag, Goal, Loss, Measure, SearchResult, SearchTrial
from runner.search.scan import scan

__all__ = ["TAKES", "Engine", "Flag", "Loss", "Measure", "SearchResult", "SearchTrial", "find_throughput"]

THESIS_CONFIRM = (10, 10.0)
RFC2544_TRIAL_S = 60.0
RELATIVE_WIDTH = 0.01
TRIAL_S = 2.0


def find_throughput(
    measure: Measure,
    *,
    loss_ratio: float = 0.01,
    min_rate_bps: float = 1e6,
    max_rate_bps: float = 10e9,
    relative_width: float | None = None,
    trial_duration_s: float | None = None,
    budget_s: float | None = None,
    confirm: tuple[int, float] | Literal["usual"] | None = "usual",
    engine: Engine = "bayes",
    first_rate_bps: float | None = None,
    overhead_s: float = 0.0,
) -> SearchResult:
    """The offered rate (bit/s) at which the mean loss ratio of ``measure`` reaches ``loss_ratio``.

    ``measure(rate_bps, duration_s)`` offers that rate (bit/s) for that long (s) and returns a ``Loss``. Whatever
    it raises ends the search; a TimeoutError, which is how it says that the device hangs, as MeasurementError.

    ``loss_ratio``: 0.01 is the thesis' bound (§3.5.1), 0 asks for the non-drop rate, anything below 0.5 for a
    partial drop rate. The ``bayes`` estimate treats less than 1e-5 as 1e-5; a confirmation is exact.
    ``min_rate_bps``, ``max_rate_bps``: the range that is offered.
    ``budget_s``: no trial is begun that would end after this much accounted time; None is no limit.
    ``overhead_s``: what each trial costs on top of its duration; only accounted, never waited for.

    Not every engine takes these (``TAKES``); UsageError where one is given to an engine that has no use for it:
    ``relative_width``: half the width of the interval over the rate at which the search stops; 0.01 if not given.
    ``trial_duration_s``: of one trial of ``bayes`` and ``rounds``; 2 s if not given.
    ``first_rate_bps``: begin there instead of at an end of the range.
    ``confirm``: (trials, seconds each) whose mean loss has to stay within the ratio; None goes without. It is
    also what ``binary`` and ``scan`` judge each rate by. "usual", and None there, are the thesis' 10 × 10 s.

    Engines: ``bayes``; ``binary`` (bisection on the thesis' criterion); ``scan`` (the thesis' linear scan, in steps
    of 1 Mbit/s, from a rate near to one that fails); ``rfc2544`` (bisection with trials of 60 s, RFC 2544 §24 and
    §26.1); ``rounds`` (not the mean: the rate at which half of many short trials pass). The same measurements give the
    same search: no engine draws anything.

    Flags: ``generator_limited`` (the most that could be offered passes), ``no_throughput`` (nothing passes): no
    rate with either; ``unconfirmed`` (no confirmation was reached); ``unstable`` (the device changed meanwhile).

    Raises UsageError before any trial where an argument makes no sense, MeasurementError where counts make no sense or
    a trial does not end.
    """
    names = ("relative_width", "trial_duration_s", "first_rate_bps", "confirm")
    values = (relative_width, trial_duration_s, first_rate_bps, None if confirm == "usual" else confirm)
    _refuse_unused(engine, [name for name, value in zip(names, values, strict=True) if value is not None])
    goal = Goal(
        loss_ratio,
        min_rate_bps,
        max_rate_bps,
        RELATIVE_WIDTH if relative_width is None else relative_width,
        TRIAL_S if trial_duration_s is None else trial_duration_s,
        THESIS_CONFIRM if confirm == "usual" else confirm,
        first_rate_bps,
    )
    _refuse_nonsense(goal, budget_s, overhead_s)
    return _search_with(engine, Account(measure, overhead_s, budget_s), goal)


def _search_with(engine: Engine, account: Account, goal: Goal) -> SearchResult:
    if engine == "binary":
        return bisection.bisect(account, goal, *(goal.confirm or THESIS_CONFIRM))
    if engine == "rfc2544":
        return bisection.bisect(account, goal, 1, RFC2544_TRIAL_S)
    if engine == "scan":
        return scan(account, goal, *(goal.confirm or THESIS_CONFIRM))
    if engine == "rounds":
        return rounds.search(account, goal)
    return bayes.search(account, goal)


def _refuse_unused(engine: str, given: list[str]) -> None:
    """UsageError for an engine that does not exist, or an argument that it has no use for."""
    if engine not in get_args(Engine):
        raise UsageError(f"unknown engine {engine!r}. Valid: {', '.join(get_args(Engine))}")
    for name in given:
        if name not in TAKES[engine]:
            takers = ", ".join(other for other, taken in TAKES.items() if name in taken)
            raise UsageError(
                f"{name} has no effect in the engine {engine}. Leave it out, or choose one of these engines: {takers}"
            )


def _refuse_nonsense(goal: Goal, budget_s: float | None, overhead_s: float) -> None:
    """UsageError for a rate, ratio, duration, width or budget that makes no sense."""
    confirm = goal.confirm
    if confirm is not None and (len(confirm) != 2 or confirm[0] != int(confirm[0])):
        raise UsageError(f"confirm is (number of trials, seconds each) or None, not {confirm!r}")
    positive = {
        "min_rate_bps": goal.min_rate_bps,
        "max_rate_bps": goal.max_rate_bps,
        "trial_duration_s": goal.trial_duration_s,
        "first_rate_bps": goal.first_rate_bps,
        "budget_s": budget_s,
        "confirm's number of trials": confirm and confirm[0],
        "confirm's duration": confirm and confirm[1],
    }
    for name, value in positive.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name} is {value!r}: it must be a positive number")
    if not (math.isfinite(overhead_s) and overhead_s >= 0):
        raise UsageError(f"overhead_s is {overhead_s!r}: it must be zero or more")
    if not 0 <= goal.loss_ratio < 0.5:
        raise UsageError(f"loss_ratio is {goal.loss_ratio!r}: it must be at least 0 and below 0.5")
    if not 0.001 <= goal.relative_width <= 0.2:
        raise UsageError(f"relative_width is {goal.relative_width!r}: it must be from 0.001 to 0.2")
    if goal.min_rate_bps >= goal.max_rate_bps:
        raise UsageError(f"min_rate_bps ({goal.min_rate_bps:g}) must be below max_rate_bps ({goal.max_rate_bps:g})")
    if goal.first_rate_bps is not None and not goal.min_rate_bps <= goal.first_rate_bps <= goal.max_rate_bps:
        raise UsageError(f"first_rate_bps ({goal.first_rate_bps:g}) is outside of min_rate_bps to max_rate_bps")
