"""The belief about one device: weighted hypotheses about its capacity, noise, floor, stalls, start-up and livelock.

The model of one trial of T seconds at offered rate R: the trial's capacity is C·exp(σz), z standard normal. Within
the trial it jitters by τ around that, and what exceeds it is lost: τ·G(x/τ) for the trial's excess
x = 1 − C·exp(σz)/R, where G(d) = d·Φ(d) + φ(d) is the mean of a normal variable cut off at zero. A floor f is lost
at any rate, everything in the first s seconds, and v times a second the device stands still for about 0.1 s. A
device in livelock forwards less the more is offered: what is lost to the excess is 1 + λ times as much.
Averaged over z and for trials of ten seconds the loss is f + s/10 + 0.1·v + (1 + λ)·S·G(x/S) with S² = σ² + τ²;
solved for R this is the rate where the *mean* loss reaches the loss ratio.

Each parameter is a function of a standard normal variable, which is its prior. The posterior is integrated by
adaptive importance sampling (Bugallo et al., IEEE Signal Processing Magazine 34(4), 2017): hypotheses are drawn from
a Student distribution fitted to the last ones, always at the same quasi-random points, so that the same trials
give the same belief.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr, ndtri

from runner.search.model import SearchTrial

Array = NDArray[np.float64]

CRITERION_S = 10.0  # the loss that counts is that of trials this long (thesis §3.5.1)
HYPOTHESES = 2048
PARAMETERS = 7
FREEDOM = 6  # of the Student distribution: heavier tails than any posterior here
FEWEST_SHARE = 0.1  # of the hypotheses: with fewer effective ones they are drawn anew
TEMPERATURES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007, 0.003, 0.001)

# The priors: (median, deviation of the logarithm)
CAPACITY_DEVIATION = 0.15  # around what the seed found
NOISE = (0.016, 0.9)
JITTER = (0.002, 1.6)
FLOOR_SHARE = (0.15, 1.2)  # of the loss ratio: floor and start-up together, in a trial of the usual duration
STARTUP_SHARE = (-2.0, 1.3)  # of that, the share of the start-up: Φ of a normal variable with this mean, deviation
MOST_STALLS_PER_S = 0.02
NO_LIVELOCK = 0.7  # probability; else its slope λ is uniform from 0 to 1
STALL_S = 0.1
SMEAR_SHARE = 0.02  # of the loss ratio: a floor is not more constant than this
OUTLIER = 0.05  # density of losses that no other term explains: even a good device has a bad trial
SMALLEST_RATIO = 1e-5  # no finite number of packets tells a smaller mean loss from zero
INTERVAL = (0.021, 0.5, 0.979)  # who stops when it is narrow favours what came out too narrow: this covers 95 %

_D = np.linspace(-8, 8, 4001)
_LOG_G = np.log(_D * ndtr(_D) + np.exp(-_D * _D / 2) / np.sqrt(2 * np.pi))
_LOG_Y, _STEP = np.linspace(np.log(1e-15), np.log(8), 8001, retstep=True)
_D_OF_Y = np.interp(_LOG_Y, _LOG_G, _D)
# quasi-random points in eight dimensions: multiples of the powers of g, g**9 = g + 1, without their integer part
_POINTS = np.arange(1, HYPOTHESES + 1)[:, None] * 1.0850702454914507 ** -np.arange(1.0, 9.0) % 1
_STANDARD = ndtri(_POINTS[:, :PARAMETERS])
_STUDENT = _STANDARD * np.sqrt(FREEDOM / chdtri(FREEDOM, _POINTS[:, PARAMETERS:]))


def inverse_g(y: Array) -> Array:
    """d with G(d) = d·Φ(d) + φ(d) = y, for y > 0."""
    at = np.clip((np.log(np.maximum(y, 1e-15)) - _LOG_Y[0]) / _STEP, 0, _LOG_Y.size - 1.001)
    below = at.astype(np.intp)
    part = at - below
    return np.where(y >= 8, y, _D_OF_Y[below] * (1 - part) + _D_OF_Y[below + 1] * part)


def normal(x: Array, deviation: Array | float) -> Array:
    """Density of a normal variable with mean zero."""
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
        # congested: the loss tells the capacity of this very trial
        steep = 1 + self.livelock
        d = inverse_g(np.maximum(lost, smear) / (steep * self.jitter))
        share = ndtr(d)
        counted = trial.loss_ratio / trial.sent / (steep * np.maximum(share, 0.4)) ** 2
        congested = normal(self._above(trial, d), np.sqrt(self.noise**2 + counted))
        congested /= steep * share * (1 - np.minimum(d * self.jitter, 0.999))
        # not congested: the capacity was above what was offered, and only the floor is lost
        above = ndtr(-self._above(trial, inverse_g(smear / (steep * self.jitter))) / self.noise)
        usual = congested * ndtr(lost / smear) + normal(lost, smear) * above
        length = min(1.0, STALL_S / trial.duration_s)
        stalled = np.where(lost > 0, np.exp(-np.maximum(lost, 0) / length) / length, 0.0)
        stall = -np.expm1(-self.stalls_per_s * trial.duration_s)
        return np.asarray((1 - stall) * (usual + OUTLIER) + stall * stalled)

    def _above(self, trial: SearchTrial, d: Array) -> Array:
        """How far above the usual capacity the trial's was (logarithm), where it exceeded that by ``d`` jitters."""
        excess = np.minimum(d * self.jitter, 0.999)
        return np.asarray(np.log(trial.offered_rate_bps) + np.log1p(-excess) - self.log_capacity)

    def left(self, loss_ratio: float) -> Array:
        """The loss ratio that is left to congestion in a trial of ten seconds."""
        return np.asarray(loss_ratio - self.floor - self.startup_s / CRITERION_S - STALL_S * self.stalls_per_s)

    def log_throughput(self, loss_ratio: float) -> Array:
        """Logarithm of the rate (bit/s) where the mean loss of ten seconds is the loss ratio."""
        share = np.maximum(self.left(loss_ratio), 0.02 * loss_ratio) / (1 + self.livelock)
        spread = np.hypot(self.noise, self.jitter)
        over = np.minimum(spread * inverse_g(share / spread), 0.9)
        for _ in range(2):  # at rate R the noise of x is S·C/R
            over = np.minimum(spread * (1 - over) * inverse_g(share / (spread * (1 - over))), 0.9)
        return np.asarray(self.log_capacity - np.log1p(-over))


