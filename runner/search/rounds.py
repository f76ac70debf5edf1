"""The throughput of the median trial, by many short trials with anything between them: an engine for turns.

The trials of several searches take turns here, and a search may last for many minutes with long breaks, in which the
machine changes. So this engine asks for less than ``bayes``, and bears more: each trial only says whether it passed,
which is whether it lost no more than the loss ratio, and what it forwarded. The answer is the rate at which half of the
trials pass. (MLRsearch judges the median trial, too. The mean would be made by the few trials in which the machine was
busy with something else: on shared cores a tenth of them loses a tenth of everything.)

A trial's threshold is the highest rate that would have passed in its place. Its logarithm is taken as logistic around
the answer. A trial at rate R that passed has a threshold above R; one that failed has one below R, and above most of
what it forwarded: a device may forward less under overload than it could, and hardly ever more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from runner.search.likelihood import Array
from runner.search.model import Account, BudgetSpent, Flag, Goal, Purpose, SearchResult, SearchTrial
from runner.search.steps import Offer

SEED_BPS = 20e6
SEED_S = 0.15  # of a trial, while nothing has failed yet: a short overload breaks less
GROWTH, CAREFUL_GROWTH = 3.0, 1.2  # from one seed to the next; the second where overload breaks the device
# From the answer, in logarithms: an overload reads the capacity of that moment, and what passes below says that the
# answer is no lower. The overload is more than what a disturbed trial usually loses: with less of it, a search whose
# trials lose a little at any rate would find the rate that it happens to offer.
OFFSETS, CAREFUL_OFFSETS = (0.25, -0.08, 0.35), (0.03, -0.05, 0.04)
CAREFUL_STEP = 1.1  # no further above what has passed where overload breaks the device down
CAREFUL_SHARE = 0.5  # of the usual duration: what breaks it is how much waits, which grows with the time
LAPSE = 0.02  # of all trials do anything
DISTURBED = np.array([0.03, 0.1, 0.2, 0.35, 0.5])[None, None, :]  # share of trials that lose something at any rate
DISTURBANCE = 0.3  # what these forward less, by the logarithm: mean of an exponential distribution
COLLAPSE = 0.5  # a trial that lost more than this does not tell what the device could have forwarded
SPREADS = np.exp(np.linspace(math.log(0.01), math.log(0.5), 14))
SPREAD_PRIOR = (math.log(0.06), 1.0)  # of its logarithm: mean and deviation
STEP, REACH = 0.0125, 100  # of the grid of the logarithm of the rate; steps to each side
CENTRE_DEVIATION = 1.0  # of the answer around where the seed ended
FEWEST_TRIALS, MOST_TRIALS = 12, 60  # of a search without a break
LIMITED = 3  # trials in a row in which the generator fell short and nothing was lost
HOPELESS = 3  # trials that failed at the lowest rate
FEWEST_BURSTS = 3  # trials that show one
MOST_DEPENDENT = 0.6  # correlation of a trial with the next that is believed at most


@dataclass(frozen=True)
class Median:
    """An estimate of the rate at which half of the trials pass: bit/s, its 95 % interval, and the spread."""

    rate_bps: float
    low_bps: float
    high_bps: float
    spread: float


@dataclass
class StepwiseSearch:
    """A search in steps: ask for the next rate, tell it the outcome, trial by trial. It can rest between trials."""

    loss_ratio: float = 0.01
    min_rate_bps: float = 1e6
    max_rate_bps: float = 10e9
    trial_duration_s: float = 0.4
    first_rate_bps: float | None = None
    careful: bool = False  # does overload break the device down?
    shortest_s: float = 0.0  # that any trial lasts, the seed's, too
    trials: list[SearchTrial] = field(default_factory=list)
    _seeds: int = 0
    _known_bps: float = math.inf  # sustained, as what has been learnt takes it
    _seed: float = 0.0  # logarithm of where the seed ended
    _centre: float = 0.0  # logarithm of the middle of the grid
    _by_seeds: Array = field(default_factory=lambda: np.zeros(1))  # log likelihood of the seed's trials on the grid
    _log_likelihood: list[Array] = field(default_factory=list)  # of each later trial

    @property
    def sustained_bps(self) -> float:
        """What goes on after a burst, bit/s, where most of the trials that lost something show one: beyond that, what
        passed had a burst's help. Infinite where they do not."""
        lossy = [trial for trial in self.trials if trial.loss_ratio > self.loss_ratio]
        found = [trial.sustained_bps for trial in lossy if trial.sustained_bps]
        return statistics.median(found) if len(found) >= FEWEST_BURSTS and 2 * len(found) > len(lossy) else math.inf

    @property
    def seeding(self) -> bool:
        """Has no trial failed yet, or none passed?"""
        return not self._seeds

    @property
    def duration_s(self) -> float:
        """The duration of a trial after the seed, in seconds."""
        return max(self.shortest_s, self.trial_duration_s * (CAREFUL_SHARE if self.careful else 1))

    @property
    def purpose(self) -> Purpose:
        """What the next trial is for."""
        return "seed" if self.seeding else "estimate"

    @property
    def generator_limited(self) -> bool:
        """Could the generator offer no more? Once a trial has failed, more evidence is needed for that."""
        count = LIMITED if self.seeding else 2 * LIMITED
        short = [trial for trial in self.trials[-count:] if self._passes(trial) and self._at_limit(trial)]
        return len(short) == count

    @property
    def hopeless(self) -> bool:
        """Did even the lowest rate fail, several times?"""
        lowest = [trial for trial in self.trials if trial.asked_rate_bps <= self.min_rate_bps]
        return len(lowest) >= HOPELESS and not any(map(self._passes, self.trials))

    def next_load(self) -> Offer:
        """The rate to offer next, and for how long."""
        growth = CAREFUL_GROWTH if self.careful else GROWTH
        if not self.trials:
            rate_bps = self.first_rate_bps or SEED_BPS
        elif self.seeding:
            step = growth if self._passes(self.trials[-1]) else 1 / growth
            rate_bps = self.trials[-1].offered_rate_bps * step
        elif self.generator_limited:
            rate_bps = self.max_rate_bps
        else:
            theta, _ = self._mean(self._total())
            offsets = CAREFUL_OFFSETS if self.careful else OFFSETS
            rate_bps = math.exp(theta + offsets[len(self.trials) % len(offsets)])
            passed = [trial.offered_rate_bps for trial in self.trials if self._passes(trial)]
            if self.careful and passed:
                passed_bps = max(passed)
                rate_bps = min(rate_bps, passed_bps * CAREFUL_STEP)
        duration_s = max(self.shortest_s, min(SEED_S, self.duration_s)) if self.seeding else self.duration_s
        return Offer(min(max(rate_bps, self.min_rate_bps), self.max_rate_bps), duration_s)

    def learn(self, trial: SearchTrial) -> None:
        """Learn the outcome of a trial."""
        self.trials.append(trial)
        if self.seeding:
            if len({self._passes(past) for past in self.trials}) == 2:
                self._seed, self._seeds = math.log(self._seed_bps()), len(self.trials)
                self._centre_at(self._seed)
            return
        known_bps, self._known_bps = self._known_bps, self.sustained_bps
        self._log_likelihood.append(self._log_likelihood_of(trial))
        theta, _ = self._mean(self._total())
        if known_bps != self._known_bps or abs(theta - self._centre) > 0.5 * STEP * REACH:
            self._centre_at(theta)

    def median(self) -> Median:
        """The estimate from all trials. Needs trials after the seed."""
        total = self._total()
        weight = self._weight(total)
        theta, spread = self._mean(total)
        n = len(self._log_likelihood)
        left_out = np.array([self._mean(total - term)[0] for term in self._log_likelihood])
        pseudo = n * theta - (n - 1) * left_out
        over_theta = weight.sum(axis=(1, 2))
        deviation = math.sqrt(float(over_theta @ (self._grid() - theta) ** 2))
        if n > 1:
            deviation = max(deviation, pseudo.std(ddof=1) / math.sqrt(n)) * math.sqrt(dependence(pseudo))
        low, high = theta - 1.96 * deviation, theta + 1.96 * deviation
        return Median(math.exp(theta), math.exp(low), math.exp(high), spread)

    def reading_bps(self, trial: SearchTrial) -> float:
        """The reading of a single trial: the threshold that it is expected to have had, given all trials."""
        theta, spread = self._mean(self._total())
        if not self._passes(trial) and trial.loss_ratio <= COLLAPSE:
            return trial.offered_rate_bps * (1 - self._loss_ratio(trial)) / (1 - self.loss_ratio)
        offered = math.log(trial.offered_rate_bps)
        # Mean of a logistic variable above or below the offered rate
        at = np.clip((offered - theta) / spread, -30, 30)
        above = 1 / (1 + math.exp(at))
        entropy = -(above * math.log(above) + (1 - above) * math.log(1 - above))
        beyond = entropy / above if self._passes(trial) else -entropy / (1 - above)
        return math.exp(theta + spread * beyond)

    def narrow(self, relative_width: float) -> bool:
        """Is the interval within ± ``relative_width`` of the estimate?"""
        median = self.median()
        return median.high_bps - median.low_bps <= 2 * relative_width * median.rate_bps

    def _passes(self, trial: SearchTrial) -> bool:
        return self._loss_ratio(trial) <= self.loss_ratio

    def _loss_ratio(self, trial: SearchTrial) -> float:
        """The loss of a trial without a burst's help."""
        return max(trial.loss_ratio, 1 - self._known_bps / trial.offered_rate_bps)

    def _at_limit(self, trial: SearchTrial) -> bool:
        return trial.sender_short or trial.asked_rate_bps >= self.max_rate_bps

    def _seed_bps(self) -> float:
        """A rate between the highest pass and the lowest fail above it, or near what the first fail forwarded."""
        passed_bps = max(trial.offered_rate_bps for trial in self.trials if self._passes(trial))
        failed = min((t for t in self.trials if not self._passes(t)), key=lambda trial: trial.offered_rate_bps)
        low, high = sorted((passed_bps, failed.offered_rate_bps))
        return min(max(failed.forwarded_rate_bps, math.cbrt(low * low * high)), high)

    def _grid(self) -> Array:
        return np.asarray(self._centre + STEP * np.arange(-REACH, REACH + 1.0))

    def _centre_at(self, theta: float) -> None:
        """Make a grid around ``theta``, with the likelihood of all trials."""
        self._centre = theta
        self._by_seeds = np.sum([self._log_likelihood_of(trial) for trial in self.trials[: self._seeds]], axis=0)
        self._log_likelihood = [self._log_likelihood_of(trial) for trial in self.trials[self._seeds :]]

    def _log_likelihood_of(self, trial: SearchTrial) -> Array:
        """Log likelihood of a trial for each rate (first axis), spread, and share of disturbed trials."""
        offered = math.log(trial.offered_rate_bps)
        theta, spread = self._grid()[:, None, None], SPREADS[None, :, None]
        above = 1 / (1 + np.exp(np.clip((offered - theta) / spread, -50, 50)))  # chance that the threshold is above R
        if self._passes(trial):
            return np.asarray(np.log(LAPSE + (1 - LAPSE) * (1 - DISTURBED) * above))
        if trial.loss_ratio > COLLAPSE:
            return np.asarray(np.log(LAPSE + (1 - LAPSE) * (DISTURBED + (1 - DISTURBED) * (1 - above))))
        forwarded_bps = trial.offered_rate_bps * (1 - self._loss_ratio(trial))
        implied = math.log(forwarded_bps / (1 - self.loss_ratio))
        d = np.clip(np.abs(implied - theta) / spread, 0, 50)
        capacity = np.exp(-d) / (1 + np.exp(-d)) ** 2 / spread
        lost = np.minimum(theta, offered) - implied
        disturbance = np.where(lost > 0, np.exp(-np.maximum(lost, 0) / DISTURBANCE) / DISTURBANCE, 0.0)
        return np.asarray(np.log(LAPSE + (1 - LAPSE) * ((1 - DISTURBED) * capacity + DISTURBED * disturbance)))

    def _total(self) -> Array:
        prior = -0.5 * ((self._grid() - self._seed) / CENTRE_DEVIATION) ** 2
        spreads = -0.5 * ((np.log(SPREADS) - SPREAD_PRIOR[0]) / SPREAD_PRIOR[1]) ** 2
        return np.asarray(sum(self._log_likelihood, self._by_seeds) + prior[:, None, None] + spreads[None, :, None])

    @staticmethod
    def _weight(total: Array) -> Array:
        weight = np.exp(total - total.max())
        return np.asarray(weight / weight.sum(), dtype=float)

    def _mean(self, total: Array) -> tuple[float, float]:
        """Posterior mean of the logarithm of the rate, and of the spread."""
        weight = self._weight(total)
        return float(weight.sum(axis=(1, 2)) @ self._grid()), float(weight.sum(axis=(0, 2)) @ SPREADS)


