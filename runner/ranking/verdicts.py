"""Better, worse, the same, or undecided: what a run can say of each pair of VPNs in each metric that counts.

Of a pair, two hypotheses are tested: that there is no difference (rejected: better or worse), and that there is one of
the metric's margin or more (rejected by two one-sided tests: the same, Schuirmann 1987, even where the interval
excludes 1). One of them at most is true. So of the pairs that a run has, as many hypotheses can be true at once, and
Bonferroni's level for the number of pairs, not twice that, holds for all verdicts together. A pair of which both are
rejected can hold no true one any more, and leaves the others more (Shaffer, JASA 81, 1986). Holm's step beyond that, on
the smaller of a pair's two probabilities, would not hold here: what is found to be the same may still be exactly equal,
and its true hypothesis has not gone away (decision 0032).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

import scipy

from runner.data.metric import Metric
from runner.data.numbers import exp, lead
from runner.data.trials import MOST_LOOKS
from runner.evidence.estimates import EQUAL, Estimate
from runner.evidence.longer import times_until_decided
from runner.evidence.stats import lead_of_differences
from runner.ranking.basis import Basis
from runner.ranking.looks import nominal
from runner.ranking.model import LEVEL, NO_INTERVAL, Decision, Verdict
from runner.ranking.weights import COST_AT_FULL_SPEED

FROM_BELOW = "only a lower bound is known"
COST_RATES = ("paced_bps", "cost_rate_bps")  # factors; the second of older runs


@dataclass(frozen=True)
class Tested:
    """A pair, its estimate, and two p-values: of no difference (``differ``), and of a difference as large as the margin
    (``alike``)."""

    metric: Metric
    a: str
    b: str
    estimate: Estimate
    differ: float
    alike: float


def probabilities(metric: Metric, a: str, b: str, estimate: Estimate) -> Tested:
    """Test a pair for a difference, and for being the same within the margin."""
    error = max(estimate.error, EQUAL)
    away = abs(estimate.centre)
    return Tested(
        metric,
        a,
        b,
        estimate,
        differ=2 * float(scipy.special.stdtr(estimate.freedom, -away / error)),
        alike=float(scipy.special.stdtr(estimate.freedom, -(math.log(metric.margin) - away) / error)),
    )


def level_of(tested: Sequence[Tested], looks: int, share: float = 1.0) -> float:
    """The level at which each of these pairs is tested, so that the probability of one false verdict or more is
    LEVEL."""
    if not tested:
        return LEVEL
    remaining = len(tested)
    while remaining:
        level = nominal(LEVEL / remaining, looks, share)
        settled = sum(pair.differ <= level and pair.alike <= level for pair in tested)
        if len(tested) - settled == remaining:
            return level
        remaining = len(tested) - settled
    return nominal(LEVEL, looks, share)


def verdicts(bases: Sequence[Basis], counted: Sequence[Set[str]], looks: int = 1, share: float = 1.0) -> list[Verdict]:
    """The verdict on each pair of VPNs in each metric that counts; ``counted``: for each basis the metrics that count.
    ``looks``: how often the run is looked at, ``share``: the share of its time that is over at this look.

    Pairs that two configurations share, with the same tunnels and the same traffic, are tested once.
    """
    tested: dict[tuple[object, ...], Tested] = {}
    asked: list[tuple[tuple[Basis, str, str, str], tuple[object, ...]]] = []
    for basis, metrics in zip(bases, counted, strict=True):
        for metric in basis.values:
            if metric not in metrics:
                continue
            key = _keys(basis, metric)
            asked += [((basis, metric, a, b), key(a, b)) for a, b in combinations(basis.values[metric], 2)]
            if not basis.metrics[metric].exact:
                for (a, b), estimate in basis.pairs(metric).items():
                    tested[key(a, b)] = probabilities(basis.metrics[metric], a, b, estimate)
    # A run whose time is over is looked at again if it goes on, which costs every pair some of its level.
    later = looks if share < 1 else looks + MOST_LOOKS - 1
    levels = [level_of([*tested.values()], looks, share), level_of([*tested.values()], later)]
    return [_verdict(*comparison, tested.get(key), *levels) for comparison, key in asked]


def _keys(basis: Basis, metric: str) -> Callable[[str, str], tuple[object, ...]]:
    """The key of a pair's measurements: equal for pairs, of two configurations, that are the same measurements."""
    traffic = tuple(sorted(basis.traffic[metric].items()))
    levels = {vpn: tuple(sorted(own.items())) for vpn, own in basis.levels.items()}
    return lambda a, b: (basis.image, metric, a, b, levels[a], levels[b], traffic)


