"""The least time that any search needs on a simulated device, for the bench to set beside what was found.

An ideal, unbiased estimator that knows the kind of a device, and how floor, stalls, start-up, livelock and jitter are
spread over the population, cannot have a smaller variance than g'(A + P)⁻¹g: A is Fisher's information about the
parameters, P that of their spread (1 / variance), g the gradient of the logarithm of the throughput. The trials are
the best mixture of ``DESIGNS``, found by the multiplicative algorithm for c-optimal designs (Silvey, Titterington and
Torsney, Communications in Statistics A7, 1978); finer steps and other durations lessen no deviation by more than 1 %.
Nothing is spent on finding out where to offer them.

A trial's loss is what is lost anyhow, alone or with that to congestion on top. Two things are left out, both in the
bound's favour: that stalls hide some trials, and that a small congestion cannot be told from none. The uniform spreads
of the population are taken as normal ones of the same variance, at most 4 % too much for the deviation that is due
to one of them.

A search whose goal is a mean error need not give each device the time that the same error takes: ``shared`` is the
bound for such a goal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr

from runner.search.likelihood import Array, Devices, normal
from tests.bench.devices import JITTER_SLOT_S, PACKET_BITS, Device, Kind

KINDS: tuple[Kind, ...] = ("plain", "startup", "livelock", "jitter")  # the rest has no noise, or no single truth
OVERHEAD_S = 0.3
FLOOR, STALLS = 0.003, 0.02  # widths of the uniform distributions in devices.population
EXTRA = {"jitter": 0.08, "livelock": 0.8, "startup": 0.018}
# (offered rate above the throughput as a logarithm, duration in s)
DESIGNS = [
    (above, duration_s)
    for above in (-0.3, -0.15, -0.07, 0.0, 0.02, 0.04, 0.08, 0.13, 0.25, 0.5, 1.0)
    for duration_s in (1.0, 10.0)
]
MOST_LIVELOCK = 0.8  # a simulated device never forwards less than a fifth; that this tells is not made use of
NORMAL = 1.96
ERROR = math.sqrt(2 / math.pi)  # mean absolute value of a standard normal variable
TIMES_S = np.geomspace(1.3, 1000, 40)
PRICES = np.geomspace(1e-2, 1e-7, 400)  # deviation that a second has to save
_LOSS = np.concatenate([np.linspace(1e-5, 0.004, 60), np.linspace(0.0046, 1.2, 1500)])
_LOG_LOSS = np.log(_LOSS[:, None])
_Z = np.linspace(-4, 4, 81)


@dataclass(frozen=True)
class Unknown:
    """The parameters of one device: logarithms of capacity (bit/s), noise and jitter; the rest as in ``Device``."""

    log_capacity: float
    log_noise: float
    log_jitter: float
    livelock: float
    floor: float
    startup_s: float
    stalls_per_s: float

    def vector(self) -> Array:
        """The parameters as an array, in the order of the fields."""
        return np.array(list(vars(self).values()))


def _congestion(theta: Array, log_rate: float, slots: int, counting: float) -> tuple[float, Array]:
    """Chance of no congestion in a trial, and the density of the loss to it over ``_LOSS``."""
    log_capacity, log_noise, log_jitter, livelock = theta[:4]
    share = math.exp(log_capacity - log_rate)
    noise, jitter = math.exp(log_noise) * share, math.exp(log_jitter) * share
    if jitter < 1e-6:
        spread = math.hypot(noise, counting)
        none = float(ndtr(-(1 - share) / spread))
        return none, normal(_LOSS / (1 + livelock) - (1 - share), spread) / (1 + livelock)
    weight = normal(_Z, 1.0) * (_Z[1] - _Z[0])
    d = (1 - share + noise * _Z) / jitter
    mean = d * ndtr(d) + normal(d, 1.0)
    square = (d * d + 1) * ndtr(d) + d * normal(d, 1.0)
    none_z = np.minimum(ndtr(-d) ** slots, 1 - 1e-9)
    # of the trials with any congestion: a gamma distribution with the mean and the variance of so many slots
    some = jitter * mean / (1 - none_z)
    variance = jitter**2 * ((square - mean**2) / slots + mean**2) / (1 - none_z) - some**2
    variance = np.maximum(variance, 1e-3 * some**2) + counting**2
    shape = some**2 / variance
    scale = variance / some
    log_density = (shape - 1) * _LOG_LOSS - _LOSS[:, None] / scale - gammaln(shape) - shape * np.log(scale)
    density = np.exp(log_density) @ (weight * (1 - none_z))
    return float(none_z @ weight), np.asarray(density)


def information(theta: Array, log_rate: float, duration_s: float) -> Array:
    """Fisher's information about all parameters in one trial."""
    slots = max(1, round(duration_s / JITTER_SLOT_S))
    sent = math.exp(log_rate) * duration_s / PACKET_BITS
    counting = math.sqrt(0.01 / sent)
    steps = np.diag([1e-4, 1e-3, 1e-3, 1e-3])
    none, density = _congestion(theta, log_rate, slots, counting)
    d_none, d_density = np.zeros(7), np.zeros((7, _LOSS.size))
    for at, step in enumerate(steps):
        sides = [_congestion(theta[:4] + sign * step, log_rate, slots, counting) for sign in (1, -1)]
        d_none[at] = (sides[0][0] - sides[1][0]) / (2 * step[at])
        d_density[at] = (sides[0][1] - sides[1][1]) / (2 * step[at])
    anyhow = np.array([0, 0, 0, 0, 1.0, 1 / duration_s, 0])  # d(lost anyhow) / d(theta)
    d_density -= anyhow[:, None] * np.gradient(density, _LOSS)
    width = np.gradient(_LOSS)
    found = (d_density * (width / np.maximum(density, 1e-9))) @ d_density.T
    found += np.outer(d_none, d_none) / max(none, 1e-12)
    lost = max(1e-5, theta[4] + theta[5] / duration_s)
    found += none * sent / lost * np.outer(anyhow, anyhow)
    found[6, 6] += duration_s / max(theta[6], 1e-4)  # a stall is seen as such
    return np.asarray(found)


