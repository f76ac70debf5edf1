"""What run.json says of the lab: its facts, what its CPU encrypts, and what its packet generator offers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError


class GeneratorLimit(BaseModel):
    """What the packet generator offers at most: packets of ``ip_bytes`` at full speed over plain IP, counted where they
    came in at the far host. ``bps``: of IP. ``by``: the system call. ``burst_packets``: what was
    asked for; at full speed the sender makes no pause between bursts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ip_bytes: int = Field(gt=0)
    packets_per_s: FiniteFloat = Field(gt=0)
    bps: FiniteFloat = Field(gt=0)
    by: str
    processes: int = Field(ge=1)
    burst_packets: int = Field(ge=1)


def generator_limits(lab: Mapping[str, Any]) -> list[GeneratorLimit]:
    """What the generator offers at most in a run whose ``lab`` this is. Empty in older runs, and where the generator
    sent nothing. Raises ValueError where that is no such list."""
    limits = lab.get("generator", [])
    if not isinstance(limits, list):
        raise ValueError(f"generator is a list of what the generator offers, not {limits!r:.60}")
    try:
        return [GeneratorLimit.model_validate(limit) for limit in limits]
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise ValueError(f"generator: {'.'.join(map(str, first['loc']))} {first['msg']}") from None


def _rates(lab: dict[str, Any]) -> dict[str, Any]:
    speeds = lab.get("openssl_bps", {})
    if not isinstance(speeds, dict):
        raise ValueError(f"openssl_bps is a table of rates by level, not {speeds!r:.60}")
    for level, speed in speeds.items():
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < math.inf:
            raise ValueError(f"openssl_bps of {level} is a rate in bit/s above zero, not {speed!r:.60}")
    generator_limits(lab)
    return lab


LabFacts = Annotated[dict[str, Any], AfterValidator(_rates)]
