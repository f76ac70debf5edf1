"""What the ClusterIP paper found of the handover's time, and its judge."""

from functools import partial

from runner.papers.findings import Data, Finding, Judgement, single

# VRRP: 3 advertisements and (256 - priority 100) / 256 of one (RFC 9568 §6.1). CLUSTERIP: the paper's timeout.
DETECTED_MS = {"vrrp": 3609.0, "vrrp_fast": 360.9, "clusterip": 2100.0}
DOMINATED = "the time between heartbeats dominates the handover: handover over detection, {}"


def dominated(data: Data, redundancy: str) -> Judgement:
    """Handover over the time after which silence is a death; the paper's 1.63 to 1.66 s over its 2.1 s is 0.78."""
    levels = {"redundancy": redundancy, "gateway_failure": "gateway"}
    vpn = next((name for name in data.vpns("handover_ms") if name.startswith("ipsec")), "ipsec")
    values = data.blocks("handover_ms", vpn, **levels)
    return single({block: value / DETECTED_MS[redundancy] for block, value in values.items()}, (0.5, 1.2), 0.78)


FINDINGS = tuple(
    Finding(
        *(f"dominated.{level}", "clusterip", "§VI-A.3", DOMINATED.format(level)), partial(dominated, redundancy=level)
    )
    for level in DETECTED_MS
)
