"""Simulated devices under test, for the unit tests and the bench: the true throughput is known.

A device forwards what it is offered up to a capacity that differs from trial to trial, loses a fixed share
(floor), stands still now and then (stalls), and may misbehave in one of the ways of ``KINDS``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from runner.search.model import Loss

Kind = Literal["plain", "jitter", "livelock", "startup", "quiet", "two_state", "drift"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CRITERION_S = 10.0  # the thesis judges trials of ten seconds, so the truth is that of such trials
STALL_S = 0.1
PACKET_BITS = 1470 * 8
JITTER_SLOT_S = 0.05


@dataclass
class Device:
    """One simulated device; call it as ``measure``. Rates in bit/s, times in s, ratios 0 to 1."""

    capacity_bps: float
    noise: float = 0.0
    floor: float = 0.0
    stalls_per_s: float = 0.0
    jitter: float = 0.0  # standard deviation of the capacity of each 50 ms within a trial
    livelock: float = 0.0  # how much of the excess load the forwarding rate loses on top
    startup_s: float = 0.0  # everything is lost this long at the start of a trial
    low_state: float = 1.0  # capacity in the low state, as a share of the high one
    dwell_s: float = 10.0
    drift_per_s: float = 0.0
    overhead_s: float = 0.3
    seed: int = 0
    kind: Kind = "plain"
    clock_s: float = field(default=0.0, init=False)
    busy_s: float = field(default=0.0, init=False)  # in trials
    served_s: float = field(default=0.0, init=False)  # of these, as seconds of the full capacity
    slow_s: float = field(default=0.0, init=False)  # of these, in the low state

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._low = bool(self._random.integers(2))
        self._switch_s = self._random.exponential(self.dwell_s)

    def __call__(self, rate_bps: float, duration_s: float) -> Loss:
        """One trial: the loss at ``rate_bps`` (bit/s) over ``duration_s`` (s). Time goes on for the device."""
        slots = max(1, round(duration_s / JITTER_SLOT_S))
        factor = 1 + self.noise * self._random.standard_normal()
        jitter = 1 + self.jitter * self._random.standard_normal(slots)
        capacity_bps = self.capacity_bps * factor * self._state(duration_s) * jitter
        forwarded = float(np.mean(self._forwarded(rate_bps, capacity_bps)))
        stalled_s = self._random.exponential(STALL_S, self._random.poisson(self.stalls_per_s * duration_s)).sum()
        up = max(0.0, 1 - (stalled_s + self.startup_s) / duration_s)
        sent = max(1, round(rate_bps * duration_s / PACKET_BITS))
        received = self._random.binomial(sent, min(1.0, (1 - self.floor) * up * forwarded))
        return Loss(sent, int(received), rate_bps)

    def _forwarded(self, rate_bps: float, capacity_bps: np.ndarray) -> np.ndarray:
        """Share of the load that is forwarded at each capacity, before floor, stalls and start-up."""
        over = np.maximum(0.0, rate_bps / np.maximum(capacity_bps, 1.0) - 1)
        shrunk = np.maximum(0.2, 1 - self.livelock * over)  # a live device never falls to nothing
        return np.asarray(np.minimum(1.0, shrunk / (1 + over)))

    def _state(self, duration_s: float) -> float:
        """Mean capacity of this trial by state and drift, as a share; moves the device's clock on."""
        low_s = 0.0
        end_s = self.clock_s + duration_s
        if self.low_state < 1:
            now_s = self.clock_s
            while now_s < end_s:
                step_s = min(self._switch_s, end_s) - now_s
                low_s += step_s * self._low
                now_s += step_s
                if now_s >= self._switch_s:
                    self._low, self._switch_s = not self._low, now_s + self._random.exponential(self.dwell_s)
            while self._switch_s < end_s + self.overhead_s:
                self._low, self._switch_s = not self._low, self._switch_s + self._random.exponential(self.dwell_s)
        middle_s = self.clock_s + duration_s / 2
        self.clock_s = end_s + self.overhead_s
        state = max(0.05, 1 - (1 - self.low_state) * low_s / duration_s) * max(0.3, 1 + self.drift_per_s * middle_s)
        self.busy_s += duration_s
        self.served_s += state * duration_s
        self.slow_s += low_s
        return state

    def mean_loss(self, rate_bps: float, draws: int = 4001) -> float:
        """Mean loss ratio of trials of ten seconds at a rate, by quadrature over the noise."""
        normal = _normal_quantiles(draws)
        capacity_bps = self.capacity_bps * (1 + np.hypot(self.noise, self.jitter) * normal)
        forwarded = float(np.mean(self._forwarded(rate_bps, capacity_bps)))
        up = 1 - self.stalls_per_s * STALL_S - self.startup_s / CRITERION_S
        return 1 - (1 - self.floor) * up * forwarded

    def true_throughput(self, loss_ratio: float = 0.01) -> float:
        """The rate (bit/s) where the mean loss is ``loss_ratio``; at time zero, in the high state."""
        low, high = 0.5 * self.capacity_bps, 1.5 * self.capacity_bps
        return float(brentq(lambda rate_bps: self.mean_loss(rate_bps) - loss_ratio, low, high, rtol=1e-6))

    def truths(self) -> tuple[float, float]:
        """What a device that changes was during the trials so far, as shares of its full capacity at time zero.

        On the mean, and in the state in which it was most of the time; of a device without states, the mean twice.
        """
        mean = self.served_s / self.busy_s if self.busy_s else 1.0
        state = self.low_state if self.slow_s > self.busy_s / 2 else 1.0
        return mean, mean if self.low_state == 1 else state


def _normal_quantiles(count: int) -> np.ndarray:
    """Equally likely values of a standard normal variable."""
    return np.asarray(ndtri((np.arange(count) + 0.5) / count))


def population(count: int, seed: int, kind: Kind = "plain", overhead_s: float = 0.3) -> list[Device]:
    """``count`` devices of a kind: capacity 20–9500 Mbit/s log-uniform, noise 0.5–5 %, floor, stalls."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    devices = []
    for number in range(count):
        device = Device(
            capacity_bps=float(np.exp(random.uniform(np.log(20e6), np.log(9500e6)))),
            noise=float(np.exp(random.uniform(np.log(0.005), np.log(0.05)))),
            floor=float(random.uniform(0, 0.003)),
            stalls_per_s=float(random.uniform(0, 0.02)),
            overhead_s=overhead_s,
            seed=seed * 100_003 + number,
            kind=kind,
        )
        extra = random.uniform(0, 1, 2)
        if kind == "jitter":
            device.jitter = 0.02 + 0.08 * extra[0]
        elif kind == "livelock":
            device.livelock = 0.2 + 0.8 * extra[0]
        elif kind == "startup":
            device.startup_s = 0.002 + 0.018 * extra[0]
        elif kind == "quiet":
            device.noise = device.floor = device.stalls_per_s = 0.0
        elif kind == "two_state":
            device.low_state, device.dwell_s = 0.7 + 0.2 * extra[0], 3 + 12 * extra[1]
        elif kind == "drift":
            device.drift_per_s = (0.001 + 0.003 * extra[0]) * (1 if extra[1] > 0.5 else -1)
        devices.append(device)
    return devices
