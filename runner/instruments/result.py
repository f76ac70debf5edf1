"""What a measurement gives: values in the units of their metrics, their samples, and the time it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runner.data.loads import MachineLoad
from runner.data.remarks import Remark
from runner.data.trials import Rung, Timeline, Value


@dataclass
class Measured:
    """What a measurement of one trial gave, and for how long the instruments ran (seconds); 0: as long as it took."""

    measurements: list[Value] = field(default_factory=list)
    measuring_s: float = 0.0
    warnings: list[str] = field(default_factory=list)  # sentences that no code reads
    remarks: list[Remark] = field(default_factory=list)
    attempt: dict[str, Any] = field(default_factory=dict)  # what was seen where there is no number
    loads: list[MachineLoad] = field(default_factory=list)  # of the machines, while a throughput was measured
    curve: list[Rung] = field(default_factory=list)  # of a ladder, made of its slices
    timelines: list[Timeline] = field(default_factory=list)  # of failures caused on purpose


def measurement(metric: str, value: float, samples: list[float] | None = None, **detail: Any) -> Value:
    """A value of one of the instrument's metrics, in the unit that the metric is defined in."""
    return Value(metric=metric, value=value, samples=samples or [], detail=detail)
