"""The WAN's conditions as data: delay, jitter, loss, rate, queue and MTU, the presets, and what is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.data.errors import UsageError
from runner.data.numbers import number

SELDOM = 4  # standard deviations: farther from the mean is one packet of 30,000


@dataclass(frozen=True)
class Conditions:
    """What each direction of the WAN does to a packet. ``rate_bps`` None: as fast as the lab is."""

    delay_ms: float = 0.0  # one way: the round trip has twice this
    jitter_ms: float = 0.0  # standard deviation of the delay, normally distributed, order kept
    loss_ratio: float = 0.0  # independent losses
    rate_bps: float | None = None
    queue_ms: float = 20.0  # what may wait for the rate
    mtu_bytes: int = 1500

    @property
    def is_impaired(self) -> bool:
        """Is netem needed?"""
        return bool(self.delay_ms or self.jitter_ms or self.loss_ratio)

    @property
    def rtt_s(self) -> float:
        """The round trip that nearly no packet exceeds while the queue is empty."""
        return 2 * (self.delay_ms + SELDOM * self.jitter_ms) / 1e3


# Our choice of round numbers. The satellite's delay: RFC 2488 §2 (geostationary, 240 to 280 ms one way).
PRESETS = {
    "lan": Conditions(),
    "metro": Conditions(delay_ms=2.5, jitter_ms=0.2, rate_bps=1e9),
    "intercontinental": Conditions(delay_ms=75, jitter_ms=1, loss_ratio=0.0005, rate_bps=100e6, queue_ms=50),
    "lte": Conditions(delay_ms=25, jitter_ms=5, loss_ratio=0.002, rate_bps=30e6, queue_ms=200),
    "satellite": Conditions(delay_ms=270, jitter_ms=2, loss_ratio=0.005, rate_bps=20e6, queue_ms=300),
}
# Factor -> the field that it sets on top of the preset, and its range.
FACTORS = {
    "wan_delay_ms": ("delay_ms", 0.0, 5000.0),
    "wan_jitter_ms": ("jitter_ms", 0.0, 1000.0),
    "wan_loss_ratio": ("loss_ratio", 0.0, 0.5),
    "wan_rate_bps": ("rate_bps", 1e5, 100e9),
    "wan_queue_ms": ("queue_ms", 1.0, 10_000.0),
    "wan_mtu_bytes": ("mtu_bytes", 576.0, 9000.0),
}


def conditions(params: Mapping[str, str], profile_rate_bps: float | None = None) -> Conditions:
    """The WAN conditions of ``params``: a preset (factor ``wan``), single factors on top of it, and the profile's rate
    where no parameter names one."""
    preset = PRESETS[params.get("wan", "lan")]
    if preset.rate_bps is None:
        preset = replace(preset, rate_bps=profile_rate_bps)
    for factor, (name, _, _) in FACTORS.items():
        if factor in params:
            value = float(params[factor])
            changed: dict[str, Any] = {name: int(value) if name == "mtu_bytes" else value}
            preset = replace(preset, **changed)
    return preset


def in_range(factor: str, level: str) -> str:
    """The number ``level`` of a WAN factor, as it is written in a trial. Raises UsageError unless it is in range."""
    _, low, high = FACTORS[factor]
    try:
        return f"{number(level, low, high, whole=factor == 'wan_mtu_bytes'):.10g}"
    except ValueError as wrong:
        raise UsageError(f"{factor} takes {wrong}") from None
