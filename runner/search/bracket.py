"""The seed of a search: which rate has passed, which has failed, and which to offer next to bring them together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runner.search.model import Goal, NoNumber, SearchTrial

NEAR = 0.2  # a pass and a fail within this are close enough for the grid
STEP = 0.05  # the first step away from a rate that is not yet known to be near


@dataclass
class Bracket:
    """The highest rate that passed and the lowest that failed above it (bit/s); 0 and infinity: none."""

    goal: Goal
    passed_bps: float = 0.0
    failed_bps: float = math.inf
    step: float = STEP  # up or down from these, as a share
    near_fails: int = 0  # trials that lost little too much
    at_limit: int = 0  # trials that passed at the highest rate there is, or failed at the lowest

    @property
    def narrow(self) -> bool:
        """Are the pass and the fail close to each other?"""
        return self.passed_bps > 0 and self.failed_bps < self.passed_bps * (1 + NEAR)

    @property
    def middle_bps(self) -> float:
        """The rate between pass and fail, both of which must exist."""
        return math.sqrt(self.passed_bps * self.failed_bps)

    @property
    def only_near_fails(self) -> bool:
        """Is a little too much lost at ever lower rates, with no pass? Then the start-up may be what is lost."""
        return not self.passed_bps and self.near_fails >= 2

    def learn(self, trial: SearchTrial, loss_ratio: float) -> None:
        """Learn from one trial, judged by ``loss_ratio``. NoNumber where the range of rates ends before a bracket."""
        if loss_ratio <= self.goal.loss_ratio:
            self._note_pass(trial)
        else:
            self._note_fail(trial, loss_ratio)

    def _note_pass(self, trial: SearchTrial) -> None:
        self.passed_bps = max(self.passed_bps, trial.offered_rate_bps)
        if self.failed_bps <= self.passed_bps:  # it was an accident; what is known is this rate
            self.failed_bps, self.step = math.inf, STEP
        if trial.sender_short or trial.asked_rate_bps >= self.goal.max_rate_bps:
            self.at_limit += 1
            if self.at_limit >= 2:
                raise NoNumber("generator_limited")

    def _note_fail(self, trial: SearchTrial, loss_ratio: float) -> None:
        self.failed_bps = min(self.failed_bps, trial.offered_rate_bps)
        self.passed_bps = self.passed_bps if self.passed_bps < self.failed_bps else 0.0
        self.near_fails += loss_ratio <= NEAR
        if trial.asked_rate_bps <= self.goal.min_rate_bps:
            self.at_limit += 1
            if self.at_limit >= 3:
                raise NoNumber("no_throughput")

    def next_rate_bps(self, trial: SearchTrial, loss_ratio: float) -> float:
        """The rate to offer after ``trial``, which the bracket knows of; the next step goes further."""
        if not self.passed_bps:
            return self._down_from(trial.offered_rate_bps, loss_ratio)
        if math.isinf(self.failed_bps):
            return self._up_after(trial)
        rate_bps = min(self.passed_bps * (1 + self.step), self.middle_bps)
        self.step *= 3
        return rate_bps

    def _down_from(self, offered_bps: float, loss_ratio: float) -> float:
        """The rate that was received in this trial, and a little less."""
        if loss_ratio > NEAR:
            rate_bps = offered_bps * (1 - loss_ratio) / 1.01
        else:
            rate_bps = offered_bps * (1 - loss_ratio) / (1 + self.step)
            self.step *= 3
        if self.goal.first_rate_bps:  # something is known: no collapse under overload shall lead far below it
            rate_bps = max(rate_bps, offered_bps / 2)
        return max(self.goal.min_rate_bps, rate_bps)

    def _up_after(self, trial: SearchTrial) -> float:
        # A generator that falls short is asked for all it can, unless something is known already.
        leap = trial.sender_short and not self.goal.first_rate_bps
        rate_bps = self.goal.max_rate_bps if leap else self.passed_bps * (1 + self.step)
        self.step *= 2
        return min(self.goal.max_rate_bps, rate_bps)
