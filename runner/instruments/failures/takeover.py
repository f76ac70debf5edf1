"""A gateway of two fails, and the other takes over: handover time by capture, outage, and what a download feels."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from runner.data.errors import MeasurementError
from runner.data.levels import Levels
from runner.data.metric import time_ms, time_s
from runner.design.profile import Profile
from runner.instruments.failures.cluster import DEAD_AFTER_S, HEARTBEAT_S, heartbeat_of
from runner.instruments.failures.gateway import FAILURES, break_gateway
from runner.instruments.failures.handovers import many
from runner.instruments.failures.outage import Outage, OutageWatch, outage, report_outages, watch_of
from runner.instruments.failures.prepare import Breaking
from runner.instruments.failures.redundancy import (
    ADVERTISED_S,
    CHECK_S,
    PAIR,
    SYNCED,
    arm,
    check_preferred,
    hand_over_of,
)
from runner.instruments.failures.stream import Break
from runner.instruments.failures.transfer import FILE_BYTES, LIMIT, Transfer, download_from_pair, downloading, limit_of
from runner.instruments.failures.undisturbed import COSTS, measure_undisturbed
from runner.instruments.instrument import Asked, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.traffic.download import EXPECTED_BPS, SLOWEST_BPS
from runner.lab.node import PATIENCE, wait_until
from runner.lab.node.commands import Dialogue
from runner.lab.node.probing import answer, probe, tell
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

FAILS_AFTER_S = 5.0  # the paper's third test: so long after its download's start
LARGER = "ask for a larger file (--set download_bytes=…) or a limit (--set download_limit=2000000)"
CARRIES_WITHIN_S = 30.0
LAB_S, FOUR_PERIODS = 5.0, 4.0  # to bring a lab up; a failure, the silence, the return and a random wait
LOOK_S = 6.0  # a failure whose effect comes later is watched so long


@dataclass(frozen=True)
class Handover:
    """What the WAN saw: from the last tunnel packet of one gateway to the first of the other, and how many changes.

    ``handover_s`` is None unless there was exactly one change: with both gateways active there is no handover.
    """

    handover_s: float | None
    changes: int


def failover(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """One kind of failure of the active gateway: outage, handover, and a download meanwhile; or a download undisturbed.

    With ``download_bytes`` a download without the probe stream, which would compete with it: the paper's tests.
    Raises MeasurementError and TimeoutError where the second gateway cannot be prepared, and what ``outage`` raises.
    """
    redundancy, failure = params["redundancy"], params["gateway_failure"]
    if failure == "none":
        return measure_undisturbed(bench, vpn, params)
    if "download_bytes" in params:
        return interrupt_download(bench, vpn, params, profile, seed)
    watch = watch_of(profile, LOOK_S, hand_over_of(vpn).phase_s if redundancy in SYNCED else OutageWatch.phase_s)
    handovers: list[Handover] = []
    outages: list[Outage] = []
    downloads: list[float | str] = []
    for turn in range(profile.failures):
        breaks = prepare_failure(bench, vpn, params, anew=turn > 0)
        lab = bench.lab
        timers = bench.tunnel.timers[PAIR[0]]
        with watch_handover(lab, handovers) as watcher, downloading(lab, bench.address, watch.limit_s) as download:
            rng = random.Random(f"{seed}/{turn}")
            over: list[bool] = []
            ready = partial(last_look, readiness(lab, params), watcher, download)
            fails = partial(fail, breaks, download, over)
            outages.append(outage(lab, bench.address, fails, watch, rng, ready=ready))
            end = download.end()
            early = over[0] and isinstance(end, float)
            downloads.append("it had ended before the failure" if early else end)
    detail = {"failure": FAILURES[failure], "timers": [detection(redundancy), *timers]}
    measured = report_outages("failover_outage_ms", outages, watch.limit_s, **detail)
    add_handovers(measured, handovers, 1 / watch.rate, expected=failure != "sync_link")
    took = [seconds for seconds in downloads if isinstance(seconds, float)]
    if took:
        what = {"file_bytes": FILE_BYTES, "limit_bytes_per_s": LIMIT}
        measured.measurements.append(measurement("failover_download_s", float(np.median(took)), took, **what))
    measured.warnings += [f"no time of the download: {why}" for why in downloads if isinstance(why, str)]
    return measured


def prepare_failure(bench: Bench, vpn: Vpn, params: Mapping[str, str], *, anew: bool) -> Break:
    """Prepare the second gateway, and wait until the tunnel carries payload; ``anew``: in a new lab. Returns the
    function that causes the failure.

    Why the wait: a gateway that returns has failed before, and its address moves sooner than its tunnel. A download
    that began in between was refused. Raises as ``renew`` and ``arm``, and TimeoutError where nothing comes through.
    """
    if anew:
        bench.renew()
    arm(bench.lab, vpn, params["redundancy"])
    breaks = break_gateway(bench.lab, vpn, params["gateway_failure"], params["redundancy"])
    wait_until(bench.carries_payload, "payload through the tunnel before the failure", CARRIES_WITHIN_S)
    return breaks


@contextmanager
def watch_handover(lab: Lab, handovers: list[Handover]) -> Iterator[Dialogue]:
    """Watch the WAN during the block by the probe that is yielded. Its handover is added to ``handovers`` at the
    end."""
    with probe(lab.wan, "handover", lab.sites[-1].wan_address, *PAIR, ready="watching") as watcher:
        yield watcher
        handovers.append(read_handover(answer(watcher, "handover", timeout_s=20)))


def readiness(lab: Lab, params: Mapping[str, str]) -> Callable[[], None]:
    """The check just before the failure: the tunnel has never left its gateway, unless the failure needs that."""
    if params["redundancy"] == "off" or params["gateway_failure"] == "return":
        return lambda: None
    return lambda: check_preferred(lab)


def last_look(ready: Callable[[], None], watcher: Dialogue, download: Transfer) -> None:
    """Just before the failure: raise what ``ready`` raises, and begin the download, with which other packets come.

    Raises TimeoutError where it does not begin. No sooner: in a guest kernel ``ready`` takes seconds.
    """
    ready()
    tell(watcher, "handover", "mixed")
    download.begin()


def fail(breaks: Break, download: Transfer, over: list[bool], note: Callable[[str], None]) -> None:
    """Cause the failure, and add to ``over`` whether the download had ended by then."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with suppress(PermissionError):
            # Its commands inherit this, and start nothing that stays. Beside the load a guest took 5 s for them.
            os.setpriority(os.PRIO_PROCESS, 0, -15)
        breaks(note)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
    over.append(download.has_ended)


