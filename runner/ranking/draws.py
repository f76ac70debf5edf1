"""How sure an order is: the ranking made anew for many draws of what each VPN's true means may be.

The ranks of a metric are drawn once, whatever the weights; an order is their weighted average. The page of a report
holds the same ranks and averages them again in JavaScript (runner/report/forms/page.js), so what is here is arithmetic
that comes out the same there to the last bit: additions in the order of the weights, and counts of draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy

from runner.data.metric import Metric
from runner.data.numbers import SAME, same
from runner.evidence.estimates import EQUAL, Estimate, Pooled, RoundValues, alone, estimate_pairs, independent
from runner.evidence.intervals import Array
from runner.evidence.model import Blocks
from runner.evidence.ties import ranks

DRAWS = 20_000
CONFIDENCE = 0.95
BEHIND = 1e6  # beyond any logarithm of a ratio
TAIL = DRAWS // 40  # draws outside a place's interval, on each side: 2.5 %
NORMAL = 1000  # degrees of freedom from which Student's t is a normal distribution
Ranks = np.ndarray[tuple[int, int], np.dtype[np.uint16]]


@dataclass(frozen=True)
class DrawnRanks:
    """The ranks of ``vpns`` in one metric in every draw, doubled so that the rank of a tie is whole: ``doubled`` has
    the shape (DRAWS, len(vpns))."""

    vpns: tuple[str, ...]
    doubled: Ranks

    def mean_ranks(self) -> dict[str, float]:
        """VPN -> the mean of its ranks."""
        sums = self.doubled.sum(axis=0, dtype=np.int64)
        return {vpn: int(total) / (2 * DRAWS) for vpn, total in zip(self.vpns, sums, strict=True)}


@dataclass(frozen=True)
class Order:
    """The weighted average ranks of ``vpns`` in every draw: ``averages`` has the shape (DRAWS, len(vpns))."""

    vpns: tuple[str, ...]
    averages: Array

    @cached_property
    def _columns(self) -> dict[str, Array]:
        """VPN -> its averages: one after another in memory, because each is compared with each."""
        return dict(zip(self.vpns, np.ascontiguousarray(self.averages.T), strict=True))

    def chances_of_best(self) -> dict[str, float]:
        """VPN -> share of the draws in which its average is the lowest; VPNs that tie in a draw share it."""
        best = np.abs(self.averages - self.averages.min(axis=1, keepdims=True)) < SAME
        sharing = best.sum(axis=1)
        chances = {}
        for column, vpn in enumerate(self.vpns):
            shares = np.bincount(sharing[best[:, column]], minlength=len(self.vpns) + 1)
            total = 0.0
            for others in range(1, len(self.vpns) + 1):
                total += int(shares[others]) / others
            chances[vpn] = total / DRAWS
        return chances

    def place_intervals(self) -> dict[str, tuple[int, int]]:
        """VPN -> the places between which 95 % of the draws put it; equals share the better place."""
        intervals = {}
        for column, vpn in enumerate(self.vpns):
            ahead = self.averages < self.averages[:, [column]] - SAME
            places = np.sort(1 + ahead.sum(axis=1))
            intervals[vpn] = int(places[TAIL]), int(places[DRAWS - 1 - TAIL])
        return intervals

    def pair(self, a: str, b: str) -> tuple[float, float]:
        """The shares of the draws in which ``a`` has the lower average, and in which both are equal."""
        difference = self._columns[a] - self._columns[b]
        return int((difference < -SAME).sum()) / DRAWS, int((np.abs(difference) <= SAME).sum()) / DRAWS


def draw_ranks(
    metric: Metric,
    values: Mapping[str, Blocks],
    bounded: Set[str],
    seed: int,
    pairs: Mapping[tuple[str, str], Estimate] | None = None,
    failed: Collection[str] = (),
) -> DrawnRanks | None:
    """The ranks of all VPNs that were measured in ``metric``. None where no VPN has two blocks, unless the metric is
    exact: then the ranks are the same in every draw.

    ``values``: VPN -> block -> value; ``bounded``: the VPNs with lower bounds only, which no VPN outranks; ``pairs``:
    the log ratios that are known (made from the values if not given); ``failed``: the VPNs that failed in a repetition:
    they stand behind all others, because nobody knows how bad the values are that they did not give. Each metric has a
    stream of random numbers of its own, so that its ranks do not depend on the other metrics that count.
    """
    higher = metric.better == "higher"
    rng = np.random.default_rng([seed, zlib.crc32(metric.name.encode())])
    drawn = _drawn(metric, values, estimate_pairs(values) if pairs is None else pairs, rng) if values else None
    if drawn is None:
        return None
    means, scale = drawn
    for (one, a), (other, b) in combinations(enumerate(values.values()), 2):
        if _equal(a, b):
            means[:, other] = means[:, one]
    signed = -means if higher else means
    last = [vpn in failed for vpn in values]
    signed[:, last] = signed.max(axis=1, keepdims=True) + BEHIND
    placed = ranks(signed, scale)
    if higher:
        placed[:, [vpn in bounded and vpn not in failed for vpn in values]] = 1.0
    doubled: Ranks = (2 * placed).astype(np.uint16)
    return DrawnRanks(tuple(values), doubled)


def _drawn(
    metric: Metric,
    values: Mapping[str, Blocks],
    pairs: Mapping[tuple[str, str], Estimate],
    rng: np.random.Generator,
) -> tuple[Array, float | None] | None:
    """Draws of each VPN's mean, shape (DRAWS, VPNs), and the scale on which two of a draw are equal (ties.settled)."""
    every = [value for blocks in values.values() for value in blocks.values()]
    if any(isinstance(blocks, RoundValues | Pooled) for blocks in values.values()):
        means = draw_from_pairs(values, pairs, rng)
        return None if means is None else (means, 1.0)
    if max(map(len, values.values())) > 1:
        return draw_means(values, rng), 1.0 if min(every) > 0 else max(map(abs, every))
    return (np.tile(every, (DRAWS, 1)), None) if metric.exact else None


