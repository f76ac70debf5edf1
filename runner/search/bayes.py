"""The default engine: an overload seed, then a sequential Bayesian estimate, then the thesis' confirmation."""

from __future__ import annotations

import math
import statistics

from runner.search import bisection
from runner.search.bracket import NEAR, Bracket
from runner.search.likelihood import CRITERION_S
from runner.search.model import Account, BudgetSpent, Flag, Goal, NoNumber, Purpose, SearchResult, SearchTrial
from runner.search.posterior import CAPACITY_DEVIATION, Posterior, PosteriorEstimate
from runner.search.stability import unstable

MAX_TRIALS = 100  # of the usual duration, or the time of as many, those of the seed included
MAX_BELIEFS = 12  # a device that moves away more often is no steady one
REACH = 0.2  # trials further above the estimate than this (logarithm) say nothing about it
UNSETTLED = 1.5  # an interval this much wider than asked after all these trials is no mere noise
LEAST_TRIALS = 24  # at ± 1 %
OFFSETS = (0.0, 0.5)  # above the estimate, in turn and in deviations of the noise
PROBE_EVERY = 2  # what lies between probes goes unseen
PROBE_SELDOM = 4  # where the loss is not the excess, trials at the answer tell most of it
JITTERS, LIVELOCKS = 0.01, 0.1  # from these on it is not
PROBE = 1.13  # an overload by this shows the capacity of the moment, whatever state the device is in
BREAKDOWN = 0.5  # a device that loses this much of a probe is not probed again
LONG = 5  # times the usual duration is a trial that tells start-up loss from a floor
LONG_TRIALS = 2  # at most, each beside a short one
LARGE_FLOOR = 0.3  # of the loss ratio: a floor beyond this may be a start-up, however little the prior thinks of one
DOUBT = 0.005  # probability of a loss that no rate brings below the ratio; a stall in the only long trial leaves it
LEAST_NOISE = 0.01  # for that purpose: rates too near each other tell no slope


def search(account: Account, goal: Goal) -> SearchResult:
    """Find a seed, estimate until the 95 % interval is within ± ``relative_width``, confirm."""
    sampler = Sampler(account, goal)
    try:
        sampler.estimate_from(sampler.seed())
    except NoNumber as end:
        return account.result(None, flags=frozenset({end.flag}))
    except BudgetSpent:
        return sampler.unconfirmed_result()
    if sampler.contradicted_again():
        return sampler.unconfirmed_result()
    return sampler.confirm() if goal.confirm else sampler.result()