class Bound:
    """The least deviation (relative) of the throughput of one device after a time."""

    def __init__(self, device: Device) -> None:
        small = 1e-9
        theta = Unknown(
            math.log(device.capacity_bps), math.log(max(device.noise, small)), math.log(max(device.jitter, small)),
            device.livelock, device.floor, device.startup_s, device.stalls_per_s,
        ).vector()  # fmt: skip
        widths = dict(zip(("jitter", "livelock", "startup"), (2, 3, 5), strict=True))
        known = np.array([0, 0, 0, 0, 12 / FLOOR**2, 0, 12 / STALLS**2])
        free = [0, 1, 4, 6]
        if device.kind in widths:
            at = widths[device.kind]
            free.append(at)
            known[at] = 12 / EXTRA[device.kind] ** 2 * (device.jitter**2 if at == 2 else 1)
        self._spread = np.diag(known[free])
        self._gradient = self._slopes(theta)[free]
        log_rate = math.log(device.true_throughput())
        self._per_s = np.zeros((len(DESIGNS), len(free), len(free)))
        for at, (above, duration_s) in enumerate(DESIGNS):
            over = math.exp(log_rate + above - theta[0]) - 1
            if device.livelock * over < MOST_LIVELOCK:
                found = information(theta, log_rate + above, duration_s)
                self._per_s[at] = found[np.ix_(free, free)] / (duration_s + OVERHEAD_S)

    @staticmethod
    def _slopes(theta: Array) -> Array:
        """Derivative of the logarithm of the throughput by each parameter."""

        def log_throughput(t: Array) -> float:
            noise, jitter = np.exp(t[1:3])
            device = Devices(*map(np.atleast_1d, (t[0], noise, jitter, t[4], t[6], t[5], t[3])))
            return float(device.log_throughput(0.01)[0])

        step = np.diag([1e-3, 1e-3, 1e-3, 1e-3, 1e-5, 1e-5, 1e-4])
        return np.array([(log_throughput(theta + h) - log_throughput(theta - h)) / (2 * h.sum()) for h in step])

    def best(self, time_s: float) -> tuple[float, Array]:
        """The deviation with the best mixture of trials in that time, and each design's share of the time."""
        weight = np.full(len(DESIGNS), 1 / len(DESIGNS))
        for _ in range(200):
            total = np.einsum("d,dij->ij", weight, self._per_s)
            at = np.linalg.solve(time_s * total + self._spread, self._gradient)
            gain = np.sqrt(np.einsum("i,dij,j->d", at, self._per_s, at))
            weight = weight * gain / (weight @ gain)
        return float(np.sqrt(self._gradient @ at)), weight

    def deviation(self, time_s: float) -> float:
        """With the best mixture of trials in that time."""
        return self.best(time_s)[0]

    def time_s(self, deviation: float) -> float:
        """Until the deviation is that small; an hour where no hour is enough."""
        if self.deviation(3600.0) > deviation:
            return 3600.0
        if self.deviation(1.3) < deviation:
            return 1.3
        return math.exp(float(brentq(lambda x: self.deviation(math.exp(x)) - deviation, 0.2, 8.2, rtol=1e-2)))


def shared(bounds: Sequence[Bound]) -> tuple[Array, Array]:
    """Mean times (s) and the least mean errors in them, where each device gets what lessens the mean the most."""
    deviations = np.array([[bound.deviation(time_s) for time_s in TIMES_S] for bound in bounds])
    cost = deviations + PRICES[:, None, None] * TIMES_S
    best = cost.argmin(axis=2)
    return TIMES_S[best].mean(axis=1), ERROR * deviations[np.arange(len(bounds)), best].mean(axis=1)