def search(account: Account, goal: Goal) -> SearchResult:
    """A whole search without a break, as the other engines have it: until the 95 % interval is within
    ± ``relative_width``, MOST_TRIALS are done, or the budget is spent."""
    rounds = StepwiseSearch(
        goal.loss_ratio, goal.min_rate_bps, goal.max_rate_bps, goal.trial_duration_s, goal.first_rate_bps
    )
    flags: set[Flag] = set()
    try:
        while len(rounds.trials) < MOST_TRIALS and not (rounds.generator_limited or rounds.hopeless):
            rounds.learn(account.trial(*rounds.next_load(), rounds.purpose))
            if not rounds.seeding and len(rounds.trials) >= FEWEST_TRIALS and rounds.narrow(goal.relative_width):
                break
    except BudgetSpent:
        flags.add("unconfirmed")
    if rounds.generator_limited or rounds.hopeless:
        return account.result(
            None, flags=frozenset({"generator_limited" if rounds.generator_limited else "no_throughput"})
        )
    if rounds.seeding:
        return account.result(None, flags=frozenset({"unconfirmed"}))
    median = rounds.median()
    return account.result(median.rate_bps, (median.low_bps, median.high_bps), flags=frozenset(flags))


def dependence(values: Sequence[float] | Array) -> float:
    """The factor by which the variance of the mean exceeds that of independent values, by the correlation of
    neighbours."""
    centred = np.asarray(values) - np.mean(values)
    square = float(centred @ centred)
    if len(centred) < 8 or not square:
        return 1.0
    correlation = min(max(float(centred[1:] @ centred[:-1]) / square, 0.0), MOST_DEPENDENT)
    return (1 + correlation) / (1 - correlation)
