"""Bisection between the lowest and the highest rate: the thesis' criterion, and RFC 2544's."""

from __future__ import annotations

from dataclasses import dataclass

from runner.search.model import Account, BudgetSpent, Flag, Goal, SearchResult


@dataclass(frozen=True)
class RateVerdict:
    """The result of the trials at one rate: the lowest rate truly offered (bit/s), and the mean loss."""

    offered_rate_bps: float
    mean_loss_ratio: float
    sender_short: bool


def judge(account: Account, rate_bps: float, trials: int, duration_s: float, loss_ratio: float) -> RateVerdict:
    """Mean loss ratio over ``trials`` trials at one rate (thesis §3.5.1: ten of ten seconds).

    Stops early where it is decided: once the losses add up to more than ``trials`` × ``loss_ratio``, the
    trials to come cannot bring the mean back below it.
    """
    done = []
    for _ in range(trials):
        done.append(account.trial(rate_bps, duration_s, "confirm"))
        if sum(trial.loss_ratio for trial in done) > trials * loss_ratio:
            break
    return RateVerdict(
        min(trial.offered_rate_bps for trial in done),
        sum(trial.loss_ratio for trial in done) / len(done),
        any(trial.sender_short for trial in done),
    )


def bisect(account: Account, goal: Goal, trials: int, duration_s: float) -> SearchResult:
    """Halve [min, max] until it is ``relative_width`` wide (both ways) around its middle.

    A pass is a mean loss over ``trials`` × ``duration_s`` within the ratio: (10, 10.0) is the thesis'
    criterion (§3.5.1), (1, 60.0) is RFC 2544 §26.1 with a loss ratio in place of its zero. The result is the
    highest rate that passed, so it is confirmed by what found it. At the end the lowest rate that failed is judged
    once more: if it passes, the search goes on above it, for one stall would else halve the answer for good. The
    interval is where the verdicts changed and holds no probability.
    """
    passed_bps: float | None = None
    failed: list[float] = []  # rates, each lower than the one before
    revisited = 0.0
    rate_bps = goal.max_rate_bps if goal.first_rate_bps is None else goal.first_rate_bps
    flags: frozenset[Flag] = frozenset()
    try:
        while True:
            verdict = judge(account, rate_bps, trials, duration_s, goal.loss_ratio)
            if verdict.mean_loss_ratio > goal.loss_ratio:
                if rate_bps == revisited:
                    break
                failed.append(min(verdict.offered_rate_bps, failed[-1] if failed else goal.max_rate_bps))
                if rate_bps <= goal.min_rate_bps:
                    return account.result(None, flags=frozenset({"no_throughput"}))
            elif verdict.sender_short or rate_bps >= goal.max_rate_bps:
                return account.result(None, flags=frozenset({"generator_limited"}))
            else:
                passed_bps = max(verdict.offered_rate_bps, passed_bps or 0.0)
                failed = [one for one in failed if one > passed_bps]
            rate_bps = _next(goal, passed_bps, failed[-1] if failed else None)
            if failed and rate_bps == failed[-1]:
                revisited = rate_bps
    except BudgetSpent:
        flags = frozenset({"unconfirmed"})
    if passed_bps is None or not failed:
        return account.result(None, flags=flags)
    return account.result(passed_bps, (passed_bps, failed[-1]), passed_bps, flags)


def _next(goal: Goal, passed_bps: float | None, failed_bps: float | None) -> float:
    """The rate to judge next: the one that failed, once more, where the two are near enough."""
    if passed_bps is None:
        # the lowest rate is tried once all above it is narrow, and not on every search
        wide = failed_bps is not None and failed_bps > goal.min_rate_bps * (1 + 2 * goal.relative_width)
        return ((failed_bps or 0.0) + goal.min_rate_bps) / 2 if wide else goal.min_rate_bps
    if failed_bps is None:
        return goal.max_rate_bps
    near = failed_bps - passed_bps <= goal.relative_width * (failed_bps + passed_bps)
    return failed_bps if near else (passed_bps + failed_bps) / 2
