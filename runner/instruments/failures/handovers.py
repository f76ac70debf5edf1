"""Many handovers: the first gateway's cable is pulled and put back, again and again, in several labs side by side.

A handover is mostly waiting for a timer that counts the silence. So labs share two cores well, and a thousand of them
take minutes. Lab and tunnel stay the same. With CLUSTERIP the second gateway does not renew the keys: its packets
leave, which ends the handover, and the peer drops them as replays. So the first gateway's SAs stay valid for the next
failure. What a host feels of a handover is measured by the other failures.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from runner.data.errors import MeasurementError
from runner.instruments.failures.cluster import heartbeat_of
from runner.instruments.failures.redundancy import ADVERTISED_S, PAIR, arm, check_preferred, hand_over_of
from runner.instruments.instrument import Go, Measuring
from runner.instruments.result import Measured, measurement
from runner.lab.node import PATIENCE, Process, wait_until
from runner.lab.node.commands import Dialogue
from runner.lab.node.lines import readable
from runner.lab.node.probing import hear_object, probe, tell
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

LIMIT_S = 30.0  # a stream that does not come by one of the gateways for so long is lost
STREAM_S = 0.01
CARRIES_WITHIN_S = 30.0
SLACK_S = 10.0  # a probe answers so much later than its own limits, on a busy machine
PULLED = "the cable of the active gateway's WAN interface is pulled, and put back"


@dataclass
class SeenHandovers:
    """The handovers (s), each with the stream's interval before it (s), and why labs were given up."""

    samples_s: list[float] = field(default_factory=list)
    intervals_s: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def many(bench: Bench, vpn: Vpn, params: Mapping[str, str], timers: str, seed: int) -> Measuring:
    """``handover_ms`` of so many failures as the level ``handovers`` says; each is a slice and a sample.

    Raises MeasurementError where not one was seen, TimeoutError where a second gateway cannot be prepared, and what
    bringing up another lab raises.
    """
    wanted, seen = int(params["handovers"]), SeenHandovers()
    with ExitStack() as stack:
        benches = [bench]
        for _ in range(int(params.get("labs", "1")) - 1):
            if bench.another is None:
                raise MeasurementError("this lab cannot be made twice: --set labs=1")
            benches.append(stack.enter_context(bench.another()))
        watching = [stack.enter_context(failing(each, vpn, params, f"{seed}/{n}")) for n, each in enumerate(benches)]
        for handover_s in collect_handovers(dict(zip(watching, benches, strict=True)), wanted, vpn, params, seen):
            if (yield {"handover_ms": _ms(handover_s)}) is Go.END:
                break
    if not seen.samples_s:
        raise MeasurementError(f"no handover was seen: {'; '.join(seen.lost)}")
    samples = [_ms(sample_s) for sample_s in seen.samples_s]
    low, median, high = (float(quartile) for quartile in np.percentile(samples, (25, 50, 75)))
    quartiles = {"lower_quartile_ms": round(low, 2), "upper_quartile_ms": round(high, 2)}
    ends = {"min_ms": min(samples), "max_ms": max(samples)}
    detail = {"failure": PULLED, "timers": [timers], "handovers": len(samples), "labs": len(benches)}
    detail |= quartiles | ends | {"resolution_ms": _ms(max(seen.intervals_s)), "lost": len(seen.lost)}
    warnings = [f"a lab was given up: {why}" for why in seen.lost]
    if len(samples) < wanted:
        warnings.append(f"{len(samples)} of {wanted} handovers were measured")
    value = measurement("handover_ms", median, samples, **detail)
    return Measured([value], warnings=warnings)


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 2)


@contextmanager
def failing(bench: Bench, vpn: Vpn, params: Mapping[str, str], seed: str) -> Iterator[Dialogue]:
    """A lab whose second gateway stands by, a stream through its tunnel, and the probe that pulls the cable."""
    lab, redundancy = bench.lab, params["redundancy"]
    arm(lab, vpn, redundancy, renew=False)
    wait_until(bench.carries_payload, "payload through the tunnel before the failure", CARRIES_WITHIN_S * PATIENCE)
    check_preferred(lab)
    period_s = heartbeat_of(params) if redundancy == "clusterip" else ADVERTISED_S[redundancy]
    far, how = lab.sites[-1].wan_address, (f"{1.2 * period_s + 0.2:g}", f"{period_s:g}", f"{LIMIT_S * PATIENCE:g}")
    with (
        streaming(lab, bench.address),
        probe(lab.wan, "handovers", far, *PAIR, *how, seed, ready="watching") as watcher,
    ):
        yield watcher


@contextmanager
def streaming(lab: Lab, address: str) -> Iterator[Process]:
    """The near host asks the far one for an echo every ``STREAM_S`` (ping(8)), until the end of the block."""
    stream = lab.host1.spawn("ping", "-n", "-q", "-i", f"{STREAM_S:g}", "-s", "172", address, log="ping")
    try:
        yield stream
    finally:
        stream.stop()


def collect_handovers(
    labs: Mapping[Dialogue, Bench], wanted: int, vpn: Vpn, params: Mapping[str, str], seen: SeenHandovers
) -> Iterator[float]:
    """Yield handovers (s) and add them to ``seen``, until it has ``wanted`` of them or no lab is left. A lab is given
    up when its probe sends nothing for longer than a failure may take.

    Raises MeasurementError where a probe died.
    """
    within_s = 2 * LIMIT_S * PATIENCE + heartbeat_of(params) + SLACK_S  # for it to calm down, and to fail over
    waiting: dict[Dialogue, float] = {}  # a probe, and when it is given up

    def ask(watcher: Dialogue) -> None:
        if len(seen.samples_s) + len(waiting) < wanted:
            waiting[watcher] = time.monotonic() + within_s
            again(watcher)

    for watcher in labs:
        ask(watcher)
    while waiting:
        left_s = min(waiting.values()) - time.monotonic()
        for watcher in readable(waiting, left_s):
            report = hear_object(watcher, "handovers", max(1.0, waiting.pop(watcher) - time.monotonic()))
            if "lost" in report:
                seen.lost.append(report["lost"])
                continue
            seen.samples_s.append(report["handover_s"])
            seen.intervals_s.append(report["interval_s"])
            give_back(labs[watcher].lab, vpn, params["redundancy"])
            ask(watcher)
            yield report["handover_s"]
        for watcher in [each for each, until in waiting.items() if until < time.monotonic()]:
            del waiting[watcher]
            seen.lost.append(f"its probe said nothing for {within_s:g} s")


def again(watcher: Dialogue) -> None:
    """Tell the probe to cause the next failure."""
    tell(watcher, "handovers", "again")


def give_back(lab: Lab, vpn: Vpn, redundancy: str) -> None:
    """Make the second gateway give the site up before the first one's cable is back. Otherwise both are responsible,
    and the plugin ha chooses the second one, by its number. keepalived prefers the first by itself."""
    if redundancy == "clusterip":
        lab.nodes[PAIR[1]].run("sh", "-c", hand_over_of(vpn).passive)
