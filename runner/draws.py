"""How sure an order is: the ranking made anew for many draws of what each VPN's true means may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from scipy import stats

from runner.metrics import METRICS
from runner.stats import Array

Blocks = Mapping[int, float]
DRAWS = 20_000
CONFIDENCE = 0.95
SAME = 1e-9  # averages of ranks closer than this are equal


@dataclass(frozen=True)
class Order:
    """The weighted average ranks of ``vpns`` in every draw: ``averages`` has the shape (DRAWS, len(vpns))."""

    vpns: tuple[str, ...]
    averages: Array

    def chances_of_best(self) -> dict[str, float]:
        """VPN -> share of the draws in which its average is the lowest; VPNs that tie in a draw share it."""
        best = np.abs(self.averages - self.averages.min(axis=1, keepdims=True)) < SAME
        shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        return dict(zip(self.vpns, shares.tolist(), strict=True))

    def place_intervals(self) -> dict[str, tuple[int, int]]:
        """VPN -> the places between which 95 % of the draws put it; equals share the better place."""
        places = stats.rankdata(np.round(self.averages, 9), method="min", axis=1)
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(places, [tail, 1 - tail], axis=0, method="inverted_cdf")
        return {vpn: (int(a), int(b)) for vpn, a, b in zip(self.vpns, low, high, strict=True)}

    def pair(self, a: str, b: str) -> tuple[float, float]:
        """The shares of the draws in which ``a`` has the lower average, and in which both are equal."""
        difference = self.averages[:, self.vpns.index(a)] - self.averages[:, self.vpns.index(b)]
        return float((difference < -SAME).mean()), float((np.abs(difference) <= SAME).mean())


def draw_order(
    values: Mapping[str, Mapping[str, Blocks]],
    bounded: Mapping[str, Set[str]],
    weights: Mapping[str, float],
    ranked: Sequence[str],
    worst: int,
    seed: int,
) -> Order | None:
    """The order of the ``ranked`` VPNs in each draw, or None without two of them and two blocks of each metric.

    ``values``: metric -> VPN -> block -> value, of all VPNs that were measured; ``bounded``: metric -> the VPNs
    of which it is known from below only, and which nobody outranks therefore; ``weights``: of the metrics that
    count; ``worst``: the rank of who lacks a metric.
    """
    counted = {metric: values.get(metric, {}) for metric in weights}
    if len(ranked) < 2 or any(own and max(map(len, own.values())) < 2 for own in counted.values()):
        return None
    rng = np.random.default_rng(seed)
    averages = np.zeros((DRAWS, len(ranked)))
    for metric, weight in weights.items():
        if not counted[metric]:  # nobody has it: the worst rank for all moves no one
            continue
        sign = -1 if METRICS[metric].better == "higher" else 1
        drawn = stats.rankdata(sign * draw_means(counted[metric], rng), axis=1)
        names = list(counted[metric])
        for column, vpn in enumerate(ranked):
            if sign < 0 and vpn in bounded.get(metric, ()):
                rank: Array | float = 1.0
            else:
                rank = drawn[:, names.index(vpn)] if vpn in names else float(worst)
            averages[:, column] += weight * rank
    return Order(tuple(ranked), averages / sum(weights.values()))


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
        told = [block for block, _ in mine if shared[block] < 1]
        own = np.array([value - effects[block] for block, value in mine if block in told])
        kept = 1 - float(np.mean([shared[block] for block in told])) if told else 1.0
        if len(told) < 2:
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