@dataclass(frozen=True)
class Estimate:
    """What the posterior says about the throughput; rates in bit/s, noise and floor as ratios."""

    rate_bps: float
    low_bps: float
    high_bps: float
    capacity_bps: float
    noise: float
    jitter: float
    floor: float
    stalls_per_s: float
    startup_s: float
    livelock: float
    no_throughput: float  # probability that the mean loss exceeds the ratio at any rate
    due_to_startup: float  # relative deviation of the throughput that comes of not knowing the start-up

    @property
    def relative_width(self) -> float:
        """Half the 95 % credible interval over the estimate."""
        return (self.high_bps - self.low_bps) / (2 * self.rate_bps)


class Posterior:
    """Hypotheses about a device with a capacity of about ``centre_bps``, given trials.

    ``startup_s``: a first guess, where there is one; it says where to look, not what to believe.
    """

    def __init__(
        self,
        loss_ratio: float,
        centre_bps: float,
        trial_duration_s: float,
        trials: Iterable[SearchTrial],
        startup_s: float = 0.0,
    ) -> None:
        self.loss_ratio = max(loss_ratio, SMALLEST_RATIO)
        self.centre_bps, self.trial_duration_s = centre_bps, trial_duration_s
        self.trials = list(trials)
        self._restarts = 1  # a device that fits no hypothesis does not fit better the next time
        self._start, self._spread = np.zeros(PARAMETERS), np.eye(PARAMETERS)
        if startup_s:
            expected = FLOOR_SHARE[0] * self.loss_ratio * trial_duration_s
            self._start[[3, 5]] = np.log(startup_s / expected) / FLOOR_SHARE[1], 3.0
            self._spread[3, 3] = 0.1
        self._draw(self._start, self._spread)
        self._refit()

    def _devices(self, u: Array) -> Devices:
        """The hypotheses that seven standard normal variables stand for."""
        small = min(1.0, self.loss_ratio / 0.01)  # what alone would eat up a small loss ratio is not expected
        constant = FLOOR_SHARE[0] * min(self.loss_ratio, 0.05) * np.exp(FLOOR_SHARE[1] * u[:, 3])
        startup = ndtr(STARTUP_SHARE[0] + STARTUP_SHARE[1] * u[:, 5])
        return Devices(
            np.log(self.centre_bps) + CAPACITY_DEVIATION * u[:, 0],
            NOISE[0] * np.exp(NOISE[1] * u[:, 1]),
            JITTER[0] * np.exp(JITTER[1] * u[:, 2]),
            np.minimum(constant, 0.5) * (1 - startup),
            small * MOST_STALLS_PER_S * ndtr(u[:, 4]),
            np.minimum(constant, 0.5) * startup * self.trial_duration_s,
            np.maximum(0.0, ndtr(u[:, 6]) - NO_LIVELOCK) / (1 - NO_LIVELOCK),
        )

    def _draw(self, mean: Array, covariance: Array) -> None:
        """New hypotheses from a Student distribution, with the likelihood of all trials."""
        root = np.linalg.cholesky(covariance)
        u = mean + np.einsum("ij,kj->ik", _STUDENT, root)  # threads of a BLAS would cost more than they save
        self.devices = self._devices(u)
        log_drawn = -0.5 * (FREEDOM + PARAMETERS) * np.log1p((_STUDENT**2).sum(axis=1) / FREEDOM)
        log_drawn -= np.log(np.diag(root)).sum()
        self._u, self._log_prior = u, -0.5 * (u**2).sum(axis=1) - log_drawn
        self._log_likelihood = np.zeros(HYPOTHESES)
        for trial in self.trials:
            self._log_likelihood += np.log(self.devices.likelihood(trial, self.loss_ratio))

    def _weigh(self, temperature: float = 1.0) -> tuple[Array, float]:
        """Weights of the hypotheses, and the share of effective ones."""
        log_weight = temperature * (self._log_prior + self._log_likelihood)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        return weight, 1 / float(weight @ weight) / HYPOTHESES

    def _refit(self) -> None:
        """Draw around the likely hypotheses until there are enough of them; once from the start where that fails."""
        self._approach(8)
        if self._weigh()[1] < FEWEST_SHARE / 4 and self._restarts:
            self._restarts -= 1
            self._draw(self._start, self._spread)
            self._approach(12)
        self.weight, self.effective = self._weigh()
        self._fitted = len(self.trials)

    def _approach(self, draws: int) -> None:
        """Move the hypotheses towards the posterior in steps that leave enough of them, with at most ``draws``."""
        at_last = 0
        for _ in range(draws):
            for temperature in TEMPERATURES:
                weight, share = self._weigh(temperature)
                if share > FEWEST_SHARE:
                    break
            if temperature == 1.0:
                at_last += 1
                if share > 2 * FEWEST_SHARE or at_last > 2:
                    break
            mean = np.einsum("i,ij->j", weight, self._u)
            covariance = np.einsum("i,ij,ik->jk", weight, self._u - mean, self._u - mean)
            self._draw(mean, 1.2 * covariance + 1e-6 * np.eye(PARAMETERS))

    def update(self, trial: SearchTrial) -> None:
        """Bayes' rule with one trial."""
        self.trials.append(trial)
        self._log_likelihood += np.log(self.devices.likelihood(trial, self.loss_ratio))
        self.weight, self.effective = self._weigh()
        patience = 1.05 if self.effective < FEWEST_SHARE / 10 else 1.15
        if self.effective < FEWEST_SHARE and len(self.trials) >= patience * self._fitted:
            self._refit()

    @property
    def trusted(self) -> bool:
        """Whether enough hypotheses are left for an interval to mean something."""
        return self.effective >= FEWEST_SHARE / 4

    def estimate(self) -> Estimate:
        """Median and 95 % interval of the rate where the mean loss reaches the ratio."""
        devices, weight = self.devices, self.weight
        log_rate = devices.log_throughput(self.loss_ratio)
        order = np.argsort(log_rate)
        cumulated = np.cumsum(weight[order]) - 0.5 * weight[order]
        low_bps, rate_bps, high_bps = np.exp(np.interp(INTERVAL, cumulated, log_rate[order]))
        startup = devices.startup_s - weight @ devices.startup_s
        together = float(weight @ (startup * log_rate))
        due_to_startup = abs(together) / np.sqrt(float(weight @ startup**2) + 1e-30)
        return Estimate(
            float(rate_bps),
            float(low_bps),
            float(high_bps),
            float(np.exp(weight @ devices.log_capacity)),
            float(np.exp(weight @ np.log(devices.noise))),
            float(np.exp(weight @ np.log(devices.jitter))),
            float(weight @ devices.floor),
            float(weight @ devices.stalls_per_s),
            float(weight @ devices.startup_s),
            float(weight @ devices.livelock),
            float(weight[devices.left(self.loss_ratio) <= 0].sum()),
            due_to_startup,
        )
