"""The thesis' linear scan: every megabit per second from the bottom, until a rate fails (§3.5.1)."""

from __future__ import annotations

from runner.search.bisection import judge
from runner.search.model import Account, BudgetSpent, Goal, SearchResult

RESOLUTION_BPS = 1e6


def scan(account: Account, goal: Goal, trials: int, duration_s: float) -> SearchResult:
    """Offer ``min_rate_bps`` and each 1 Mbit/s more; the result is the last rate before the first fail.

    A rate fails as soon as its losses exceed what the mean of all its trials may be, which is decided early.
    Nothing above the first fail is looked at, as in the thesis: one accident at a low rate ends the scan there.
    ``first_rate_bps`` starts the scan higher up, for those who know that all below passes.
    """
    rate_bps = goal.min_rate_bps if goal.first_rate_bps is None else goal.first_rate_bps
    passed_bps: float | None = None
    try:
        while True:
            verdict = judge(account, rate_bps, trials, duration_s, goal.loss_ratio)
            if verdict.mean_loss_ratio > goal.loss_ratio:
                break
            if verdict.sender_short or rate_bps >= goal.max_rate_bps:
                return account.result(None, flags=frozenset({"generator_limited"}))
            passed_bps = verdict.offered_rate_bps
            rate_bps = min(goal.max_rate_bps, rate_bps + RESOLUTION_BPS)
    except BudgetSpent:
        return account.result(None, flags=frozenset({"unconfirmed"}))
    if passed_bps is None:
        return account.result(None, flags=frozenset({"no_throughput"}))
    failed_bps = max(verdict.offered_rate_bps, passed_bps)
    return account.result(passed_bps, (passed_bps, failed_bps), passed_bps)
