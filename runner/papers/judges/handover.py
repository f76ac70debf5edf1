"""What the ClusterIP paper found of the handover's time (§VI-A.3), and its judges: of a thousand samples."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from runner.data.asked import AskedRun
from runner.papers.claims import IPSEC, judge_beside, time_within
from runner.papers.findings import Data, Ends, Finding, Judgement, NotMeasured
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


def statistic(
    of: Callable[[Samples], float], between_s: Ends, published_s: Ends, by_repetition: Mapping[int, Samples]
) -> Judgement:
    """A statistic (s) of each repetition's handovers lies between two bounds."""
    return time_within(
        {repetition: of(samples) for repetition, samples in by_repetition.items()}, between_s, published_s
    )


def share(low_s: float, high_s: float, by_repetition: Mapping[int, Samples]) -> Judgement:
    """The share of all handovers that take between two times: always."""
    every = [sample for samples in by_repetition.values() for sample in samples]
    return share_of(sum(low_s <= sample <= high_s for sample in every), len(every), ALWAYS)


def median(samples: Samples) -> float:
    """The median handover, s."""
    return float(np.median(samples))


def between_quartiles(samples: Samples) -> float:
    """From the lower quartile to the upper one, s."""
    low, high = np.percentile(samples, (25, 75))
    return float(high - low)


_RUN = AskedRun(experiments="handover", kernel="uml", vpns="ipsec")
FINDINGS = tuple(
    Finding(name, "clusterip", "§VI-A.3", claim, partial(by_mode, judge), "timer", counts=counts, run=_RUN)
    for name, claim, judge, counts in (
        (
            *("median", "the handover takes 1.63 to 1.66 s (here: its median)"),
            partial(statistic, median, (LOW_S / FIFTH, HIGH_S * FIFTH), (LOW_S, HIGH_S)),
            "the median handover takes {}",
        ),
        (
            *("quartiles", "the handovers' quartiles are 0.03 s apart, at 1.63 and 1.66 s"),
            partial(statistic, between_quartiles, (0.0, (HIGH_S - LOW_S) * FIFTH), (HIGH_S - LOW_S, HIGH_S - LOW_S)),
            "the quartiles of the handovers are {} apart",
        ),
        (
            *("specified", "the handover takes the 1 to 3 s that strongSwan expects (here: 99 %)"),
            partial(share, *STATED.ends("specification")),
            "after a share of {} of the failures the handover takes 1 to 3 s",
        ),
        (
            *("goes-on", "hot standby lets IPsec go on after each failure (here: 99 %)"),
            partial(share, 0.0, sys.float_info.max),
            "packets come through again after a share of {} of the failures",
        ),
    )
)
