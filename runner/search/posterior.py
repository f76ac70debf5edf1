"""The belief about one device: weighted hypotheses about its capacity, noise, floor, stalls, start-up and livelock.

Each parameter is a function of a standard normal variable, which is its prior. The posterior is integrated by
adaptive importance sampling (Bugallo et al., IEEE Signal Processing Magazine 34(4), 2017): hypotheses are drawn from
a Student distribution fitted to the last ones, always at the same quasi-random points, so that the same trials
give the same belief.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtr, ndtri

from runner.search.likelihood import Array, Devices
from runner.search.model import SearchTrial

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
SMALLEST_RATIO = 1e-5  # no finite number of packets tells a smaller mean loss from zero
CAREFUL = 0.05  # quantile at which a confirmation begins
LEAST_WIDTH = 0.002  # of an interval on each side: whether there are stalls, half a minute does not tell
INTERVAL = (0.021, 0.5, 0.979)  # who stops when it is narrow favours what came out too narrow: this covers 95 %

# quasi-random points in eight dimensions: multiples of the powers of g, g**9 = g + 1, without their integer part
_POINTS = np.arange(1, HYPOTHESES + 1)[:, None] * 1.0850702454914507 ** -np.arange(1.0, 9.0) % 1
_STANDARD = ndtri(_POINTS[:, :PARAMETERS])
_STUDENT = _STANDARD * np.sqrt(FREEDOM / chdtri(FREEDOM, _POINTS[:, PARAMETERS:]))


@dataclass(frozen=True)
class PosteriorEstimate:
    """What the posterior says about the throughput; rates in bit/s, noise and floor as ratios."""

    rate_bps: float
    low_bps: float
    high_bps: float
    careful_bps: float  # the throughput is hardly below this
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
    def is_trustworthy(self) -> bool:
        """Are enough hypotheses left for an interval to mean something?"""
        return self.effective >= FEWEST_SHARE / 4

    def estimate(self) -> PosteriorEstimate:
        """Median and 95 % interval of the rate where the mean loss reaches the ratio."""
        devices, weight = self.devices, self.weight
        log_rate = devices.log_throughput(self.loss_ratio)
        order = np.argsort(log_rate)
        cumulated = np.cumsum(weight[order]) - 0.5 * weight[order]
        quantiles = np.interp((*INTERVAL, CAREFUL), cumulated, log_rate[order])
        low_bps, rate_bps, high_bps, careful_bps = np.exp(quantiles)
        startup = devices.startup_s - weight @ devices.startup_s
        together = float(weight @ (startup * log_rate))
        due_to_startup = abs(together) / np.sqrt(float(weight @ startup**2) + 1e-30)
        return PosteriorEstimate(
            float(rate_bps),
            float(min(low_bps, rate_bps * (1 - LEAST_WIDTH))),
            float(max(high_bps, rate_bps * (1 + LEAST_WIDTH))),
            float(careful_bps),
            float(np.exp(weight @ devices.log_capacity)),
            float(np.exp(weight @ np.log(devices.noise))),
            float(np.exp(weight @ np.log(devices.jitter))),
            float(weight @ devices.floor),
            float(weight @ devices.stalls_per_s),
            float(weight @ devices.startup_s),
            float(weight @ devices.livelock),
            float(weight[devices.congestion_loss(self.loss_ratio) <= 0].sum()),
            due_to_startup,
        )
