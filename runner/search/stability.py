"""Whether one throughput describes all the trials, or the device changed while it was searched."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from runner.search.model import SearchTrial
from runner.search.posterior import Estimate, normal

NOISIEST = 0.07  # a capacity that differs more than this between trials is no noise of one device
FEWEST = 8
SIGNIFICANT = 2.3  # standard errors
STRANGE, STRANGE_SHARE = 4.0, 0.1  # more trials than this far below what noise explains are no stalls
CLEAR = 0.0015  # loss above the floor that only congestion explains


def unstable(trials: Sequence[SearchTrial], losses: Sequence[float], estimate: Estimate) -> bool:
    """Whether the capacity moved in time: a trend, or neighbours in time more alike than noise allows.

    ``losses`` are the loss ratios of ``trials``, in the order of time.
    """
    if estimate.noise > NOISIEST:
        return True
    if len(trials) < FEWEST:
        return False
    scores = np.array([_score(t, loss, estimate) for t, loss in zip(trials, losses, strict=True)])
    if np.mean(scores < -STRANGE) > STRANGE_SHARE:
        return True
    # one stall must not look like a trend
    scores = np.clip(scores - np.median(scores), -3, 3)
    scores -= scores.mean()
    power = float(scores @ scores) + 1e-12
    time = np.arange(len(scores)) - (len(scores) - 1) / 2
    trend = float(time @ scores) / math.sqrt(float(time @ time) * power)
    alike = float(scores[1:] @ scores[:-1]) / power
    # passes alone tell little about the capacity, but in an independent series they do not come in runs
    lossy = np.array([float(loss - estimate.floor > CLEAR) for loss in losses])
    lossy -= lossy.mean()
    alike = max(alike, float(lossy[1:] @ lossy[:-1]) / (float(lossy @ lossy) + 1e-12))
    root = math.sqrt(len(scores))
    return abs(trend) * root > SIGNIFICANT or alike * root > SIGNIFICANT


def _score(trial: SearchTrial, loss_ratio: float, estimate: Estimate) -> float:
    """The trial's capacity in standard deviations of the noise; its expected value where it was not reached."""
    lost = 1 - (1 - loss_ratio) / (1 - estimate.floor)
    reached = math.log(trial.offered_rate_bps * max(1e-3, 1 - max(lost, 0.0)) / estimate.capacity_bps)
    score = reached / estimate.noise
    if lost > CLEAR:
        return float(np.clip(score, -6, 6))
    score = min(score, 5.0)
    return float(normal(np.array(score), 1.0) / ndtr(-score))