class Sampler:
    """Chooses the next rate from what is believed, until that is narrow enough."""

    posterior: Posterior
    estimate: PosteriorEstimate

    def __init__(self, account: Account, goal: Goal) -> None:
        self.account, self.goal = account, goal
        self.beliefs = 0
        self.startup_s: float | None = None  # None: not yet looked for
        self.long_trials = 0  # beside a short one each, after the seed
        self.compared = False  # a start-up was seen in these, or twice none: a stall may hide it, hardly twice
        self.broke_down = False  # under a probe
        self.exhausted = False  # the limit of trials is reached

    def offer(self, rate_bps: float, purpose: Purpose) -> SearchTrial:
        """One trial of the usual duration within the range of rates."""
        rate_bps = min(max(rate_bps, self.goal.min_rate_bps), self.goal.max_rate_bps)
        return self.account.trial(rate_bps, self.goal.trial_duration_s, purpose)

    def loss(self, trial: SearchTrial) -> float:
        """Loss ratio as a trial of ``CRITERION_S`` would have it, for passes and fails; the posterior needs no such."""
        overstated = (self.startup_s or 0.0) * max(0.0, 1 / trial.duration_s - 1 / CRITERION_S)
        return max(0.0, trial.loss_ratio - overstated)

    def seed(self) -> float:
        """A rate (bit/s) between a pass and a fail that lie near each other, or NoNumber.

        Starts with an overload and offers what was received. That understates the throughput of a device that
        slows down under overload, so it climbs from there; and one accident is no fail for ever, so a pass
        at or above a failed rate takes the fail back.
        """
        bracket = Bracket(self.goal)
        rate_bps = self.goal.first_rate_bps or self.goal.max_rate_bps
        while True:
            trial = self.offer(rate_bps, "seed")
            loss_ratio = self.loss(trial)
            bracket.learn(trial, loss_ratio)
            if bracket.narrow:
                return bracket.middle_bps
            if bracket.only_near_fails and self.startup_s is None:
                self.look_for_startup(0.7 * trial.offered_rate_bps)
            else:
                rate_bps = bracket.next_rate_bps(trial, loss_ratio)

    def look_for_startup(self, rate_bps: float) -> None:
        """What is lost at the start of each trial (s), from a short and a long trial without congestion."""
        self.startup_s = 0.0
        # a stall may hit one of them; hardly both
        short = min((self.offer(rate_bps, "floor") for _ in range(2)), key=lambda trial: trial.loss_ratio)
        duration_s = LONG * self.goal.trial_duration_s
        if short.loss_ratio < 0.2 * self.goal.loss_ratio or duration_s > CRITERION_S:
            return
        longs: list[SearchTrial] = []
        while len(longs) < 2 and (not self.startup_s or self.loss(short) > self.goal.loss_ratio):
            longs.append(self.account.trial(short.asked_rate_bps, duration_s, "floor"))  # a stall may spoil the first
            self.startup_s = self.startup_between(short, min(longs, key=lambda trial: trial.loss_ratio))

    def startup_between(self, short: SearchTrial, long: SearchTrial) -> float:
        """What two trials at one rate without congestion say of the start-up (s); 0.0 where it may be chance."""
        less = short.loss_ratio - long.loss_ratio
        chance = math.sqrt(short.loss_ratio / short.sent)  # one deviation: to miss it is worse than to look in vain
        if less <= max(chance, 0.1 * self.goal.loss_ratio):
            return 0.0
        return less / (1 / short.duration_s - 1 / long.duration_s)

    def local(self, centre_bps: float, spread: float) -> list[SearchTrial]:
        """The trials near or below a rate: far above it, a device that slows down under overload misleads."""
        highest_bps = centre_bps * math.exp(max(REACH, spread))
        return [t for t in self.account.trials if centre_bps / 2 < t.offered_rate_bps < highest_bps]

    def believe(self, centre_bps: float, spread: float) -> None:
        """A new belief from the trials near ``centre_bps``."""
        trials = self.local(centre_bps, spread)
        self.beliefs += 1
        self.posterior = Posterior(
            self.goal.loss_ratio, centre_bps, self.goal.trial_duration_s, trials, self.startup_s or 0.0
        )
        self.estimate = self.posterior.estimate()

    def look(self) -> None:
        """Follow the belief where it has moved away from what it was made from."""
        while self.beliefs < MAX_BELIEFS:
            rate_bps = min(max(self.estimate.rate_bps, self.goal.min_rate_bps), self.goal.max_rate_bps)
            moved = abs(math.log(rate_bps / self.posterior.centre_bps)) > 2 * CAPACITY_DEVIATION
            spread = 3 * self.estimate.noise + math.log(self.estimate.high_bps / self.estimate.rate_bps)
            if not moved and len(self.local(rate_bps, spread)) >= len(self.posterior.trials):
                return
            self.believe(rate_bps, spread)

    def estimate_from(self, centre_bps: float) -> None:
        """Trials until the interval is narrow, the budget spent, or the limit of trials reached."""
        self.believe(centre_bps, 0.4)
        limit_s = MAX_TRIALS * (self.goal.trial_duration_s + self.account.overhead_s)
        for number in range(MAX_TRIALS + 1):
            self.exhausted = self.account.elapsed_s >= limit_s
            self.look()
            if self.estimate.no_throughput > 0.5 and self.long_trials > LONG_TRIALS:
                raise NoNumber("no_throughput")
            if self.exhausted or self.narrow():
                break
            try:
                if number > 4 and self.startup_matters():
                    self.compare_durations()
                else:
                    self.learn(self.estimating_trial(number))
            except BudgetSpent:
                break
        self.startup_s = self.estimate.startup_s
        self.refuse_what_was_not_offered()

    def narrow(self) -> bool:
        """Is the interval as narrow as asked, from enough trials to be believed?"""
        # fewer trials cannot know that there is little noise, nor that the device stays as it is
        wanted = max(3, min(40, int(LEAST_TRIALS * (0.01 / self.goal.relative_width) ** 2)))
        enough = len(self.posterior.trials) >= wanted and self.posterior.is_trustworthy
        return enough and self.estimate.relative_width <= self.goal.relative_width

    def learn(self, *trials: SearchTrial) -> None:
        """The belief and the estimate with these trials in."""
        for trial in trials:
            self.posterior.update(trial)
        self.estimate = self.posterior.estimate()

    def estimating_trial(self, number: int) -> SearchTrial:
        """The trial of this number: at the estimate or a little above it, and now and then a probe far above it."""
        otherwise = self.loses_otherwise()
        if number % (PROBE_SELDOM if otherwise else PROBE_EVERY) == 1 and not self.broke_down:
            trial = self.offer(PROBE * self.estimate.rate_bps, "probe")
            self.broke_down = trial.loss_ratio > BREAKDOWN
            return trial
        offset = 0.0 if otherwise else OFFSETS[number // PROBE_EVERY % len(OFFSETS)]
        over = math.exp(offset * max(LEAST_NOISE, self.estimate.noise))
        return self.offer(self.estimate.rate_bps * over, "estimate")

    def compare_durations(self) -> None:
        """A short and a long trial below the estimate: jitter loses nothing there, a start-up does."""
        self.long_trials += 1
        rate_bps = 0.85 * self.estimate.rate_bps
        short = self.offer(rate_bps, "floor")
        long = self.account.trial(rate_bps, min(CRITERION_S, LONG * self.goal.trial_duration_s), "floor")
        shorts = [t for t in self.posterior.trials if t.duration_s == short.duration_s]
        least = min([short, *shorts], key=lambda t: t.loss_ratio)  # each loses the start-up, few a stall
        guess_s = self.startup_between(least, long)
        self.compared |= guess_s > 0 or self.long_trials > 1
        if guess_s > 2 * self.estimate.startup_s:  # hardly among the hypotheses: new ones, around it
            self.startup_s = guess_s
            self.believe(self.estimate.rate_bps, 0.4)
        else:
            self.learn(short, long)

    def refuse_what_was_not_offered(self) -> None:
        """NoNumber for an estimate outside of the range of rates; BudgetSpent where time alone kept it from a trial."""
        trials, goal = self.account.trials, self.goal
        highest = max(trials, key=lambda trial: trial.offered_rate_bps)
        if self.estimate.rate_bps > highest.offered_rate_bps and not self.is_contradicted():
            if any(t.sender_short for t in trials) or highest.asked_rate_bps >= goal.max_rate_bps:
                raise NoNumber("generator_limited")
            raise BudgetSpent  # it could have offered more, had there been time
        if self.estimate.rate_bps < goal.min_rate_bps:
            raise NoNumber("no_throughput")

    def loses_otherwise(self) -> bool:
        """Does it lose something else than its excess: below its mean capacity by jitter, or more in a livelock?"""
        return self.estimate.jitter > JITTERS or self.estimate.livelock > LIVELOCKS

    def startup_matters(self) -> bool:
        """Does the answer depend on what only short trials lose? Trials of one duration alone cannot tell."""
        believed, width = self.estimate, self.goal.relative_width
        if self.long_trials >= LONG_TRIALS:  # one more where it decides whether there is a number at all
            return self.long_trials == LONG_TRIALS and believed.no_throughput > DOUBT
        if self.compared:  # another pair, where the start-up is a good part of what is not known
            width = max(width, believed.relative_width / 2)
        elif self.startup_s is None and believed.floor > LARGE_FLOOR * self.goal.loss_ratio:
            return True
        return believed.due_to_startup > 0.25 * width or believed.no_throughput > DOUBT

    def flags(self) -> frozenset[Flag]:
        """``unstable`` where one throughput does not describe the trials, or they never settled on one."""
        narrow = self.estimate.relative_width <= UNSETTLED * self.goal.relative_width and self.posterior.is_trustworthy
        settled = narrow or not self.exhausted
        moved = not settled or unstable(
            self.account.trials, self.goal.loss_ratio, self.estimate, self.account.overhead_s
        )
        return frozenset({"unstable"}) if moved else frozenset()

    def result(self, confirmed_rate_bps: float | None = None, *flags: Flag) -> SearchResult:
        """The estimate, its interval, and the flags."""
        interval_bps = (self.estimate.low_bps, self.estimate.high_bps)
        return self.account.result(
            self.estimate.rate_bps, interval_bps, confirmed_rate_bps, self.flags() | frozenset(flags)
        )

    def unconfirmed_result(self) -> SearchResult:
        """The highest rate that passed, where the trials are too few to estimate from; None where none did."""
        trials, ratio = self.account.trials, self.goal.loss_ratio
        passed_bps = max((t.offered_rate_bps for t in trials if self.loss(t) <= ratio), default=None)
        higher = [t.offered_rate_bps for t in trials if passed_bps and t.offered_rate_bps > passed_bps]
        interval_bps = (passed_bps, min(higher)) if passed_bps and higher else None
        return self.account.result(passed_bps if higher else None, interval_bps, flags=frozenset({"unconfirmed"}))

    def kept_ratio(self, rate_bps: float) -> float:
        """Truly offered per asked for, of the trials near a rate: what a sender falls short by is asked for on top."""
        kept = [t for t in self.account.trials if not t.sender_short]
        near = [t for t in kept if abs(math.log(t.offered_rate_bps / rate_bps)) < REACH]
        return statistics.median([t.offered_rate_bps / t.asked_rate_bps for t in near] or [1.0])

    def is_contradicted(self) -> bool:
        """Does the estimate lie above a rate that failed badly, and that nothing at or above it passed?"""
        failed = self.failed_badly()
        return bool(failed) and self.estimate.rate_bps >= min(t.offered_rate_bps for t in failed)

    def failed_badly(self) -> list[SearchTrial]:
        """The trials that lost much, above all that passed."""
        trials, ratio = self.account.trials, self.goal.loss_ratio
        passed_bps = max((t.offered_rate_bps for t in trials if self.loss(t) <= ratio), default=0.0)
        return [t for t in trials if self.loss(t) > NEAR and t.offered_rate_bps > passed_bps]

    def contradicted_again(self) -> bool:
        """Is the estimate still contradicted after the rate that says so was offered again? A stall passes then."""
        for _ in range(bisection.VISITS):
            if not self.is_contradicted():
                return False
            lowest = min(self.failed_badly(), key=lambda trial: trial.offered_rate_bps)
            try:
                self.learn(self.offer(lowest.asked_rate_bps, "estimate"))
            except BudgetSpent:
                break
        return self.is_contradicted()

    def confirm(self) -> SearchResult:
        """The thesis' verdict (§3.5.1) at the interval's lower end, stepping down where it fails."""
        assert self.goal.confirm is not None
        count, duration_s = self.goal.confirm
        rate_bps = max(self.goal.min_rate_bps, self.estimate.careful_bps)
        explained_ratio = self.goal.loss_ratio + 2 * self.goal.relative_width
        try:
            for _ in range(4):
                asked_bps = min(rate_bps / self.kept_ratio(rate_bps), self.goal.max_rate_bps)
                verdict = bisection.judge_again(self.account, self.goal, asked_bps, count, duration_s, explained_ratio)
                if verdict.mean_loss_ratio <= self.goal.loss_ratio and not verdict.sender_short:
                    return self.result(min(rate_bps, verdict.offered_rate_bps))
                rate_bps = max(self.goal.min_rate_bps, rate_bps * (1 - self.goal.relative_width))
        except BudgetSpent:
            pass
        return self.result(None, "unconfirmed")