def _equal(a: Blocks, b: Blocks) -> bool:
    """Were two VPNs equal in every round or repetition? Then no draw has an order of them. A search's result is one
    number, and that two are the same shows nothing."""
    if isinstance(a, Pooled) or isinstance(b, Pooled) or len(a) < 2 or a.keys() != b.keys():
        return False
    return all(same(a[block], b[block]) for block in a)


def order_of(drawn: Mapping[str, DrawnRanks], weights: Mapping[str, float], ranked: tuple[str, ...]) -> Order:
    """The order of the ``ranked`` VPNs in each draw. ``weights``: of the metrics that count, at least one; ``drawn``:
    metric -> its drawn ranks, which contain all the ``ranked`` VPNs."""
    averages = np.zeros((DRAWS, len(ranked)))
    total = 0.0
    for metric, weight in weights.items():
        total += weight
        for column, vpn in enumerate(ranked):
            ranks = drawn[metric]
            averages[:, column] += weight * ranks.doubled[:, ranks.vpns.index(vpn)] / 2
    return Order(ranked, averages / total)


def draw_from_pairs(
    values: Mapping[str, Blocks], pairs: Mapping[tuple[str, str], Estimate], rng: np.random.Generator
) -> Array | None:
    """Draws of each VPN's mean logarithm, shape (DRAWS, VPNs), so that they differ as the pairs' log ratios say.

    A VPN's centre is the weighted least-squares fit to all ratios that it is in. Its variance is its share of theirs:
    that of a ratio is the sum of two, fitted so that none is negative. Pairs that share no rounds are compared as two
    independent numbers. None where two VPNs have nothing to be compared by.
    """
    vpns = list(values)
    known = dict(pairs)
    for a, b in combinations(vpns, 2):
        if (a, b) not in known and (ones := (alone(values[a]), alone(values[b]))) and ones[0] and ones[1]:
            known[a, b] = independent(ones[0], ones[1])
    difference, total = np.zeros((len(known), len(vpns))), np.zeros((len(known), len(vpns)))
    for row, (a, b) in enumerate(known):
        difference[row, [vpns.index(a), vpns.index(b)]] = 1, -1
        total[row, [vpns.index(a), vpns.index(b)]] = 1
    if len(vpns) == 1:
        return np.zeros((DRAWS, 1))
    if not known or np.linalg.matrix_rank(difference) < len(vpns) - 1:
        return None
    errors = np.array([max(estimate.error, EQUAL) for estimate in known.values()])
    centres = np.array([estimate.centre for estimate in known.values()])
    means = np.linalg.lstsq(difference / errors[:, None], centres / errors)[0]
    scale = errors.max() ** 2
    variances = scipy.optimize.nnls(total, errors**2 / scale)[0] * scale
    freedoms = [min(estimate.freedom for pair, estimate in known.items() if vpn in pair) for vpn in vpns]
    drawn = [rng.standard_t(freedom, DRAWS) if freedom < NORMAL else rng.standard_normal(DRAWS) for freedom in freedoms]
    return np.asarray(means + np.sqrt(variances) * np.column_stack(drawn))


