"""Whether one throughput describes all the trials, or the device changed while it was searched.

Three explanations of the same trials are compared by their evidence, the mean of the likelihood over what each leaves
open (Kass and Raftery, Journal of the American Statistical Association 90(430), 1995): one capacity with noise; two
capacities between which the device switches, a hidden Markov chain; a capacity that rises or falls steadily. The
rest of the device's behaviour is taken as estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from runner.search.likelihood import Array, Devices
from runner.search.model import SearchTrial
from runner.search.posterior import PosteriorEstimate

NOISIEST = 0.08  # a capacity that differs more than this between trials is no noise of one device
FASTER = 0.04  # so far above the capacity, and so many deviations of the noise, only a faster device forwards
FASTER_DEVIATIONS = 4
FEWEST = 8
ODDS = 30.0  # in favour of a device that changes
STEP = 0.01  # of the logarithm of the capacity
REACH = 40  # steps on each side
NOISE = np.array([0.005, 0.01, 0.02, 0.04, 0.08])
GAPS = np.array([4, 7, 10, 15, 20, 25, 30, 35])  # between the states, in steps
DWELLS_S = np.array([3.0, 7.0, 20.0])  # mean time in a state
DRIFTS = np.array([-60, -30, -15, -8, -4, 4, 8, 15, 30, 60])  # from the first to the last trial, in steps


def unstable(
    trials: Sequence[SearchTrial], loss_ratio: float, estimate: PosteriorEstimate, overhead_s: float = 0.0
) -> bool:
    """Whether a device that changes explains the trials (in the order of time) better than one that does not.

    ``loss_ratio`` is the one that is searched for, ``overhead_s`` what lies between two trials. From a clear overload
    a device may forward less than it could, but never more: such trials only tell that it was faster once.
    """
    if estimate.noise > NOISIEST:
        return True
    near_bps = estimate.rate_bps * math.exp(max(0.2, 3 * estimate.noise))
    faster_bps = estimate.capacity_bps * math.exp(max(FASTER, FASTER_DEVIATIONS * estimate.noise))
    if any(t.forwarded_rate_bps > (1 - estimate.floor) * faster_bps for t in trials):
        return True
    middles_s = np.cumsum([t.duration_s + overhead_s for t in trials]) - [t.duration_s / 2 for t in trials]
    tells = [t.loss_ratio <= loss_ratio or t.offered_rate_bps < near_bps for t in trials]
    if sum(tells) < FEWEST:
        return False
    likelihood = _likelihood([t for t, tell in zip(trials, tells, strict=True) if tell], loss_ratio, estimate)
    times_s = middles_s[tells]
    steady = _log_mean(np.log(likelihood).sum(axis=0))
    changing = max(_log_switching(likelihood, times_s), _log_drifting(likelihood, times_s))
    return changing - steady > math.log(ODDS)


def _likelihood(trials: Sequence[SearchTrial], loss_ratio: float, estimate: PosteriorEstimate) -> Array:
    """The likelihood of each trial (first axis) at each capacity and noise."""
    capacity: Array = math.log(estimate.capacity_bps) + STEP * np.arange(-REACH, REACH + 1.0)
    fixed = (estimate.jitter, estimate.floor, estimate.stalls_per_s, estimate.startup_s, estimate.livelock)
    devices = Devices(capacity[:, None], NOISE, *map(np.asarray, fixed))
    return np.stack([devices.likelihood(trial, loss_ratio) for trial in trials])


def _log_mean(logarithms: Array) -> float:
    highest = logarithms.max()
    return float(highest + np.log(np.exp(logarithms - highest).mean()))


def _log_switching(likelihood: Array, times_s: Array) -> float:
    """Evidence of two states, by the forward algorithm for every pair of capacities, noise and dwell time at once."""
    size = likelihood.shape[1]
    low = np.arange(size)
    high = np.minimum(low[:, None] + GAPS, size - 1)
    shape = (size, GAPS.size, NOISE.size, DWELLS_S.size)
    in_low, in_high = np.full(shape, 0.5), np.full(shape, 0.5)
    evidence = np.zeros(shape)
    for now, passed_s in zip(likelihood, np.diff(times_s, prepend=times_s[0]), strict=True):
        same = 0.5 + 0.5 * np.exp(-2 * passed_s / DWELLS_S)  # chance to meet the state of the trial before
        in_low, in_high = in_low * same + in_high * (1 - same), in_high * same + in_low * (1 - same)
        in_low *= now[low][:, None, :, None]
        in_high *= now[high][..., None]
        total = in_low + in_high
        evidence += np.log(total)
        in_low /= total
        in_high /= total
    return _log_mean(evidence)


def _log_drifting(likelihood: Array, times_s: Array) -> float:
    """Evidence of a steady drift."""
    count, size, _ = likelihood.shape
    share = (times_s - times_s[0]) / (times_s[-1] - times_s[0]) - 0.5
    moved = np.rint(DRIFTS[:, None] * share).astype(np.intp)  # drift, trial
    at = np.clip(np.arange(size)[None, None] + moved[..., None], 0, size - 1)
    log_likelihood = np.log(likelihood)
    return _log_mean(np.stack([log_likelihood[np.arange(count)[:, None], places].sum(axis=0) for places in at]))
