"""What the ClusterIP paper found of the handover's time, and its judge: seconds, which a timer sets, not a CPU."""

from functools import partial

from runner.papers.claims import IPSEC, judge_beside, time_within
from runner.papers.findings import Data, Judgement, NotMeasured
from runner.papers.shares import ALWAYS, recovery_counts, share_of

# The silence after which a gateway is dead, and the time between signs of life (s). VRRP: 3 advertisements and (256 -
# priority 100) / 256 of one (RFC 9568 §6.1). CLUSTERIP: strongSwan's own defaults, heartbeat_timeout and
# heartbeat_delay (strongswan.conf(5), plugin ha); the paper's text states neither.
TIMERS_S = {"clusterip": (2.1, 1.0), "vrrp": (3.609, 1.0), "vrrp_fast": (0.361, 0.1)}

HOT = ("clusterip", "ha_sync")  # where the second gateway has the state beforehand
DEATHS = ("interface", "gateway", "daemon")


def silence_dominates(vpn: str, redundancy: str, data: Data) -> Judgement:
    """The handover when a gateway dies (s): waiting for silence takes more than half of it. It is no shorter than the
    silence less one period, because the last sign of life is up to a period old."""
    silence_s, period_s = TIMERS_S[redundancy]
    levels = {"redundancy": redundancy, "gateway_failure": "gateway"}
    values = data.blocks("handover_ms", vpn, **levels)
    between_s = (silence_s - period_s, 2 * silence_s)
    return time_within({block: value / 1000 for block, value in values.items()}, between_s).with_systems(vpn)


def available(vpn: str, redundancy: str, data: Data) -> Judgement:
    """The share of failures of the active gateway after which the hosts' packets came through again: all of them.

    Without a second gateway they come through when the first one is back, and not before: the experiment has no such
    trial, because it would measure for how long a gateway was switched off.
    """
    mine = [t for t in data.matching(vpn, {"redundancy": redundancy}) if t.params.get("gateway_failure") in DEATHS]
    again, failures = recovery_counts(mine, "failover_outage_ms")
    if not failures:
        raise NotMeasured(f"no gateway of {vpn} failed with {redundancy} in this run")
    judgement = share_of(again, failures, ALWAYS).with_systems(vpn)
    return judgement.model_copy(
        update={"reason": f"{judgement.reason}; without a second gateway none goes on by itself"}
    )


def with_standby(data: Data) -> Judgement:
    """The paper's hot standby is CLUSTERIP with the kernel's ESP; the others are beside it."""
    cells = {f"{vpn} with {mode}": partial(available, vpn, mode, data) for mode in HOT for vpn in IPSEC}
    (_, papers), *others = cells.items()
    return judge_beside(papers, dict(others))


def judge_modes(data: Data) -> Judgement:
    """CLUSTERIP with the kernel's ESP, as in the paper; VRRP and userspace ESP beside it."""
    cells = {f"{vpn} with {mode}": partial(silence_dominates, vpn, mode, data) for mode in TIMERS_S for vpn in IPSEC}
    (_, papers), *others = cells.items()
    return judge_beside(papers, dict(others))