def interrupt_download(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """The paper's third test: ``failover_download_s`` and ``handover_ms`` of a download during which a gateway fails.

    The host behind the two gateways sends, as there. A download that never ends is a lower bound, and a warning.
    Raises MeasurementError where it has ended before anything failed.
    """
    redundancy, failure = params["redundancy"], params["gateway_failure"]
    file_bytes, limit = int(params["download_bytes"]), limit_of(params)
    longest_s = FAILS_AFTER_S + file_bytes * 8 / SLOWEST_BPS + profile.outage_limit_s
    took: list[float] = []
    broken: list[str] = []
    handovers: list[Handover] = []
    for turn in range(profile.failures):
        breaks = prepare_failure(bench, vpn, params, anew=turn > 0)
        lab = bench.lab
        after_s = FAILS_AFTER_S + random.Random(f"{seed}/{turn}").uniform(0, HEARTBEAT_S)
        with (
            watch_handover(lab, handovers),
            download_from_pair(lab, longest_s, file_bytes, limit, profile.outage_limit_s) as download,
        ):
            download.begin()
            readiness(lab, params)()  # some seconds in a guest kernel, and so before the moment
            time.sleep(max(0.0, download.started + after_s - time.monotonic()))
            if download.has_ended and isinstance(why := download.end(), str):
                raise MeasurementError(f"the download broke off before the failure: {why}")
            if download.has_ended:
                seconds = time.monotonic() - download.started
                raise MeasurementError(
                    f"{file_bytes} bytes had come before the failure after {seconds:.1f} s: {LARGER}"
                )
            breaks(lambda what: None)
            end = download.end()
        took.append(end if isinstance(end, float) else round(download.seconds, 3))
        broken += [end] if isinstance(end, str) else []
    detail = {"file_bytes": file_bytes, "limit_bytes_per_s": params.get("download_limit", "off")}
    detail |= {"failure": FAILURES[failure], "timers": [detection(redundancy)], "failures": len(took)}
    detail |= {"unrecovered": len(broken), "at_least": 2 * len(broken) >= len(took)}
    measured = Measured([measurement("failover_download_s", float(np.median(took)), took, **detail)])
    add_handovers(measured, handovers, 1e-3, expected=failure != "sync_link")
    measured.warnings += [f"no recovery within {profile.outage_limit_s:g} s: {why}" for why in broken]
    return measured


def add_handovers(measured: Measured, handovers: Sequence[Handover], interval_s: float, *, expected: bool) -> None:
    """``handover_ms`` where the tunnel changed gateways; a warning where it did not although that was ``expected``."""
    seen = [round(h.handover_s * 1e3, 2) for h in handovers if h.handover_s is not None]
    if seen:
        detail = {"resolution_ms": round(1e3 * interval_s, 2), "changes": [handover.changes for handover in handovers]}
        measured.measurements.append(measurement("handover_ms", float(np.median(seen)), seen, **detail))
    stayed, swayed = sum(h.changes == 0 for h in handovers), sum(h.changes > 1 for h in handovers)
    if stayed and expected:
        measured.warnings.append(f"{stayed} of {len(handovers)} failures: the tunnel did not change gateways")
    if swayed:
        measured.warnings.append(
            f"{swayed} of {len(handovers)} failures: the tunnel changed gateways more than once, so that there is no "
            "handover time: both were active for a while, or in turn"
        )


def detection(redundancy: str, heartbeat_s: float = HEARTBEAT_S) -> str:
    """After what time a silent gateway is taken for dead, in words."""
    if redundancy == "clusterip":
        dead_after_s = heartbeat_s * DEAD_AFTER_S / HEARTBEAT_S
        return f"a heartbeat of the plugin ha every {heartbeat_s:g} s, dead after {dead_after_s:g} s without one"
    if redundancy not in ADVERTISED_S:
        return "there is no second gateway"
    asked = f"keepalived asks for the daemon every {CHECK_S} s"
    return f"VRRP advertisement every {ADVERTISED_S[redundancy]:g} s, dead after three; {asked}"


def read_handover(report: Mapping[str, Any]) -> Handover:
    """The handover among the spells that runner/lab/probes/handover.py saw: between the two of a single change."""
    spells: Sequence[Sequence[Any]] = report["spells"]
    changes = max(0, len(spells) - 1) + report["left_off"]
    return Handover(spells[1][1] - spells[0][2] if changes == 1 else None, changes)


class Failover(Breaking):
    """The death of one of two gateways, and how long the tunnel, or a download, is without one."""

    name = "failover"
    factors = {
        "redundancy": Levels(("off", "vrrp", "vrrp_fast", "ha_sync", "clusterip"), default="vrrp", before=True),
        "gateway_failure": Levels(
            ("interface", "gateway", "daemon", "sync_link", "return", "none"), default="interface", before=True
        ),
        "download_bytes": Levels(("20000000", "50000000", "500000000", "1000000000"), (10**6, 10**11), before=True),
        "download_limit": Levels(("off", "2000000"), before=True),
        "cpus": Levels(("1", "2", "3", "4"), (1, 4096), before=True),
        "handovers": Levels(("340",), (1, 100_000), before=True),
        "labs": Levels(("1", "8"), (1, 64), before=True),
        "heartbeat_ms": Levels(("1000", "200"), (50, 60_000), before=True),
    }
    metrics = (
        time_ms(
            name="handover_ms",
            title="Handover time",
            definition="The time on the WAN from the last tunnel packet of the gateway that fails to the first one of "
            "the gateway that takes over. Only packets as long as those of the probe stream count, so that the "
            "negotiation of a tunnel does not.",
            source="ClusterIP paper, Fig. 1b and Section VI; draft-ietf-bmwg-ipsec-term (tunnel failover time)",
            plot="boxes",
        ),
        time_ms(
            name="failover_outage_ms",
            title="Outage at failover",
            definition="How long the hosts' packets do not come through when one of two gateways fails. Datagrams run "
            "in both directions at a fixed rate. The value is the number that are lost, or more than 400 ms late, "
            "divided by the rate, in the worse direction. If the traffic does not recover in time, the value is a "
            "lower bound.",
            source="RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold), RFC 6414 (protection)",
            plot="timelines",
        ),
        *COSTS,
        time_s(
            name="failover_download_s",
            title="Download across a failover",
            definition="The time of an HTTP download during which one of two gateways fails. By default, curl fetches "
            "10 MB at 2 MB/s beside the probe stream, which takes 5.2 s without a failure. If a size and a limit are "
            "asked for, the failure comes after 5 s, as in the third test of the ClusterIP paper. If the traffic does "
            "not recover in time, the value is a lower bound.",
            source="ClusterIP paper, Section VI (third test); curl(1), time_total",
        ),
    )

    def labs(self, params: Mapping[str, str]) -> int:
        return int(params.get("labs", "1"))

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        if "handovers" in params:
            labs, times = int(params.get("labs", "1")), int(params["handovers"])
            return LAB_S * PATIENCE * labs + times * FOUR_PERIODS * heartbeat_of(params) / labs
        if "download_bytes" not in params:
            return super().expected_s(params, profile, first=first)
        bytes_per_s = EXPECTED_BPS / 8 if params["download_limit"] == "off" else int(params["download_limit"])
        times = 1 if params["gateway_failure"] == "none" else profile.failures
        return (5 + int(params["download_bytes"]) / bytes_per_s) * times

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        params = asked.params
        if "handovers" not in params or params["gateway_failure"] == "none":
            return (yield from super().measure(bench, asked))
        timers = detection(params["redundancy"], heartbeat_of(params))
        return (yield from many(bench, asked.vpn, params, timers, asked.seed))

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return failover(bench, asked.vpn, asked.params, asked.profile, asked.seed)
