"""What a measurement gives: values in the units of runner/data/metrics, their samples, and the time it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runner.data.metrics import METRICS
from runner.data.trials import Measurement, Timeline


@dataclass
class Measured:
    """What a measurement of one trial gave, and for how long the instruments ran (seconds)."""

    measurements: list[Measurement] = field(default_factory=list)
    measuring_s: float = 0.0
    warnings: list[str] = field(default_factory=list)
    attempt: dict[str, Any] = field(default_factory=dict)  # what was seen where there is no number
    timelines: list[Timeline] = field(default_factory=list)  # of failures caused on purpose


def measurement(metric: str, value: float, samples: list[float] | None = None, **detail: Any) -> Measurement:
    """A value in the unit that the metric is defined in."""
    known = METRICS[metric]
    return Measurement(
        metric=metric, value=value, unit=known.unit, better=known.better, samples=samples or [], detail=detail
    )
