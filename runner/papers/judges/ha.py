"""What the ClusterIP paper found of the handover's time, and its judge: seconds, which a timer sets, not a CPU."""

from functools import partial

from runner.papers.claims import IPSEC, judge_beside, time_within
from runner.papers.findings import Data, Judgement

# The silence after which a gateway is dead, and the time between signs of life (s). VRRP: 3 advertisements and (256 -
# priority 100) / 256 of one (RFC 9568 §6.1). CLUSTERIP: strongSwan's own defaults, heartbeat_timeout and
# heartbeat_delay (strongswan.conf(5), plugin ha); the paper's text states neither.
TIMERS_S = {"clusterip": (2.1, 1.0), "vrrp": (3.609, 1.0), "vrrp_fast": (0.361, 0.1)}


def silence_dominates(vpn: str, redundancy: str, data: Data) -> Judgement:
    """The handover when a gateway dies (s): waiting for silence takes more than half of it. It is no shorter than the
    silence less one period, because the last sign of life is up to a period old."""
    silence_s, period_s = TIMERS_S[redundancy]
    levels = {"redundancy": redundancy, "gateway_failure": "gateway"}
    values = data.blocks("handover_ms", vpn, **levels)
    between_s = (silence_s - period_s, 2 * silence_s)
    return time_within({block: value / 1000 for block, value in values.items()}, between_s).with_systems(vpn)


def judge_modes(data: Data) -> Judgement:
    """CLUSTERIP with the kernel's ESP, as in the paper; VRRP and userspace ESP beside it."""
    cells = {f"{vpn} with {mode}": partial(silence_dominates, vpn, mode, data) for mode in TIMERS_S for vpn in IPSEC}
    (_, papers), *others = cells.items()
    return judge_beside(papers, dict(others))
