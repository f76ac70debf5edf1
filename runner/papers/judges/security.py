"""What the OSLV paper read of proprietary VPNs' security (Table 4), the thesis' open question of a ranking, and their
judges: probes on the WAN."""

from functools import partial
from math import inf
from statistics import fmean

from runner.data.strength import PER_FAILURE
from runner.papers.claims import all_of, decide
from runner.papers.findings import Blocks, Data, Judgement, NotMeasured

# The paper's four columns, and the probes that put each to the test.
PROBES = ("confidentiality", "data_integrity", "peer_authentication", "anti_replay")
WHOLE = ("openvpn", "tinc")  # those that have all four in the paper
LACKING = ("pptp", "l2tp", "vtun", "vtun_ppp")  # those that live of the others
OTHERS = ("openvpn", "ssh_forward", "ssh_tun")  # the thesis' beside IPsec
NONE_LACKS = len(PROBES) - 0.5
# Whether a VPN fails closed is decided by who makes its interface, which here differs from VPN to VPN.
SETUP = "fail_closed"


def properties(vpn: str, between: tuple[float, float], data: Data) -> Judgement:
    """How many of the four a VPN has: each probe passed in every repetition (their ends are the interval, and one
    repetition has none)."""
    passed = [data.blocks(probe, vpn, compression="off") for probe in PROBES]
    shared = set.intersection(*(set(values) for values in passed))
    if not shared:
        raise NotMeasured(f"{vpn}: no repetition has all four probes")
    counts = [sum(values[block] for values in passed) for block in sorted(shared)]
    low, high = (min(counts), max(counts)) if len(counts) > 1 else (None, None)
    return decide(fmean(counts), low, high, between).with_systems(vpn)


def all_four(data: Data) -> Judgement:
    """OpenVPN and tinc have all four properties, and no other of the paper's proprietary VPNs has."""
    have = {vpn: partial(properties, vpn, (NONE_LACKS, 4.0), data) for vpn in WHOLE}
    lack = {vpn: partial(properties, vpn, (0.0, NONE_LACKS), data) for vpn in LACKING}
    judgement = all_of(have | lack)
    if not {*WHOLE} <= {*judgement.systems}:
        raise NotMeasured("OpenVPN and tinc are not both in this run")
    if {*judgement.systems} == {*WHOLE}:
        raise NotMeasured(f"that they are the only ones needs others: {', '.join(LACKING)}")
    others = [f"{vpn} {lack[vpn]().value:g}" for vpn in LACKING if vpn in judgement.systems]
    return judgement.model_copy(update={"note": f"of the others: {', '.join(others)}"})


def point_spread(ipsec: str, data: Data) -> Judgement:
    """By how many points the safest of the thesis' four is above the least safe. The points: what the plugin declares,
    less PER_FAILURE for each probe that failed, but for SETUP. The note has all four in their order, these probes, and
    who failed SETUP."""
    points = {vpn: _points(vpn, data) for vpn in (ipsec, *OTHERS)}
    shared = set.intersection(*(set(values) for values in points.values()))
    if not shared:
        raise NotMeasured("no repetition has all four VPNs")
    apart = [max(p[block] for p in points.values()) - min(p[block] for p in points.values()) for block in shared]
    low, high = (min(apart), max(apart)) if len(apart) > 1 else (None, None)
    means = {vpn: fmean(values[block] for block in shared) for vpn, values in points.items()}
    failed = {vpn: _failed_probes(vpn, data) for vpn in sorted(means, key=lambda vpn: -means[vpn])}
    order = []
    for vpn, probes in failed.items():
        titles = [data.run.metrics[probe].title for probe in probes if probe != SETUP and probe in data.run.metrics]
        order.append(f"{vpn} {means[vpn]:g}" + f" (not passed: {', '.join(titles)})" * bool(titles))
    open_ones = [vpn for vpn, probes in failed.items() if SETUP in probes]
    note = f"in points: {', '.join(order)}" + f"; as set up here, not closed: {', '.join(open_ones)}" * bool(open_ones)
    return decide(fmean(apart), low, high, (0.5, inf)).with_systems(*points).model_copy(update={"note": note})


def _points(vpn: str, data: Data) -> Blocks:
    """Block -> points, SETUP left out."""
    points = data.blocks("declared_strength", vpn, compression="off")
    back = PER_FAILURE * (SETUP in _failed_probes(vpn, data))
    return {block: value + back for block, value in points.items()}


def _failed_probes(vpn: str, data: Data) -> list[str]:
    """The probes that took points from a VPN."""
    found = [m for trial in data.matching(vpn, {"compression": "off"}) for m in trial.measurements]
    return list(dict.fromkeys(probe for m in found for probe in m.detail.get("outranked_by", ())))