def draw_means(values: Mapping[str, Blocks], rng: np.random.Generator) -> Array:
    """Draws of each VPN's mean logarithm from its t distribution, shape (DRAWS, VPNs).

    What moves all VPNs of a block alike is taken off first: the least-squares fit of an effect for each VPN
    and each block. With m VPNs in a block the fit also takes 1/m of each one's own noise away, which the
    scale gives back. Where too few blocks are shared to tell the effects apart, nothing is taken off. A VPN
    with one block has the pooled spread of the others; one of them at least has two blocks.
    """
    names, every = list(values), sorted({block for blocks in values.values() for block in blocks})
    positive = all(value > 0 for blocks in values.values() for value in blocks.values())
    log = np.log if positive else np.asarray  # a jitter of zero has no logarithm
    points = [
        (vpn, every.index(block), float(log(value)))
        for vpn, own in enumerate(values.values())
        for block, value in own.items()
    ]
    design = np.zeros((len(points), len(names) + len(every)))
    for row, (vpn, block, _) in enumerate(points):
        design[row, vpn] = design[row, len(names) + block] = 1
    seen = np.array([point[2] for point in points], dtype=float)
    fit, _, rank, _ = np.linalg.lstsq(design, seen)
    effects, shared = np.zeros(len(every)), np.zeros(len(every))
    if len(names) > 1 and rank == len(names) + len(every) - 1:
        effects = fit[len(names) :] - fit[len(names) :].mean()
        shared = 1 / design[:, len(names) :].sum(axis=0)
    means, variances, freedoms = [], [], []
    for vpn in range(len(names)):
        mine = [(block, value) for owner, block, value in points if owner == vpn]
        # A block that this VPN has alone fits it exactly, and tells nothing of its spread.
        shared_blocks = [block for block, _ in mine if shared[block] < 1]
        own = np.array([value - effects[block] for block, value in mine if block in shared_blocks])
        kept = 1 - float(np.mean([shared[block] for block in shared_blocks])) if shared_blocks else 1.0
        if len(shared_blocks) < 2:
            own, kept = np.array([value for _, value in mine]), 1.0
        means.append(own.mean())
        variances.append(float(np.var(own, ddof=1)) / kept if len(own) > 1 else 0.0)
        freedoms.append(len(own) - 1)
    pooled, every_freedom = float(np.average(variances, weights=freedoms)), sum(freedoms)
    return np.column_stack(
        [
            mean
            + np.sqrt((variance if freedom else pooled) / (freedom + 1))
            * rng.standard_t(freedom or every_freedom, DRAWS)
            for mean, variance, freedom in zip(means, variances, freedoms, strict=True)
        ]
    )
