"""The rule: of the VPNs that fulfil the musts, those with the best grade on the line and the least reservation; of
these, those that cost the gateways least, within a wide margin. Absolute stages first, one relative stage last: so no
VPN that is not chosen changes the choice.

A cost is a difference to plain IP, and may come out below 0. As the cheapest it counts with its size: what cannot be
told from plain IP sets the others no bar below its own noise, and it is no reason against the VPN either."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runner.choice.device import DRAWS
from runner.choice.grade import WORST, Graded
from runner.choice.model import Grade
from runner.choice.thresholds import Thresholds

Chosen = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def choose(candidates: Sequence[Graded], thresholds: Thresholds, cores: float | None = None) -> Chosen:
    """Which candidates each draw chooses, shape (DRAWS, candidates); none where all are useless or unknown. ``cores``:
    of the gateway, where they are stated."""
    if not candidates:
        return np.zeros((DRAWS, 0), dtype=bool)
    grades = np.column_stack([candidate.grade for candidate in candidates])
    standings = np.column_stack([candidate.standing for candidate in candidates])
    usable = grades <= Grade.SHORT
    best = np.where(usable, standings, WORST).min(axis=1, keepdims=True)
    among = usable & (standings == best)
    capacity = np.where(among, np.column_stack([candidate.capacity_bps for candidate in candidates]), 0.0)
    near = capacity >= thresholds.short * capacity.max(axis=1, keepdims=True)
    among &= (grades < Grade.SHORT) | near
    costs = np.where(among, np.column_stack([candidate.cores for candidate in candidates]), np.inf)
    cheapest = np.abs(costs).min(axis=1, keepdims=True)
    margin = max(thresholds.cost_cores, thresholds.cost_share * (cores or 0.0))
    dear = np.maximum(cheapest + margin, cheapest * thresholds.cost_ratio)
    return np.asarray(among & (costs <= dear))
