"""What a metric is: its unit, which way is better, its definition, and where the definition comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One quantity that a trial can measure. ``unit`` is SI; ``better`` says which way a VPN wins;
    ``transport`` is the traffic of the trials that measure it."""

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    definition: str
    source: str
    transport: Literal[
        "tcp",
        "udp",
        "idle",
        "loaded",
        "download",
        "packets",
        "overhead",
        "mtu",
        "duplex",
        "flows",
        "clients",
        "rekey",
        "device",
        "security",
        "operations",
        "mesh",
        "recovery",
        "reroute",
        "failover",
    ]

    @property
    def exact(self) -> bool:
        """Is it a count on paper, or a verdict that had its control? One repetition settles what does not vary."""
        return self.transport in ("security", "operations")
