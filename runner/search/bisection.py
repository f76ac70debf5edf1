"""Bisection between the lowest and the highest rate: the thesis' criterion, and RFC 2544's.

Rates are compared as they were asked for. What a sender truly offered differs from that, by another little each time,
and is what the result is told in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.search.model import Account, BudgetSpent, Flag, Goal, Purpose, SearchResult

VISITS, DOUBTED_VISITS = 2, 3  # that fail before a rate has failed; the second where no excess explains the loss


@dataclass(frozen=True)
class RateVerdict:
    """The result of the trials at one rate: the lowest rate truly offered (bit/s), and the mean loss."""

    offered_rate_bps: float
    mean_loss_ratio: float
    sender_short: bool


def judge(
    account: Account,
    rate_bps: float,
    trials: int,
    duration_s: float,
    loss_ratio: float,
    purpose: Purpose = "confirm",
) -> RateVerdict:
    """Mean loss ratio over ``trials`` trials at one rate (thesis §3.5.1: ten of ten seconds).

    Stops early where it is decided: once the losses add up to more than ``trials`` × ``loss_ratio``, the
    trials to come cannot bring the mean back below it.
    """
    done = []
    for _ in range(trials):
        done.append(account.trial(rate_bps, duration_s, purpose))
        if sum(trial.loss_ratio for trial in done) > trials * loss_ratio:
            break
    return RateVerdict(
        min(trial.offered_rate_bps for trial in done),
        sum(trial.loss_ratio for trial in done) / len(done),
        any(trial.sender_short for trial in done),
    )


def judge_again(
    account: Account,
    goal: Goal,
    rate_bps: float,
    trials: int,
    duration_s: float,
    explained_ratio: float,
    purpose: Purpose = "confirm",
) -> RateVerdict:
    """The verdict on a rate, which fails where it has failed often enough. ``explained_ratio``: the most that its
    excess over a lower rate, which may pass, explains of its loss."""
    losses = list[float]()
    while not failed_often_enough(losses, explained_ratio):
        verdict = judge(account, rate_bps, trials, duration_s, goal.loss_ratio, purpose)
        if verdict.mean_loss_ratio <= goal.loss_ratio:
            break
        losses.append(verdict.mean_loss_ratio)
    return verdict


def failed_often_enough(losses: list[float], explained_ratio: float) -> bool:
    """Is a rate no throughput, of which these visits failed? A loss that no excess explains may be a stall's."""
    return bool(losses) and len(losses) >= (DOUBTED_VISITS if min(losses) > explained_ratio else VISITS)


@dataclass
class Halving:
    """What the rates of a bisection have shown so far.

    ``failed``: the rates that failed last time, bit/s as asked for, each lower than the one before. ``offered``: asked
    for -> truly offered. ``losses``: rate -> the mean loss of each visit that failed.
    """

    goal: Goal
    passed_bps: float | None = None
    failed: list[float] = field(default_factory=list)
    offered: dict[float, float] = field(default_factory=dict)
    losses: dict[float, list[float]] = field(default_factory=dict)

    def learn(self, rate_bps: float, verdict: RateVerdict) -> None:
        """A pass takes back what failed at this rate or below: that was a stall."""
        self.offered[rate_bps] = verdict.offered_rate_bps
        if verdict.mean_loss_ratio <= self.goal.loss_ratio:
            self.passed_bps = rate_bps
            self.failed = [failed_bps for failed_bps in self.failed if failed_bps > rate_bps]
            return
        self.losses.setdefault(rate_bps, []).append(verdict.mean_loss_ratio)
        if rate_bps not in self.failed:
            self.failed.append(rate_bps)

    @property
    def near(self) -> bool:
        """Are the highest pass and the lowest fail as near each other as asked?"""
        if self.passed_bps is None or not self.failed:
            return False
        width_bps = self.goal.relative_width * (self.failed[-1] + self.passed_bps)
        return self.failed[-1] - self.passed_bps <= width_bps

    @property
    def is_decided(self) -> bool:
        """Has the lowest rate that failed done so often enough? Nothing lower can pass, or what does is near."""
        if not self.failed or not (self.near or self.failed[-1] <= self.goal.min_rate_bps):
            return False
        return failed_often_enough(self.losses[self.failed[-1]], self.explained_ratio)

    @property
    def explained_ratio(self) -> float:
        """The most that a rate just above one that passes loses by its excess."""
        return self.goal.loss_ratio + 2 * self.goal.relative_width

    @property
    def has_changed(self) -> bool:
        """Did a rate lose what no excess explains, and pass later, or a higher one?"""
        passed_bps = self.passed_bps or 0.0
        below = [loss for rate_bps, losses in self.losses.items() if rate_bps <= passed_bps for loss in losses]
        return any(loss > self.explained_ratio for loss in below)

    def next_rate_bps(self) -> float:
        """The rate to judge next: the one that failed, once more, where the two are near enough."""
        goal, failed_bps = self.goal, self.failed[-1] if self.failed else None
        if self.passed_bps is None:
            # the lowest rate is tried once all above it is narrow, and not on every search
            wide = failed_bps is not None and failed_bps > goal.min_rate_bps * (1 + 2 * goal.relative_width)
            return ((failed_bps or 0.0) + goal.min_rate_bps) / 2 if wide else goal.min_rate_bps
        if failed_bps is None:
            return goal.max_rate_bps
        return failed_bps if self.near else (self.passed_bps + failed_bps) / 2


def bisect(account: Account, goal: Goal, trials: int, duration_s: float) -> SearchResult:
    """Halve [min, max] until it is ``relative_width`` wide (both ways) around its middle.

    A pass is a mean loss over ``trials`` × ``duration_s`` within the ratio: (10, 10.0) is the thesis'
    criterion (§3.5.1), (1, 60.0) is RFC 2544 §26.1 with a loss ratio in place of its zero. The result is the
    highest rate that passed, so it is confirmed by what found it. One stall would halve the answer for good, so the
    lowest rate that failed is judged again at the end: twice more where it lost what no excess over the rate that
    passed explains. If it passes, the search goes on above it; ``unstable`` says that such a loss went away. The
    interval is where the verdicts changed and holds no probability.
    """
    halving = Halving(goal)
    rate_bps = goal.max_rate_bps if goal.first_rate_bps is None else goal.first_rate_bps
    flags: frozenset[Flag] = frozenset()
    try:
        while not halving.is_decided:
            verdict = judge(account, rate_bps, trials, duration_s, goal.loss_ratio)
            passed = verdict.mean_loss_ratio <= goal.loss_ratio
            if passed and (verdict.sender_short or rate_bps >= goal.max_rate_bps):
                return account.result(None, flags=frozenset({"generator_limited"}))
            halving.learn(rate_bps, verdict)
            rate_bps = halving.next_rate_bps()
    except BudgetSpent:
        flags = frozenset({"unconfirmed"})
    if halving.passed_bps is None or not halving.failed:
        return account.result(None, flags=flags or frozenset({"no_throughput"}))
    passed_bps, failed_bps = (halving.offered[one] for one in (halving.passed_bps, halving.failed[-1]))
    flags |= {"unstable"} if halving.has_changed else set()
    return account.result(passed_bps, (passed_bps, max(passed_bps, failed_bps)), passed_bps, flags)
