"""The likelihood of one trial, given what a device is.

The model of one trial of T seconds at offered rate R: the trial's capacity is C·exp(σz), z standard normal. Within
the trial it jitters by τ around that, and what exceeds it is lost: τ·G(x/τ) for the trial's excess
x = 1 − C·exp(σz)/R, where G(d) = d·Φ(d) + φ(d) is the mean of a normal variable cut off at zero. A floor f is lost
at any rate, everything in the first s seconds, and v times a second the device stands still for about 0.1 s. A
device in livelock forwards less the more is offered: what is lost to the excess is 1 + λ times as much.
The jitter is another every 50 ms, so that a trial has the mean loss of T/50 ms slots.
Averaged over z and for trials of ten seconds the loss is f + s/10 + 0.1·v + (1 + λ)·S·G(x/S) with S² = σ² + τ²;
solved for R this is the rate where the *mean* loss reaches the loss ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from runner.search.model import SearchTrial

Array = NDArray[np.float64]

CRITERION_S = 10.0  # the loss that counts is that of trials this long (thesis §3.5.1)
STALL_S = 0.1
SLOT_S = 0.05  # a jittering capacity is another after that long
SMEAR_SHARE = 0.02  # of the loss ratio: a floor is not more constant than this
OUTLIER = 0.05  # density of losses that no other term explains: even a good device has a bad trial
LEAST_D = -2.5  # further below its capacity a device loses nothing

_D = np.linspace(-8, 8, 4001)
_LOG_G = np.log(_D * ndtr(_D) + np.exp(-_D * _D / 2) / np.sqrt(2 * np.pi))
_LOG_Y, _STEP = np.linspace(np.log(1e-15), np.log(8), 8001, retstep=True)
_D_OF_Y = np.interp(_LOG_Y, _LOG_G, _D)
# Variance of the loss of one slot over the square of the slope, Φ²: how an excess scatters, in squares of the jitter
_SQUARE = (_D * _D + 1) * ndtr(_D) + _D * np.exp(-_D * _D / 2) / np.sqrt(2 * np.pi)
_SCATTER = (_SQUARE - np.exp(2 * _LOG_G)) / np.maximum(ndtr(_D), 1e-9) ** 2
_SCATTER_OF_Y = np.interp(np.maximum(_D_OF_Y, LEAST_D), _D, _SCATTER)


def g(d: Array) -> Array:
    """G(d) = d·Φ(d) + φ(d)."""
    return np.asarray(d * ndtr(d) + np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi))


def by_g(y: Array, table: Array) -> Array:
    """A table's value for y = G(d); its entries belong to ``_LOG_Y``."""
    at = np.clip((np.log(np.maximum(y, 1e-15)) - _LOG_Y[0]) / _STEP, 0, _LOG_Y.size - 1.001)
    below = at.astype(np.intp)
    part = at - below
    return np.asarray(table[below] * (1 - part) + table[below + 1] * part)


def inverse_g(y: Array) -> Array:
    """d with G(d) = d·Φ(d) + φ(d) = y, for y > 0."""
    return np.where(y >= 8, y, by_g(y, _D_OF_Y))


def normal(x: Array, deviation: Array | float) -> Array:
    """The density of a normal variable with mean zero."""
    return np.asarray(np.exp(-0.5 * (x / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation))


@dataclass(frozen=True)
class Devices:
    """Hypotheses about a device, an array each: see the module's text. Capacity is the logarithm of bit/s."""

    log_capacity: Array
    noise: Array
    jitter: Array
    floor: Array
    stalls_per_s: Array
    startup_s: Array
    livelock: Array

    def likelihood(self, trial: SearchTrial, loss_ratio: float) -> Array:
        """Density of a trial's loss ratio under each hypothesis; ``loss_ratio`` is the one that is asked for."""
        passed = (1 - self.floor) * (1 - np.minimum(self.startup_s / trial.duration_s, 0.9))
        lost = 1 - (1 - trial.loss_ratio) / passed
        smear = np.sqrt((SMEAR_SHARE * loss_ratio) ** 2 + (1 - passed + 0.2 / trial.sent) / trial.sent)
        steep = 1 + self.livelock
        share = np.exp(np.minimum(self.log_capacity - np.log(trial.offered_rate_bps), 0.7))
        jitter = self.jitter * share
        visible = inverse_g(smear / (steep * jitter))  # with less excess nothing can be seen
        centre, spread, none = self._slots(1 - share, self.noise * share, jitter, visible, trial.duration_s)
        # congested: the loss tells the excess of this very trial
        d = inverse_g(np.maximum(lost, smear) / (steep * jitter))
        slope = steep * ndtr(d)
        counted = trial.loss_ratio / trial.sent / np.maximum(slope, 0.4 * steep) ** 2
        width = np.sqrt(spread**2 + counted)
        congested = (1 - none) * normal(d * jitter - centre, width) / slope
        congested /= np.maximum(ndtr((centre - visible * jitter) / width), 1e-3)
        # not congested: the capacity was above what was offered, and only the floor is lost
        usual = congested * ndtr(lost / smear) + normal(lost, smear) * none
        length = min(1.0, STALL_S / trial.duration_s)
        stalled = np.where(lost > 0, np.exp(-np.maximum(lost, 0) / length) / length, 0.0)
        stall = -np.expm1(-self.stalls_per_s * trial.duration_s)
        return np.asarray((1 - stall) * (usual + OUTLIER) + stall * stalled)

    @staticmethod
    def _slots(
        excess: Array, noise: Array, jitter: Array, visible: Array, duration_s: float
    ) -> tuple[Array, Array, Array]:
        """Mean and deviation of the excess that a trial's loss shows, and the chance that it shows none.

        The mean loss of a few slots scatters beyond the noise, the more the fewer of them are congested. The
        excess is taken as normal, and placed so that the mean loss over all trials remains what it is.
        """
        slots = max(1.0, duration_s / SLOT_S)
        total = np.sqrt(noise**2 + jitter**2)
        mean = total * g(excess / total)
        scatter = jitter**2 * by_g(mean / jitter, _SCATTER_OF_Y) / slots
        spread = np.sqrt(noise**2 + scatter)
        largest = ndtri(0.5 ** (1 / slots))  # of so many deviations
        none = ndtr((jitter * np.maximum(visible, -largest) - excess) / np.sqrt(noise**2 + (0.5 * jitter) ** 2))
        unseen = ndtr((jitter * visible - excess) / spread)  # counts as no loss already
        mean *= np.minimum((1 - unseen) / np.maximum(1 - none, 0.05), 2.0)
        total = np.sqrt(spread**2 + jitter**2)
        return total * inverse_g(mean / total), spread, none

    def congestion_loss(self, loss_ratio: float) -> Array:
        """The loss ratio that is left to congestion in a trial of ten seconds."""
        return np.asarray(loss_ratio - self.floor - self.startup_s / CRITERION_S - STALL_S * self.stalls_per_s)

    def log_throughput(self, loss_ratio: float) -> Array:
        """Logarithm of the rate (bit/s) where the mean loss of ten seconds is the loss ratio."""
        share = np.maximum(self.congestion_loss(loss_ratio), 0.02 * loss_ratio) / (1 + self.livelock)
        spread = np.hypot(self.noise, self.jitter)
        over = np.minimum(spread * inverse_g(share / spread), 0.9)
        for _ in range(2):  # at rate R the noise of x is S·C/R
            over = np.minimum(spread * (1 - over) * inverse_g(share / (spread * (1 - over))), 0.9)
        return np.asarray(self.log_capacity - np.log1p(-over))
