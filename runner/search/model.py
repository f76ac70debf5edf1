"""What goes into a search and what comes out of it; the account of trials that every engine keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from runner.data.errors import MeasurementError

Flag = Literal["generator_limited", "no_throughput", "unconfirmed", "unstable"]
Engine = Literal["bayes", "binary", "scan", "rfc2544", "rounds"]
Purpose = Literal["seed", "floor", "estimate", "probe", "confirm"]

# which of the arguments that not all need each engine takes
TAKES: Mapping[str, frozenset[str]] = {
    "bayes": frozenset({"relative_width", "trial_duration_s", "first_rate_bps", "confirm"}),
    "binary": frozenset({"relative_width", "first_rate_bps", "confirm"}),
    "scan": frozenset({"first_rate_bps", "confirm"}),
    "rfc2544": frozenset({"relative_width", "first_rate_bps"}),
    "rounds": frozenset({"relative_width", "trial_duration_s", "first_rate_bps"}),
}

SHORTFALL = 0.05  # a sender further than this below the asked rate did not offer that rate


class Loss(NamedTuple):
    """The counts of one trial. ``sent`` and ``received`` share any one unit (packets, bytes, bits).

    ``offered_rate_bps`` is the rate that the generator achieved (bit/s; RFC 2285 §3.5.2, offered load); None means that
    it kept the rate it was asked for. ``sustained_bps``: as in SearchTrial.
    """

    sent: float
    received: float
    offered_rate_bps: float | None = None
    sustained_bps: float | None = None


@dataclass(frozen=True)
class SearchTrial:
    """One trial: what was asked for (bit/s, s), what was achieved, and the counts."""

    asked_rate_bps: float
    offered_rate_bps: float
    duration_s: float
    sent: float
    received: float
    purpose: Purpose
    sustained_bps: float | None = None  # what came when a burst had passed, where a trial shows one

    @property
    def loss_ratio(self) -> float:
        """Share of the offered load that was not forwarded (RFC 1242 §3.6), 0 to 1; duplicates count once."""
        return max(0.0, 1 - self.received / self.sent)

    @property
    def forwarded_rate_bps(self) -> float:
        """Forwarding rate (RFC 2285 §3.6.1), bit/s."""
        return self.offered_rate_bps * (1 - self.loss_ratio)

    @property
    def sender_short(self) -> bool:
        """Did the generator fall more than 5 % short of the rate it was asked for?"""
        return self.offered_rate_bps < (1 - SHORTFALL) * self.asked_rate_bps


@dataclass(frozen=True)
class SearchResult:
    """The outcome. Every rate is an offered rate in bit/s.

    ``rate_bps``: the rate at which the mean loss reaches the loss ratio, None where there is none to give.
    ``interval_bps``: its 95 % credible interval (``bayes``), or the last pass and the first fail (the others,
    which promise nothing about probability).
    ``confirmed_rate_bps``: the rate whose mean loss over the confirming trials stayed within the ratio.
    ``elapsed_s``: durations of all trials plus the overhead of each, accounted and not clocked.
    """

    rate_bps: float | None
    interval_bps: tuple[float, float] | None
    confirmed_rate_bps: float | None
    trials: tuple[SearchTrial, ...]
    elapsed_s: float
    flags: frozenset[Flag]


@dataclass(frozen=True)
class Goal:
    """What is searched for; the arguments of ``find_throughput``, already checked."""

    loss_ratio: float
    min_rate_bps: float
    max_rate_bps: float
    relative_width: float
    trial_duration_s: float
    confirm: tuple[int, float] | None
    first_rate_bps: float | None


Measure = Callable[[float, float], Loss]


class BudgetSpent(Exception):
    """The next trial would end after the budget. Engines catch it and report what they have."""


class NoNumber(Exception):
    """The search ended without a number; the flag says why."""

    def __init__(self, flag: Flag) -> None:
        self.flag: Flag = flag


@dataclass
class Account:
    """Runs the trials of one search: checks what ``measure`` returns, keeps every trial, adds up the time."""

    measure: Measure
    overhead_s: float = 0.0
    budget_s: float | None = None
    trials: list[SearchTrial] = field(default_factory=list)
    elapsed_s: float = 0.0

    def trial(self, rate_bps: float, duration_s: float, purpose: Purpose) -> SearchTrial:
        """Offer ``rate_bps`` for ``duration_s``. Raises BudgetSpent before a trial that would exceed the budget."""
        cost_s = duration_s + self.overhead_s
        if self.budget_s is not None and self.elapsed_s + cost_s > self.budget_s + 1e-9:
            raise BudgetSpent
        where = f"the trial at {rate_bps / 1e6:.6g} Mbit/s for {duration_s:g} s"
        try:
            loss = self.measure(rate_bps, duration_s)
        except TimeoutError as error:
            raise MeasurementError(f"{where} did not end: {error}") from error
        offered_bps = rate_bps if loss.offered_rate_bps is None else loss.offered_rate_bps
        if not all(map(math.isfinite, (loss.sent, loss.received, offered_bps))):
            raise MeasurementError(f"{where} returned counts that are not numbers: {loss}")
        if loss.sent <= 0 or offered_bps <= 0:
            raise MeasurementError(f"{where} sent nothing, so the generator does not work")
        if loss.received < 0:
            raise MeasurementError(f"{where} returned a negative count: {loss}")
        self.elapsed_s += cost_s
        trial = SearchTrial(rate_bps, offered_bps, duration_s, loss.sent, loss.received, purpose, loss.sustained_bps)
        self.trials.append(trial)
        return trial

    def result(
        self,
        rate_bps: float | None,
        interval_bps: tuple[float, float] | None = None,
        confirmed_rate_bps: float | None = None,
        flags: frozenset[Flag] = frozenset(),
    ) -> SearchResult:
        """The result of this search with all its trials."""
        return SearchResult(rate_bps, interval_bps, confirmed_rate_bps, tuple(self.trials), self.elapsed_s, flags)
