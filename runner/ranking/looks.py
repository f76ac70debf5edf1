"""The price of looking: at which level to test, if a run looks several times whether it may stop.

O'Brien and Fleming's rule (Biometrics 35(3), 1979): the bound on the sum of what has been seen is the same at every
look, so that an early look decides what is far apart only, and the last one costs next to nothing. Pocock's constant
level would cost every verdict of the report as much as the first look. A run that is continued has more looks than
one call plans: for these the bound is that of looking all the time.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy

from runner.data.trials import MOST_LOOKS

GRID = 801  # points of the numerical integration, an odd number; the level then has three digits


def nominal(level: float, looks: int, share: float = 1.0) -> float:
    """The two-sided level of a look when ``share`` (0 to 1) of the data is there, so that all of ``looks`` looks
    together reject what is true with the probability ``level``. The last of six at 5 %: 4.0 %, the first: 0.00005 %."""
    if looks == 1:
        return level
    bound = _last_bound(level, looks) if looks <= MOST_LOOKS else _bound_at_any_time(level)
    return float(2 * scipy.special.ndtr(-bound / math.sqrt(share)))


def _bound_at_any_time(level: float) -> float:
    """The bound for any number of looks. The probability that a Brownian motion of length 1 ever leaves ± b is at most
    twice that of its ever being above b, which is twice that of its ending above b (the reflection principle)."""
    return float(-scipy.special.ndtri(level / 4))


@lru_cache(maxsize=1000)
def _last_bound(level: float, looks: int) -> float:
    """The bound of the last look, in standard errors; at the others it is this over the root of their share."""
    low, high = -scipy.special.ndtri(level / 2), -scipy.special.ndtri(level / looks / 2)
    return float(scipy.optimize.brentq(lambda z: _ever_beyond(z, looks) - level, low, high, rtol=1e-5))


def _ever_beyond(bound: float, looks: int) -> float:
    """The probability that |S_k| ≥ bound·√looks at one look k at least, where S_k is a sum of k standard normal
    numbers. It follows the density of the sums that have stayed inside, look by look (Armitage, McPherson and Rowe,
    JRSS A 132(2), 1969)."""
    edge = bound * math.sqrt(looks)
    at = np.linspace(-edge, edge, GRID)
    density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
    step = np.exp(-((at[:, None] - at) ** 2) / 2) / math.sqrt(2 * math.pi)
    weights = np.full(GRID, 2.0)  # of Simpson's rule
    weights[1::2], weights[[0, -1]] = 4, 1
    weights *= 2 * edge / (GRID - 1) / 3  # not a difference of two of them, whose last digits each CPU has its own
    for _ in range(2, looks + 1):
        density = step @ (weights * density)
    return 1 - float(weights @ density)
