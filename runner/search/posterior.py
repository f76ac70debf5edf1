"""The belief about one device: a grid posterior over capacity × noise × loss floor × stalls × jitter.

The model of one trial at offered rate R: the trial's capacity is C·exp(σz), z standard normal. Within the trial
it jitters by τ around that, and what exceeds it is lost: τ·G(x/τ) for the trial's excess x = 1 − C·exp(σz)/R,
where G(d) = d·Φ(d) + φ(d) is the mean of a normal variable cut off at zero. A floor f is lost at any rate, and λ
times a second the device stands still for about 0.1 s. Averaged over z the loss is f + 0.1·λ + s·G(x/s) with
s² = σ² + τ²; solved for R this is the rate where the *mean* loss reaches the loss ratio.

Devices that slow down under overload are steeper than that. The search therefore offers little but the rate where
the curve is wanted; at most a tenth of the information of the best design is lost by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from runner.search.model import SearchTrial

Array = NDArray[np.float64]

CAPACITIES = 48
BINS = 2000
NOISE = np.geomspace(0.0015, 0.11, 12)
JITTER = np.array([1e-4, 0.025, 0.07])
JITTER_PRIOR = np.array([0.8, 0.1, 0.1])
FLOOR_SHARES = np.array([0, 0.04, 0.09, 0.14, 0.2, 0.26, 0.33, 0.42, 0.6, 0.85, 1.1])
SMEAR_SHARE = 0.02  # of the loss ratio: how exactly a floor on this grid can be met
STALL_S = 0.1
STALLS_PER_S = np.array([0, 0.007, 0.018])
STALLS_PRIOR = np.array([0.35, 0.35, 0.3])
OUTLIER = 0.05  # density of losses that no other term explains: even a good device has a bad trial
SMALLEST_RATIO = 1e-5  # no finite number of packets tells a smaller mean loss from zero

_D = np.linspace(-8, 8, 4001)
_LOG_G = np.log(_D * ndtr(_D) + np.exp(-_D * _D / 2) / np.sqrt(2 * np.pi))


def inverse_g(y: Array) -> Array:
    """d with G(d) = d·Φ(d) + φ(d) = y, for y > 0."""
    return np.where(y >= 8, y, np.interp(np.log(np.maximum(y, 1e-15)), _LOG_G, _D))


def normal(x: Array, deviation: Array | float) -> Array:
    """Density of a normal variable with mean zero."""
    return np.asarray(np.exp(-0.5 * (x / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation))


@dataclass(frozen=True)
class Estimate:
    """What the posterior says about the throughput; rates in bit/s, noise and floor as ratios."""

    rate_bps: float
    low_bps: float
    high_bps: float
    capacity_bps: float
    noise: float
    floor: float
    no_throughput: float  # probability that the mean loss exceeds the ratio at any rate
    edge: int  # -1 or +1 where the belief runs off the lower or the upper end of the grid

    @property
    def relative_width(self) -> float:
        """Half the 95 % credible interval over the estimate."""
        return (self.high_bps - self.low_bps) / (2 * self.rate_bps)


class Posterior:
    """Capacities ``centre_bps``·exp(±``span``) with the other parameters, updated trial by trial."""

    def __init__(self, loss_ratio: float, centre_bps: float, span: float) -> None:
        self.loss_ratio = max(loss_ratio, SMALLEST_RATIO)
        self.centre_bps, self.span = centre_bps, span
        self.log_capacity = np.log(centre_bps) + np.linspace(-span, span, CAPACITIES)
        self.floor = FLOOR_SHARES * min(self.loss_ratio, 0.05)
        # stalls that alone would eat up a small loss ratio are not believed in beforehand
        self.stalls_per_s = STALLS_PER_S * min(1.0, self.loss_ratio / 0.01)
        shape = (STALLS_PER_S.size, JITTER.size, self.floor.size, NOISE.size, CAPACITIES)
        prior = STALLS_PRIOR[:, None] * JITTER_PRIOR
        self.weight: Array = np.broadcast_to(prior[:, :, None, None, None], shape).copy()
        self.weight /= self.weight.sum()
        self.left, log_rate = self._throughput()
        self.bins = np.linspace(log_rate.min() - 1e-9, log_rate.max() + 1e-9, BINS + 1)
        self.bin_of = ((log_rate - self.bins[0]) / (self.bins[1] - self.bins[0])).astype(np.int64)

    def _throughput(self) -> tuple[Array, Array]:
        """Loss ratio that congestion may add, and logarithm of the rate where it does, for every cell."""
        left = self.loss_ratio - self.floor - STALL_S * self.stalls_per_s[:, None]
        share = np.maximum(left, 0.02 * self.loss_ratio)[:, None, :, None]
        spread = np.hypot(NOISE, JITTER[:, None, None])
        over = np.minimum(spread * inverse_g(share / spread), 0.9)
        for _ in range(2):  # at rate R the noise of x is s·C/R
            over = np.minimum(spread * (1 - over) * inverse_g(share / (spread * (1 - over))), 0.9)
        return left, self.log_capacity - np.log1p(-over)[..., None]

    def update(self, trial: SearchTrial, loss_ratio: float) -> None:
        """Bayes' rule with one trial, and its loss ratio without what only its start-up lost."""
        lost = 1 - (1 - loss_ratio) / (1 - self.floor)
        smear = np.sqrt((SMEAR_SHARE * self.loss_ratio) ** 2 + (self.floor + 0.2 / trial.sent) / trial.sent)
        clear = 2 * smear
        jitter = JITTER[:, None]
        log_offered = np.log(trial.offered_rate_bps)
        # congested: the loss tells the capacity of this very trial
        d = inverse_g(np.maximum(lost, 1e-9) / jitter)
        excess = np.minimum(d * jitter, 0.999)
        capacity = (log_offered + np.log1p(-excess))[..., None, None]
        congested = normal(capacity - self.log_capacity, NOISE[:, None])
        congested /= (ndtr(d) * (1 - excess))[..., None, None]
        # not congested: only the floor is lost, and the capacity was above what was offered
        threshold = (log_offered + np.log1p(-jitter * inverse_g(clear / jitter)))[..., None, None]
        above = ndtr((self.log_capacity - threshold) / NOISE[:, None])
        at_floor = normal(lost, smear)[:, None, None]
        usual = np.where((lost > clear)[:, None, None], congested, at_floor * above)

        length = min(1.0, STALL_S / trial.duration_s)
        stalled = np.where(lost > 0, np.exp(-lost / length) / length, 0.0)[:, None, None]
        stall = -np.expm1(-self.stalls_per_s * trial.duration_s)[:, None, None, None, None]
        self.weight *= (1 - stall) * (usual + OUTLIER) + stall * stalled
        self.weight /= self.weight.sum()

    def estimate(self) -> Estimate:
        """Median and 95 % interval of the rate where the mean loss reaches the ratio."""
        weight = self.weight
        mass = np.bincount(self.bin_of.ravel(), weights=weight.ravel(), minlength=BINS)
        cumulated = np.concatenate(([0.0], np.cumsum(mass)))
        low_bps, rate_bps, high_bps = np.exp(np.interp([0.025, 0.5, 0.975], cumulated, self.bins))
        by_capacity = weight.sum(axis=(0, 1, 2, 3))
        bottom, top = float(by_capacity[:3].sum()), float(by_capacity[-3:].sum())
        return Estimate(
            float(rate_bps),
            float(low_bps),
            float(high_bps),
            float(np.exp(by_capacity @ self.log_capacity)),
            float(np.exp(weight.sum(axis=(0, 1, 2, 4)) @ np.log(NOISE))),
            float(weight.sum(axis=(0, 1, 3, 4)) @ self.floor),
            float(weight.sum(axis=(1, 3, 4))[self.left <= 0].sum()),
            (top > 0.01 and top > bottom) - (bottom > 0.01 and bottom > top),
        )