def _verdict(
    basis: Basis, metric: str, a: str, b: str, tested: Tested | None, level: float, last_level: float
) -> Verdict:
    known = basis.metrics[metric]
    made = Verdict(
        configuration=basis.configuration,
        image=basis.image,
        metric=metric,
        a=a,
        b=b,
        decision="undecided",
        margin=known.margin,
        level=level,
        reason=NO_INTERVAL,
        a_bps=_cost_bps(basis, metric, a),
        b_bps=_cost_bps(basis, metric, b),
    )
    if tested is None:
        return _by_differences(basis, made, known)
    low, high = tested.estimate.interval()
    bounded = {vpn for vpn in (a, b) if basis.bounds[metric].get(vpn)}
    decision = bounded_decision(decide(tested, level), a, b, bounded, known)
    blocked = decision == "undecided" and bool(bounded)
    decisive_low, decisive_high = tested.estimate.interval(1 - level * (2 if decision == "same" else 1))
    return made.model_copy(
        update={
            "decision": decision,
            "ratio": exp(tested.estimate.centre),
            "low": exp(low),
            "high": exp(high),
            "decisive_low": exp(decisive_low),
            "decisive_high": exp(decisive_high),
            "blocks": tested.estimate.blocks,
            "seconds": None
            if decision != "undecided" or blocked
            else seconds_to_decide(tested, last_level, basis.seconds[metric][a] + basis.seconds[metric][b]),
            "reason": f"{' and '.join(sorted(bounded))}: {FROM_BELOW}" if blocked else "",
        }
    )


def decide(tested: Tested, level: float) -> Decision:
    """The decision on ``a`` against ``b`` at this level. A difference that lies within the margin is "same", even if it
    is significant."""
    if tested.alike <= level:
        return "same"
    if tested.differ > level:
        return "undecided"
    more = tested.estimate.centre > 0
    return "better" if more == (tested.metric.better == "higher") else "worse"


def bounded_decision(decision: Decision, a: str, b: str, bounded: Set[str], metric: Metric) -> Decision:
    """The decision on a pair of which ``bounded`` values are lower bounds. A lower bound can only prove "larger"; any
    other decision becomes undecided."""
    if not bounded or decision == "undecided":
        return decision
    if decision == "same":
        return "undecided"
    more = a if (decision == "better") == (metric.better == "higher") else b
    return decision if bounded == {more} else "undecided"


def seconds_to_decide(tested: Tested, level: float, seconds: float) -> float | None:
    """How many seconds longer both VPNs would have to be measured until one of the tests decides, assuming that the
    ratio stays and that its error falls with the root of the time; ``seconds``: how long both have been measured so
    far."""
    estimate = tested.estimate
    if seconds <= 0 or not estimate.blocks:
        return None
    away, margin = abs(estimate.centre), math.log(tested.metric.margin)

    def reach_at(times: float) -> float:
        freedom = estimate.freedom + estimate.blocks * (times - 1)
        differ = away / -float(scipy.special.stdtrit(freedom, level / 2))
        alike = (margin - away) / -float(scipy.special.stdtrit(freedom, level))
        return float((estimate.error / max(differ, alike)) ** 2)

    return seconds * max(times_until_decided(reach_at) - 1, 1 / estimate.blocks)


def _by_differences(basis: Basis, made: Verdict, metric: Metric) -> Verdict:
    """The verdict on a pair without an estimate. A count or a verdict of an exact metric is known, however few there
    are; otherwise the differences decide, if they are significant."""
    a, b = basis.values[metric.name][made.a], basis.values[metric.name][made.b]
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return made
    ahead = lead_of_differences(a, b)
    if metric.exact and not ahead:
        leads = {lead(a[block], b[block]) for block in shared}
        if len(leads) > 1:
            return made.model_copy(update={"blocks": len(shared), "reason": "the repetitions disagree"})
        (ahead,) = leads
        decision: Decision = "same" if not ahead else _direction(ahead, metric)
    else:
        decision = _direction(ahead, metric) if ahead and metric.exact else "undecided"
    bounded = {vpn for vpn in (made.a, made.b) if basis.bounds[metric.name].get(vpn)}
    decision = bounded_decision(decision, made.a, made.b, bounded, metric)
    reason = "" if decision != "undecided" else "a value is not positive, so that there is no ratio"
    ratio = None
    if min(*a.values(), *b.values()) > 0:
        ratio = exp(sum(math.log(a[block] / b[block]) for block in shared) / len(shared))
        reason = NO_INTERVAL if decision == "undecided" else ""
    return made.model_copy(update={"decision": decision, "blocks": len(shared), "ratio": ratio, "reason": reason})


def _direction(ahead: int, metric: Metric) -> Decision:
    return "better" if (ahead > 0) == (metric.better == "higher") else "worse"


def _cost_bps(basis: Basis, metric: str, vpn: str) -> float | None:
    """The rate at which this cost of a byte was measured: what the VPN carried at full speed, or what was asked for."""
    if metric == COST_AT_FULL_SPEED:
        carried = basis.values.get("tcp_throughput", {}).get(vpn)
        return statistics.median(carried.values()) if carried else None
    levels = basis.traffic.get(metric, {})
    return next((float(levels[factor]) for factor in COST_RATES if factor in levels), None)


def counts(given: Sequence[Verdict]) -> Mapping[Decision, int]:
    """How many pairs have each decision."""
    decisions = [verdict.decision for verdict in given]
    every: tuple[Decision, ...] = ("better", "worse", "same", "undecided")
    return {decision: decisions.count(decision) for decision in every}
