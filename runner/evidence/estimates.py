"""What a ratio of two VPNs is estimated from, and how sure it is: rounds, repetitions, or a search's posterior.

A *round* is a slice of every cell, in random order, within seconds: what moves the machine moves all of a round, so
that the log ratio within a round is free of it. Slices have heavy tails (another guest takes the core for half of one),
rounds are not independent of their neighbours, and the tunnels of one VPN, brought up anew, may differ. So of the log
ratios of a pair, round by round:

- the centre is the mean without the lowest and the highest tenth (Tukey and McLaughlin 1963, Yuen 1974), and its
  variance the winsorised one: a stolen slice is outvoted, not looked for and dropped;
- the variance grows by the autocorrelation of the rounds within an instance, pooled over all pairs of the metric,
  summed up to the first lag at which it is not positive (the initial positive sequence of Geyer 1992);
- the variance is drawn towards that of all pairs of the metric, as far as they are alike (an empirical Bayes estimate,
  Smyth 2004), and so has more degrees of freedom, at most twice as many: few rounds do not know their own spread, and
  at the level that many pairs leave for one, Student's t asks for a fifth more with 12 degrees of freedom than with 24;
- the variance between instances comes on top: what the instances' means differ by beyond their own errors, pooled over
  all pairs of the metric, where those that scatter less tell more, and shrunken towards what was measured elsewhere
  (INSTANCE_PRIOR), because a run has two or three instances of each tunnel, and an estimate from so few is zero half of
  the time.

The slices of a search are no independent readings: each rate is offered where the trials before it say, and a trial
that passes is read by them. So the error that the search itself finds, by leaving out one trial after another, comes on
top (decision 0104).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy

from runner.data.numbers import SAME
from runner.evidence.intervals import CONFIDENCE, Array, standard_errors
from runner.evidence.model import Blocks, Components
from runner.evidence.ties import settle_ties

Numbers = np.ndarray[Any, np.dtype[np.integer[Any]]]
TRIMMED = 0.1  # of the rounds, on each side
# The deviation between instances of one VPN's tunnel, of 1, and the degrees of freedom that it counts for: in six labs
# at once it was 0, 0, 1.5 and 2.3 % (decision 0032).
INSTANCE_PRIOR, PRIOR_FREEDOM = 0.015, 2
WINSORISED = 0.6787  # of its variance a normal distribution keeps, both tenths pulled in
FEWEST_ALIKE = 4  # VPNs, from which on pairs tell how alike their variances are
EQUAL = 1e-12  # a standard error below it is that of equal values


class RoundValues(dict[int, float]):
    """Round -> value, of cells that took turns. ``instances``: round -> the number of the VPN's tunnel that it was
    measured in. On a farm it is the number of the machine, because tunnels of one machine are not independent of each
    other; ``machines`` has their names. ``search_error``: the standard error of the logarithm that a search finds by
    all of its trials, of which these are the readings."""

    def __init__(
        self, values: Blocks, instances: Mapping[int, int], machines: Sequence[str] = (), search_error: float = 0.0
    ) -> None:
        super().__init__(values)
        self.instances, self.machines, self.search_error = dict(instances), tuple(machines), search_error


class Pooled(dict[int, float]):
    """The last repetition and its value, which stands for all repetitions so far, because the search went on from one
    to the next. ``error``: the standard error of the value's logarithm, from the search's own 95 % interval."""

    def __init__(self, values: Blocks, error: float) -> None:
        super().__init__(values)
        self.error = error


class Estimate(NamedTuple):
    """A log ratio, or one VPN's mean logarithm: centre, standard error, and the error's degrees of freedom. ``blocks``:
    how many rounds or repetitions it is made from."""

    centre: float
    error: float
    freedom: float
    blocks: int

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The confidence interval of the logarithm, by Student's t."""
        half = float(scipy.special.stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        return self.centre - half, self.centre + half


@dataclass(frozen=True)
class _Series:
    """The log ratios of one pair, or the logarithms of one VPN, in the order of the rounds. ``sizes``: of each instance
    the number of its rounds; ``means``: of each instance the winsorised mean; ``wins``: the winsorised logarithms;
    ``machines``: are the instances machines?"""

    centre: float
    variance: float  # of the centre, were the rounds independent
    freedom: float
    wins: Array
    instances: Numbers
    means: Array
    sizes: Array
    machines: bool = False

    @property
    def blocks(self) -> int:
        return len(self.wins)


def estimate_pairs(values: Mapping[str, Blocks]) -> dict[tuple[str, str], Estimate]:
    """(a, b) -> the log ratio of a over b, of every pair that has one; ``values``: VPN -> its values of one metric.
    Pairs of rounds are estimated together: they share the autocorrelation and the variance between instances. All
    others are estimated one by one.

    A pair has no estimate without two shared blocks, or where a value is not positive. A search's posterior shares no
    blocks: the ratio is that of two independent log-normals.
    """
    pairs = list(combinations(values, 2))
    series = {pair: _paired_series(values[pair[0]], values[pair[1]]) for pair in pairs}
    turns = {pair: paired for pair, paired in series.items() if paired is not None}
    vpns = len({vpn for pair in turns for vpn in pair})
    rounds = {
        (a, b): _with_search(estimate, values[a], values[b])
        for (a, b), estimate in zip(turns, _with_all(list(turns.values()), vpns), strict=True)
    }
    estimates = {}
    for a, b in pairs:
        estimate = rounds.get((a, b)) or _without_rounds(values[a], values[b])
        if estimate is not None:
            estimates[a, b] = estimate
    return estimates


def estimate_pair(a: Blocks, b: Blocks) -> Estimate | None:
    """The log ratio of ``a`` over ``b``, estimated without other pairs; see estimate_pairs."""
    return estimate_pairs({"a": a, "b": b}).get(("a", "b"))


def alone(blocks: Blocks) -> Estimate | None:
    """The mean logarithm of one VPN's values, without a pair. None for fewer than two values, or where one is not
    positive."""
    if isinstance(blocks, Pooled):
        ((value),) = blocks.values()
        return Estimate(math.log(value), blocks.error, math.inf, 1) if value > 0 else None
    if len(blocks) < 2 or min(blocks.values()) <= 0:
        return None
    logs = np.log(settle_ties(list(blocks.values())))
    if isinstance(blocks, RoundValues):
        instances = np.array([blocks.instances[block] for block in blocks])
        return _with_search(_with_all([_series(logs, instances, machines=bool(blocks.machines))], 1)[0], blocks)
    return Estimate(float(logs.mean()), float(standard_errors(logs)), len(logs) - 1, len(logs))


def independent(a: Estimate, b: Estimate) -> Estimate:
    """The difference of two independent estimates, with Welch's degrees of freedom."""
    variances = a.error**2, b.error**2
    total = sum(variances)
    parts = sum(v * v / estimate.freedom for v, estimate in zip(variances, (a, b), strict=True))
    freedom = total * total / parts if parts > 0 else math.inf
    return Estimate(a.centre - b.centre, math.sqrt(total), freedom, min(a.blocks, b.blocks))


def components(values: Mapping[str, Blocks]) -> Components | None:
    """The standard deviations that the rounds of one metric consist of. None where fewer than two VPNs share four
    rounds."""
    own = {
        vpn: blocks for vpn, blocks in values.items() if isinstance(blocks, RoundValues) and min(blocks.values()) > 0
    }
    shared = sorted(set.intersection(*(set(blocks) for blocks in own.values()))) if own else []
    if len(own) < 2 or len(shared) < 4:
        return None
    logs = np.log([[blocks[block] for block in shared] for blocks in own.values()])
    first = next(iter(own.values()))
    instances = np.array([first.instances[block] for block in shared])
    logs = logs - logs.mean(axis=1, keepdims=True)
    cut = int(TRIMMED * len(shared))
    ordered = np.sort(logs, axis=1)
    logs = np.clip(logs, ordered[:, [cut]], ordered[:, [-1 - cut]])
    together = logs.mean(axis=0)
    rest = logs - together
    for instance in np.unique(instances):
        rest[:, instances == instance] -= rest[:, instances == instance].mean(axis=1, keepdims=True)
    groups = len(np.unique(instances))
    freedom = (len(own) - 1) * (len(shared) - groups)
    of_slice = float((rest**2).sum() / freedom) / WINSORISED if freedom > 0 else 0.0
    of_round = max(0.0, float(together.var(ddof=1)) / WINSORISED - of_slice / len(own))
    series = [
        pair_series for a, b in combinations(own, 2) if (pair_series := _paired_series(own[a], own[b])) is not None
    ]
    growth = _growth(series)
    between = _variance_between(series, growth)
    if between and series[0].machines:  # as in _with_all, each pair has its own; this is their mean
        between = (
            float(np.mean([(_variance_between([pair_series], growth) or between)[0] for pair_series in series])),
            1.0,
        )
    return Components(
        slice=math.sqrt(of_slice),
        round=math.sqrt(of_round),
        instance=None if between is None else math.sqrt(max(0.0, between[0]) / 2),
        autocorrelation=growth,
    )


def _paired_series(a: Blocks, b: Blocks) -> _Series | None:
    """The log ratios of two VPNs that took turns. None for fewer than two shared rounds, or where a value is not
    positive."""
    if not isinstance(a, RoundValues) or not isinstance(b, RoundValues):
        return None
    shared = sorted(a.keys() & b.keys())
    if len(shared) < 2 or min(min(a[block], b[block]) for block in shared) <= 0:
        return None
    logs = np.log(settle_ties([a[block] / b[block] for block in shared]))
    return _series(logs, np.array([a.instances[block] for block in shared]), machines=bool(a.machines))


def _without_rounds(a: Blocks, b: Blocks) -> Estimate | None:
    """The log ratio of two VPNs that took no turns: paired by repetition, or of two independent numbers where one is a
    search's result."""
    if isinstance(a, Pooled) or isinstance(b, Pooled):
        first, second = alone(a), alone(b)
        return independent(first, second) if first and second else None
    shared = sorted(a.keys() & b.keys())
    if len(shared) < 2 or min(min(a[block], b[block]) for block in shared) <= 0:
        return None
    logs = np.log(settle_ties([a[block] / b[block] for block in shared]))
    return Estimate(float(logs.mean()), float(standard_errors(logs)), len(logs) - 1, len(logs))


def _with_search(estimate: Estimate, *searched: Blocks) -> Estimate:
    """The estimate, with the errors that the searches find whose readings it is made from. On a farm each machine has a
    search of its own, and their spread says all."""
    own = [blocks.search_error for blocks in searched if isinstance(blocks, RoundValues) and not blocks.machines]
    return estimate._replace(error=math.hypot(estimate.error, *own))


def _series(logs: Array, instances: Numbers, *, machines: bool = False) -> _Series:
    n = len(logs)
    cut = int(TRIMMED * n)
    ordered = np.sort(logs)
    wins = np.clip(logs, ordered[cut], ordered[n - 1 - cut])
    kept = n - 2 * cut
    names, at, sizes = np.unique(instances, return_inverse=True, return_counts=True)
    return _Series(
        centre=float(ordered[cut : n - cut].mean()),
        variance=float(wins.var(ddof=1)) * n / kept**2,
        freedom=kept - 1,
        wins=wins,
        instances=at,
        means=np.array([_trimmed_mean(logs[at == instance]) for instance in range(len(names))]),
        sizes=sizes.astype(float),
        machines=machines,
    )


def _trimmed_mean(logs: Array) -> float:
    """The mean of one instance without a tenth on each side, at least one value on each where there are three."""
    cut = min(math.ceil(TRIMMED * len(logs)), (len(logs) - 1) // 2)
    return float(np.sort(logs)[cut : len(logs) - cut].mean())


def _with_all(series: Sequence[_Series], vpns: int) -> list[Estimate]:
    """The estimates of all series, with autocorrelation and the variance between instances pooled over them; ``vpns``:
    the number of VPNs in them."""
    if not series:
        return []
    growth = _growth(series)
    between, telling = _variance_between(series, growth) or (0.0, 0.0)
    alike = (
        _moderated_variances(series, vpns)
        if vpns >= FEWEST_ALIKE
        else [(pair.variance, pair.freedom) for pair in series]
    )
    instances = max(len(pair.sizes) for pair in series)
    freedom = telling * max(1, vpns - 1) * (instances - 1)
    prior = (2 if vpns > 1 else 1) * INSTANCE_PRIOR**2  # a ratio has the instances of both
    known = PRIOR_FREEDOM + freedom
    spread = (PRIOR_FREEDOM * prior + freedom * max(0.0, between)) / known
    estimates = []
    for pair, (variance, own_freedom) in zip(series, alike, strict=True):
        if pair.variance < EQUAL**2:  # equal values: nothing varies
            estimates.append(Estimate(pair.centre, 0.0, pair.freedom, pair.blocks))
            continue
        if pair.machines and len(pair.sizes) > 1:
            estimates.append(_across_machines(pair))
            continue
        rounds = variance * growth
        # Where each round has a tunnel of its own, their spread is in the rounds' own.
        own = spread * float(((pair.sizes / pair.blocks) ** 2).sum()) if pair.sizes.max() > 1 else 0.0
        total = rounds + own
        parts = rounds**2 / own_freedom + own**2 / known
        estimates.append(Estimate(pair.centre, math.sqrt(total), total**2 / parts, pair.blocks))
    return estimates


def _across_machines(pair: _Series) -> Estimate:
    """The estimate of a farm, whose data are the means of the machines. One machine may suit a VPN worse than the
    others do, by much more than the instances of a tunnel differ. So neither other pairs nor other runs tell how
    much."""
    error = math.sqrt(float(pair.means.var(ddof=1)) * float(((pair.sizes / pair.blocks) ** 2).sum()))
    return Estimate(pair.centre, error, len(pair.sizes) - 1, pair.blocks)


def _moderated_variances(series: Sequence[_Series], vpns: int) -> list[tuple[float, float]]:
    """The variance and the degrees of freedom of each series, shrunken towards a variance common to all: Smyth, Stat.
    Appl. Genet. Mol. Biol. 3(1), 2004, §6.2. The correlation of pairs that share a VPN is not taken for similarity."""
    varying = [pair for pair in series if pair.variance >= EQUAL**2]
    if len(varying) < 2:
        return [(pair.variance, pair.freedom) for pair in series]
    half = np.array([pair.freedom for pair in varying]) / 2
    logs = np.log([pair.variance * pair.blocks for pair in varying]) - scipy.special.digamma(half) + np.log(half)
    shared = 0.25 * 2 * (vpns - 2) / max(1, vpns * (vpns - 1) / 2 - 1)  # mean correlation of two pairs' squares
    beyond = float(logs.var(ddof=1) / (1 - shared) - scipy.special.polygamma(1, half).mean())
    common = _inverse_trigamma(beyond) if beyond > 0 else math.inf
    moderated = []
    for pair in series:
        prior = min(2 * common, pair.freedom)  # no more than the series' own
        level = float(scipy.special.digamma(common) - math.log(common)) if math.isfinite(common) else 0.0
        typical = math.exp(float(logs.mean()) + level) / pair.blocks
        freedom = pair.freedom + prior
        moderated.append(((prior * typical + pair.freedom * pair.variance) / freedom, freedom))
    return moderated


def _inverse_trigamma(value: float) -> float:
    """The x of which trigamma is ``value``."""
    return float(scipy.optimize.brentq(lambda x: scipy.special.polygamma(1, x) - value, 1e-3, 1e6))


def _growth(series: Sequence[_Series]) -> float:
    """The factor, at least 1, by which the autocorrelation of rounds multiplies a variance, pooled over the series."""
    most = max(1, round(max(pair.blocks for pair in series) ** (1 / 3)))
    sums, weights = np.zeros(most), np.zeros(most)
    for pair in series:
        own = np.bincount(pair.instances, weights=pair.wins) / pair.sizes
        rest = pair.wins - own[pair.instances]
        power = float((rest**2).mean())
        if power < EQUAL**2:
            continue
        for lag in range(1, min(most, pair.blocks - 2) + 1):
            together = pair.instances[lag:] == pair.instances[:-lag]
            if pairs := int(together.sum()):
                # Each instance's mean is taken off, which takes its share off every autocorrelation.
                correlation = (
                    float((rest[lag:] * rest[:-lag])[together].sum()) / pairs / power + len(pair.sizes) / pair.blocks
                )
                sums[lag - 1] += correlation * pairs
                weights[lag - 1] += pairs
    total = 0.0
    for lag_sum, weight in zip(sums, weights, strict=True):
        if weight == 0 or lag_sum <= SAME * weight:
            break
        total += lag_sum / weight
    return 1 + 2 * total


def _variance_between(series: Sequence[_Series], growth: float) -> tuple[float, float] | None:
    """The variance between instances: what their means differ by, minus the error that they have anyway, pooled over
    the series; and the effective share of the series. The variance may be negative. None where no series has two
    instances of two rounds."""
    beyond, weights = [], []
    for pair in series:
        if len(pair.sizes) > 1 and pair.sizes.max() > 1:
            error = max(EQUAL**2, pair.variance * growth * float((pair.blocks / pair.sizes).mean()))
            beyond.append(float(pair.means.var(ddof=1)) - error)
            weights.append(error**-2)  # a pair that scatters more knows less of it, by the square
    if not beyond:
        return None
    return float(np.average(beyond, weights=weights)), sum(weights) ** 2 / sum(w * w for w in weights) / len(weights)


def machines_of(by_vpn: Mapping[str, Blocks]) -> list[str]:
    """The machines on which these values of one metric were measured; empty where there is only one."""
    return sorted({name for blocks in by_vpn.values() if isinstance(blocks, RoundValues) for name in blocks.machines})
