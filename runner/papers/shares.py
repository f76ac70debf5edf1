"""What a finding claims of a share of tries: always, never, more often than not; with the exact binomial interval."""

from __future__ import annotations

from collections.abc import Sequence

import scipy  # loads scipy.stats at its first use

from runner.data.trials import Trial
from runner.papers.claims import decide
from runner.papers.findings import Blocks, Ends, Judgement, NotMeasured

# Always, or never, as far as tries can show it; and more often than not.
ALWAYS, NEVER, MOSTLY = (0.99, 1.0), (0.0, 0.01), (0.5, 1.0)
MOST_TRIES = 2_000  # looked at for how many decide


def share_of(successes: int, tries: int, between: Ends) -> Judgement:
    """The claim that something happens in a share of the tries that lies ``between`` two bounds, by the exact interval
    of a binomial share (Clopper and Pearson 1934), which has a width however often all tries are alike. Raises
    NotMeasured without a try."""
    if not tries:
        raise NotMeasured("nothing was tried")
    exact = scipy.stats.binomtest(successes, tries).proportion_ci(method="exact")
    judged = decide(successes / tries, float(exact.low), float(exact.high), between)
    judged = judged.model_copy(update={"tried": (successes, tries)})
    reason = f"{successes} of {tries}: {judged.reason}"
    if judged.verdict == "undecided":
        return judged.model_copy(update={"reason": reason, "longer": _tries_that_decide(successes, tries, between)})
    lower, upper = between
    if judged.verdict == "reproduced":
        chances = [_as_many(successes, tries, lower)] * (lower > 0) + [_as_few(successes, tries, upper)] * (upper < 1)
        chance = max(chances, default=0.0)
    else:
        chance = _as_few(successes, tries, lower) if exact.high < lower else _as_many(successes, tries, upper)
    return judged.model_copy(update={"reason": reason, "chance": chance})


def _as_many(successes: int, tries: int, share: float) -> float:
    """The two-sided chance of so many successes or more, where the truth is ``share``."""
    return 2 * float(scipy.stats.binom.sf(successes - 1, tries, share))


def _as_few(successes: int, tries: int, share: float) -> float:
    """The two-sided chance of so few successes or fewer, where the truth is ``share``."""
    return 2 * float(scipy.stats.binom.cdf(successes, tries, share))


def _tries_that_decide(successes: int, tries: int, between: Ends) -> float | None:
    """How many times as many tries would decide, if their share stayed; None where that is more than MOST_TRIES."""
    for times in range(2, MOST_TRIES // tries + 1):
        exact = scipy.stats.binomtest(successes * times, tries * times).proportion_ci(method="exact")
        within = between[0] <= exact.low and exact.high <= between[1]
        if within or exact.high < between[0] or exact.low > between[1]:
            return float(times)
    return None


def recovery_counts(trials: Sequence[Trial], metric: str) -> tuple[int, int]:
    """After how many of the failures of these trials ``metric`` came to its end, and how many failures there were."""
    details = [
        measurement.detail
        for trial in trials
        for measurement in trial.measurements
        if trial.status == "ok"
        and measurement.metric == metric
        and measurement.detail.keys() >= {"failures", "unrecovered"}
    ]
    failures = sum(int(detail["failures"]) for detail in details)
    return failures - sum(int(detail["unrecovered"]) for detail in details), failures


def tries(blocks: Blocks) -> tuple[int, int]:
    """How many of the tries of a yes (1) or no (0) were a yes, and how many there were."""
    return sum(value > 1 / 2 for value in blocks.values()), len(blocks)
