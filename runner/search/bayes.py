"""The default engine: an overload seed, then a sequential Bayesian estimate, then the thesis' confirmation."""

from __future__ import annotations

import math

from runner.search import bisection
from runner.search.model import Account, BudgetSpent, Flag, Goal, SearchResult, SearchTrial
from runner.search.posterior import Estimate, Posterior, believe

NEAR = 0.2  # a pass and a fail within this are close enough for the grid
MAX_TRIALS = 300
CRITERION_S = 10.0  # the loss that counts is that of trials this long (thesis §3.5.1)


class Verdictless(Exception):
    """The search ended without a number; the flag says why."""

    def __init__(self, flag: Flag) -> None:
        self.flag: Flag = flag


def search(account: Account, goal: Goal) -> SearchResult:
    """Seed, estimate until the 95 % interval is within ± ``relative_width``, confirm."""
    try:
        centre_bps = seed(account, goal)
        sampler = Sampler(account, goal, centre_bps)
        sampler.run()
    except Verdictless as end:
        return account.result(None, flags=frozenset({end.flag}))
    except BudgetSpent:
        return account.result(None, flags=frozenset({"unconfirmed"}))
    estimate = sampler.estimate
    interval = (estimate.low_bps, estimate.high_bps)
    if goal.confirm is None:
        return account.result(estimate.rate_bps, interval, flags=sampler.flags)
    return confirm(account, goal, sampler)


def seed(account: Account, goal: Goal) -> float:
    """A rate (bit/s) near the throughput: a pass and a fail around it, or Verdictless."""
    passed_bps, failed_bps = 0.0, math.inf
    rate_bps = goal.first_rate_bps or goal.max_rate_bps
    step = 0.05
    at_max = at_min = 0
    while True:
        trial = account.trial(rate_bps, goal.trial_duration_s, "seed")
        offered_bps = trial.offered_rate_bps
        if trial.loss_ratio <= goal.loss_ratio:
            passed_bps = max(passed_bps, offered_bps)
            if failed_bps <= passed_bps:  # the fail below was an accident
                failed_bps = math.inf
            if trial.sender_short or rate_bps >= goal.max_rate_bps:
                at_max += 1
                if at_max >= 2:
                    raise Verdictless("generator_limited")
        else:
            failed_bps = min(failed_bps, offered_bps)
            if passed_bps >= failed_bps:
                passed_bps = 0.0
            if rate_bps <= goal.min_rate_bps:
                at_min += 1
                if at_min >= 3:
                    raise Verdictless("no_throughput")
        if passed_bps and failed_bps < passed_bps * (1 + NEAR):
            return math.sqrt(passed_bps * failed_bps)
        if not passed_bps:
            forwarded_bps = trial.forwarded_rate_bps if trial.loss_ratio > NEAR else offered_bps
            if trial.loss_ratio <= NEAR:
                forwarded_bps, step = trial.forwarded_rate_bps / (1 + step / 2), step * 3
            rate_bps = max(goal.min_rate_bps, min(forwarded_bps, offered_bps / 1.01))
        elif math.isinf(failed_bps):
            rate_bps, step = min(goal.max_rate_bps, rate_bps * (1 + step)), step * 4
            if trial.sender_short:
                rate_bps = goal.max_rate_bps
        elif failed_bps < passed_bps * (1 + step) * (1 + NEAR):
            rate_bps = math.sqrt(passed_bps * failed_bps)
        else:
            rate_bps, step = passed_bps * (1 + step), step * 3


class Sampler:
    """Chooses the next rate from the belief, until the belief is narrow."""

    def __init__(self, account: Account, goal: Goal, centre_bps: float) -> None:
        self.account, self.goal = account, goal
        self.flags: frozenset[Flag] = frozenset()
        self.span = 0.3
        self.refocus(centre_bps)

    def local(self, centre_bps: float) -> list[SearchTrial]:
        """The trials near a rate: far from it livelock and the like make the model wrong."""
        reach = max(0.05, 2 * self.span)
        return [t for t in self.account.trials if abs(math.log(t.offered_rate_bps / centre_bps)) < reach]

    def refocus(self, centre_bps: float) -> None:
        """A new grid around ``centre_bps``."""
        self.posterior: Posterior = believe(self.goal.loss_ratio, centre_bps, self.span, self.local(centre_bps))
        self.estimate: Estimate = self.posterior.estimate()

    def run(self) -> None:
        """Trials until the interval is narrow; BudgetSpent ends it with the estimate there is."""
        wanted = min(30, round((0.04 / self.goal.relative_width) ** 2))
        for number in range(MAX_TRIALS):
            self.focus()
            if self.estimate.no_throughput > 0.5:
                raise Verdictless("no_throughput")
            enough = len(self.local(self.estimate.rate_bps)) >= max(3, wanted)
            if enough and self.estimate.relative_width <= self.goal.relative_width:
                break
            over = math.exp(0.5 * max(0.003, self.estimate.noise) * (number % 2))
            rate_bps = min(max(self.estimate.rate_bps * over, self.goal.min_rate_bps), self.goal.max_rate_bps)
            try:
                trial = self.account.trial(rate_bps, self.goal.trial_duration_s, "estimate")
            except BudgetSpent:
                break
            self.posterior.update(trial)
            self.estimate = self.posterior.estimate()
        else:
            self.flags |= {"unstable"}
        highest_bps = max(trial.offered_rate_bps for trial in self.account.trials)
        if self.estimate.rate_bps > highest_bps:
            raise Verdictless("generator_limited")
        if self.estimate.rate_bps < self.goal.min_rate_bps:
            raise Verdictless("no_throughput")

    def focus(self) -> None:
        """Move the grid where the belief runs off it, and zoom in where it has become narrow."""
        for _ in range(6):
            width = math.log(self.estimate.high_bps / self.estimate.low_bps)
            if self.estimate.edge:
                self.span = min(0.6, self.span * 1.5)
                self.refocus(self.posterior.centre_bps * math.exp(self.estimate.edge * self.span / 2))
            elif width < self.span / 4 and self.span > 0.03:
                self.span = max(0.03, width * 1.5)
                self.refocus(self.estimate.rate_bps)
            else:
                return


def confirm(account: Account, goal: Goal, sampler: Sampler) -> SearchResult:
    """The thesis' verdict (§3.5.1) just below the estimate, stepping down where it fails."""
    assert goal.confirm is not None
    count, duration_s = goal.confirm
    estimate = sampler.estimate
    interval = (estimate.low_bps, estimate.high_bps)
    rate_bps = estimate.low_bps
    try:
        for _ in range(4):
            verdict = bisection.judge(account, rate_bps, count, duration_s, goal.loss_ratio)
            if verdict.sender_short:
                return account.result(None, flags=sampler.flags | {"generator_limited"})
            if verdict.mean_loss_ratio <= goal.loss_ratio:
                rate_bps = min(rate_bps, verdict.offered_rate_bps)
                return account.result(estimate.rate_bps, interval, rate_bps, sampler.flags)
            rate_bps = max(goal.min_rate_bps, rate_bps * (1 - goal.relative_width))
    except BudgetSpent:
        pass
    return account.result(estimate.rate_bps, interval, None, sampler.flags | {"unconfirmed"})
