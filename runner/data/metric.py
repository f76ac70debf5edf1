"""What a metric is: its unit, which way is better, its definition, and where the definition comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from runner.data.kinds import LARGEST, Line, MetricName, Real, Text, Unit

# Where a metric does not say: what runs were measured with before metrics had margins, too.
MARGINS = {"rtt": 1.15, "udp_rtt": 1.15, "rtt_loaded": 1.15, "setup_time": 1.2, "jitter": 1.5}
MARGIN = 1.1

# What a value of the unit 1 cannot leave, which tells nothing by itself: shares of all, verdicts, points and counts.
_NO_MORE_THAN_ALL = (
    *("fairness", "clients_fairness", "forwarded_share", "confidentiality", "data_integrity", "anti_replay"),
    *("peer_authentication", "key_authentication", "fail_closed", "diversion_resistance", "length_hiding"),
    *("content_hiding", "dns_unanswered_loaded", "overlap_reach", "functions_apart"),
    *("dscp_copied", "congestion_heard", "duplicates_borne", "burst_loss_borne", "passes_without_udp"),
    *("passes_https_only", "handshake_passes", "expiry_borne", "expiry_refused", "steady_loss"),
    "steady_worst_second_loss",
)
_COUNTS = (
    *("setup_files", "setup_lines", "setup_commands", "setup_secrets", "manual_routes", "cipher_choice"),
    *("scaling_effort", "scaling_lines"),
)
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_NO_MORE_THAN_ALL, (0.0, 1.0)),
    **dict.fromkeys(_COUNTS, (0.0, math.inf)),
    "policed_share": (0.0, math.inf),  # of what plain IP got, a moment before
    "rekey_loss": (-math.inf, 1.0),  # more may come after a rekey than before, but not less than nothing
    "declared_strength": (-math.inf, 10.0),
    "soak_descriptors": (-math.inf, math.inf),  # a daemon may also close some
}


class Metric(BaseModel):
    """One quantity that a trial can measure.

    ``unit`` is SI; ``better`` says which way a VPN wins; ``measure`` is the name of its instrument, which the catalogue
    adds. ``exact``: a count on paper, or a verdict that had its control: one repetition settles what does not vary.
    ``margin``: two VPNs of which one has up to this many times the other's value are the same for a user.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: MetricName  # a word: files, addresses and --weights are made of it
    title: Line
    unit: Unit
    better: Literal["higher", "lower"]
    definition: Text
    source: Text
    measure: Line = ""
    exact: bool = False
    margin: Annotated[Real, Field(gt=1)] = MARGIN

    @model_validator(mode="before")
    @classmethod
    def _margin(cls, given: Any) -> Any:
        if isinstance(given, dict) and "margin" not in given:
            return given | {"margin": MARGINS.get(str(given.get("name")), MARGIN)}
        return given


# Of these, nothing can be less than none. (An overhead in byte/packet can: compression.)
NEVER_NEGATIVE = (
    *("s", "ms", "bit/s", "packet/s", "exchange/s", "B", "byte", "packet"),
    *("s/GB", "/packet", "packet/packet", "byte/byte"),
    *("ms/min", "/min", "B/min"),
)
# Whatever its unit, nothing but 0 was measured beyond these, where ratios and sums are no numbers any more.
SMALLEST = 1e-100


def impossible(numbers: Sequence[float], unit: str = "") -> str:
    """Why these cannot have been measured in this unit, or ""."""
    if min(numbers) < 0 and unit in NEVER_NEGATIVE:
        return f"{min(numbers):g} {unit}; it cannot be less than zero"
    sizes = [abs(number) for number in numbers if number] or [1.0]
    if not SMALLEST <= min(sizes) <= max(sizes) <= LARGEST:
        wrong = min(sizes) if min(sizes) < SMALLEST else max(sizes)
        return f"{wrong:g} in size; what is measured is 0, or from {SMALLEST:g} to {LARGEST:g}"
    return ""
