"""What the ClusterIP paper found of the handover's time (§VI-A.3), and its judges: of a thousand samples."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from runner.papers.claims import IPSEC, judge_beside, time_within
from runner.papers.findings import Data, Ends, Judgement, NotMeasured
from runner.papers.judges.ha_http import FIFTH, MODES, STATED
from runner.papers.shares import ALWAYS, share_of

ENOUGH = 20  # samples of a repetition, for quartiles
TIMERS = {"gateway_failure": "interface", "heartbeat_ms": "1000"}  # strongSwan's own
TIMED = {"ha_sync": ", by VRRP's timers of 0.1 s,"}  # another mechanism than CLUSTERIP's heartbeats
LOW_S, HIGH_S = STATED.ends("handover")
Samples = Sequence[float]  # handovers of one repetition, s


def samples_s(data: Data, vpn: str, mode: str) -> dict[int, list[float]]:
    """Repetition -> its handovers (s), infinite where nothing came any more, and a lab was given up. Raises NotMeasured
    where no repetition has enough of them."""
    by_repetition = {
        trial.repetition: [sample_ms / 1000 for sample_ms in measured.samples]
        + [math.inf] * int(measured.detail.get("lost", 0))
        for trial in data.matching(vpn, {**TIMERS, "redundancy": mode})
        for measured in trial.measurements
        if trial.status == "ok" and measured.metric == "handover_ms" and len(measured.samples) >= ENOUGH
    }
    if not by_repetition:
        raise NotMeasured(f"{vpn} has no {ENOUGH} handovers with {mode} in one repetition of this run")
    return by_repetition


def by_mode(judge: Callable[[Mapping[int, Samples]], Judgement], data: Data) -> Judgement:
    """``judge`` of each repetition's handovers: CLUSTERIP with the kernel's ESP decides, the others are beside it. The
    reason has the ends of the paper's box: least, quartiles with the median between them, greatest."""

    def of_cell(vpn: str, mode: str) -> Judgement:
        by_repetition = samples_s(data, vpn, mode)
        judged = judge(by_repetition).with_systems(vpn)
        every = [sample for samples in by_repetition.values() for sample in samples if sample < math.inf]
        box = ", ".join(f"{end:.3g}" for end in np.percentile(every, (0, 25, 50, 75, 100)))
        reason = f"{judged.reason}; {len(every)} handovers, box {box} s"
        lost = sum(len(samples) for samples in by_repetition.values()) - len(every)
        note = f"after {lost} of {len(every) + lost} failures nothing came any more" if lost else ""
        return judged.model_copy(update={"reason": reason, "note": note})

    (_, papers), *others = {
        f"{vpn} with {mode}{TIMED.get(mode, '')}": partial(of_cell, vpn, mode) for mode in MODES for vpn in IPSEC
    }.items()
    return judge_beside(papers, dict(others))


def statistic(data: Data, of: Callable[[Samples], float], between_s: Ends, published_s: Ends) -> Judgement:
    """A statistic (s) of each repetition's handovers lies between two bounds."""
    return by_mode(lambda every: time_within({one: of(every[one]) for one in every}, between_s, published_s), data)


def median(data: Data) -> Judgement:
    """The median handover lies within a fifth of the paper's two ends."""
    return statistic(data, lambda times_s: float(np.median(times_s)), (LOW_S / FIFTH, HIGH_S * FIFTH), (LOW_S, HIGH_S))


def quartiles(data: Data) -> Judgement:
    """From the lower quartile to the upper one it is no further than in the paper, within a fifth."""
    paper_s = HIGH_S - LOW_S

    def apart_s(times_s: Samples) -> float:
        low_s, high_s = np.percentile(times_s, (25, 75))
        return float(high_s - low_s)

    return statistic(data, apart_s, (0.0, paper_s * FIFTH), (paper_s, paper_s))


def share_within(data: Data, stated: str = "") -> Judgement:
    """The share of all handovers that lie within the paper's ends ``stated``, or that come to an end: always."""
    low_s, high_s = STATED.ends(stated) if stated else (0.0, sys.float_info.max)

    def share(by_repetition: Mapping[int, Samples]) -> Judgement:
        every = [sample for samples in by_repetition.values() for sample in samples]
        return share_of(sum(low_s <= sample <= high_s for sample in every), len(every), ALWAYS)

    return by_mode(share, data)
