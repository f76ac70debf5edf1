"""The thesis' linear scan: a megabit per second more each time, ten trials each, until a rate fails (§3.5.1)."""

from __future__ import annotations

import math

from runner.search.bisection import DOUBTED_VISITS, judge_again
from runner.search.model import Account, BudgetSpent, Goal, SearchResult

RESOLUTION_BPS = 1e6
WINDOW = 20  # steps: at most so far below a rate that failed the scan begins
STEEPEST = 0.05  # share of a low rate that one step more is taken to lose at most
MOST_STEPS = 3 * WINDOW  # a device that takes more is another one by then


def scan(account: Account, goal: Goal, trials: int, duration_s: float) -> SearchResult:
    """Offer a rate and each 1 Mbit/s more; the result is the last rate before the first fail.

    A rate fails as soon as its losses exceed what the mean of all its trials may be, which is decided early. The
    thesis does not say at which rate it began; from the lowest one, ten trials of 10 s each would take hours. Here
    single trials look for a rate that fails and one that passes at most WINDOW steps below it, where the scan begins;
    further down where that one fails. ``first_rate_bps``: where this look begins. One stall is no fail: a rate that
    fails is offered again, as in a bisection.
    """
    try:
        rate_bps = _below_a_fail(account, goal, duration_s)
        if rate_bps is None:
            return account.result(None, flags=frozenset({"generator_limited"}))
        passed_bps: float | None = None
        for _ in range(MOST_STEPS):
            verdict = judge_again(account, goal, rate_bps, trials, duration_s, _explained_ratio(goal, rate_bps))
            if verdict.mean_loss_ratio <= goal.loss_ratio:
                if verdict.sender_short or rate_bps >= goal.max_rate_bps:
                    return account.result(None, flags=frozenset({"generator_limited"}))
                passed_bps = verdict.offered_rate_bps
                rate_bps = min(goal.max_rate_bps, rate_bps + RESOLUTION_BPS)
            elif passed_bps is not None:
                interval_bps = passed_bps, max(verdict.offered_rate_bps, passed_bps)
                return account.result(passed_bps, interval_bps, passed_bps)
            elif rate_bps <= goal.min_rate_bps:
                return account.result(None, flags=frozenset({"no_throughput"}))
            else:
                rate_bps = max(goal.min_rate_bps, rate_bps - WINDOW * RESOLUTION_BPS)
    except BudgetSpent:
        pass
    return account.result(None, flags=frozenset({"unconfirmed"}))


def _below_a_fail(account: Account, goal: Goal, duration_s: float) -> float | None:
    """A rate at most WINDOW steps below one that failed in a single trial, a whole number of steps above the lowest.
    The lowest where nothing passes, None where nothing fails."""
    passed_bps, failed_bps = goal.min_rate_bps, math.inf
    rate_bps = goal.first_rate_bps or goal.min_rate_bps
    while failed_bps - passed_bps > WINDOW * RESOLUTION_BPS:
        verdict = judge_again(account, goal, rate_bps, 1, duration_s, goal.loss_ratio, "seed")
        if verdict.mean_loss_ratio > goal.loss_ratio:
            failed_bps = rate_bps
        elif verdict.sender_short or rate_bps >= goal.max_rate_bps:
            return None
        else:
            passed_bps = rate_bps
        higher_bps = min(2 * rate_bps, goal.max_rate_bps)
        rate_bps = higher_bps if math.isinf(failed_bps) else (passed_bps + failed_bps) / 2
    return passed_bps - (passed_bps - goal.min_rate_bps) % RESOLUTION_BPS


def _explained_ratio(goal: Goal, rate_bps: float) -> float:
    """The most that a rate one step above one that passes loses by its excess."""
    return goal.loss_ratio + min(RESOLUTION_BPS / rate_bps, STEEPEST)


def most_trials(lowest_bps: float, highest_bps: float, trials: int) -> int:
    """How many trials a scan takes at most where a rate that passed once does not fail: by doubling and halving to the
    window, and then each rate in it with all its ``trials``."""
    window_bps = min(WINDOW * RESOLUTION_BPS, highest_bps - lowest_bps)
    doublings = math.ceil(math.log2(highest_bps / lowest_bps)) + 1
    halvings = math.ceil(math.log2(highest_bps / 2 / window_bps)) if highest_bps > 2 * window_bps else 0
    again = DOUBTED_VISITS - 1  # a rate that fails is offered again
    looks = doublings + again + DOUBTED_VISITS * halvings
    return looks + (math.ceil(window_bps / RESOLUTION_BPS) + 1 + again) * trials
