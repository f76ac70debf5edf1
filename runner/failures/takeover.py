"""A gateway of two fails, and the other takes over: handover time by capture, outage, and what a download feels."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.errors import MeasurementError
from runner.experiment import Profile
from runner.failures.breaks import processes
from runner.failures.cluster import DEAD_AFTER_S, HEARTBEAT_S, silence
from runner.failures.outage import Outage, outage, reported, watch_of
from runner.failures.redundancy import ADVERTISED_S, PAIR, arm, is_active, settled
from runner.failures.stream import Break
from runner.failures.timers import timers_of
from runner.lab import Lab, batch
from runner.measure.cost import counted, snapshot
from runner.measure.download import HTTP_PORT, SLOWEST_BPS, fetch, make_file
from runner.measure.result import Measured, measurement
from runner.measure.wire import answer, probe
from runner.node import PATIENCE, NamespaceNode, NamespaceProcess, wait_until
from runner.plugin import Vpn
from runner.tunnel import Bench

FILE_BYTES, LIMIT = 10_000_000, 2_000_000  # the download beside the probe stream, and its bytes a second
WHOLE_FILE_BYTES = 50_000_000  # the download while nothing fails, as fast as it goes: the paper's second test
FAILS_AFTER_S = 5.0  # the paper's third test: so long after its download's start
LARGER = "ask for a larger file (--set download_bytes=…) or a limit (--set download_limit=2000000)"
UNLIMITED = 2**32 - 1  # socket(7), SO_MAX_PACING_RATE: no limit
LOOK_S = 6.0  # a failure whose effect comes later is watched so long
Note = Callable[[str], None]


@dataclass(frozen=True)
class Handover:
    """What the WAN saw: from the last tunnel packet of one gateway to the first of the other, and how many changes."""

    handover_s: float | None
    changes: int


def failover(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """One kind of failure of the active gateway: outage, handover, and a download meanwhile; or none, and a download.

    With ``download_bytes`` a download without the probe stream, which would compete with it: the paper's tests.
    Raises MeasurementError and TimeoutError where the second gateway cannot be prepared, and what ``outage`` raises.
    """
    redundancy, failure = params["redundancy"], params["gateway_failure"]
    if failure == "none":
        return undisturbed(bench, vpn, params)
    if "download_bytes" in params:
        return interrupted(bench, vpn, params, profile, seed)
    watch = watch_of(profile, LOOK_S)
    handovers: list[Handover] = []
    outages: list[Outage] = []
    downloads: list[float | str] = []
    started = time.monotonic()
    for turn in range(profile.failures):
        if turn:
            bench.renew()
        lab = bench.lab
        arm(lab, vpn, redundancy)
        timers = timers_of(lab.nodes[PAIR[0]])
        breaks = break_gateway(lab, failure, redundancy)
        with probe(lab.wan, "handover", lab.sites[-1].wan_address, *PAIR, ready="watching") as watcher:
            with downloading(lab, bench.address, watch.limit_s) as ended:
                rng = random.Random(f"{seed}/{turn}")
                outages.append(outage(lab, bench.address, breaks, watch, rng, ready=readiness(lab, params)))
                downloads.append(ended())
            handovers.append(read_handover(answer(watcher, "handover", timeout_s=20)))
    detail = {"failure": FAILURES[failure], "timers": [detection(redundancy), *timers]}
    measured = reported("failover_outage_ms", outages, watch.limit_s, **detail)
    add_handovers(measured, handovers, 1 / watch.rate, expected=failure != "sync_link")
    took = [seconds for seconds in downloads if isinstance(seconds, float)]
    if took:
        what = {"file_bytes": FILE_BYTES, "limit_bytes_per_s": LIMIT}
        measured.measurements.append(measurement("failover_download_s", float(np.median(took)), took, **what))
    measured.warnings += [f"the download broke off: {why}" for why in downloads if isinstance(why, str)]
    measured.measuring_s = time.monotonic() - started
    return measured


def readiness(lab: Lab, params: Mapping[str, str]) -> Callable[[], None]:
    """What must hold just before the failure: the tunnel has never left its gateway, unless it was to."""
    if params["redundancy"] == "off" or params["gateway_failure"] == "return":
        return lambda: None
    return lambda: settled(lab)


def undisturbed(bench: Bench, vpn: Vpn, params: Mapping[str, str]) -> Measured:
    """``ha_download_s``, ``ha_user_s`` and ``ha_system_s``: what redundancy costs while nothing fails."""
    lab, file_bytes = bench.lab, int(params.get("download_bytes", WHOLE_FILE_BYTES))
    arm(lab, vpn, params["redundancy"])
    detail: dict[str, Any] = {"file_bytes": file_bytes}
    started = time.monotonic()
    if (limit := limit_of(params)) < UNLIMITED:
        with pushed(lab, 10 + 3 * file_bytes / limit, file_bytes, limit, 10) as download:
            before, took = snapshot(lab), download.end()
        after = snapshot(lab)
        if isinstance(took, str):
            raise MeasurementError(f"the download broke off although nothing failed: {took}")
        detail["limit_bytes_per_s"] = limit
    else:
        make_file(lab, file_bytes)  # its making is not in the CPU time
        before = snapshot(lab)
        (found,) = fetch(lab, bench.address, file_bytes).measurements
        after = snapshot(lab)
        took, detail = found.value, found.detail
    cpu = {kind: round(after.cpu_s[kind] - before.cpu_s[kind], 3) for kind in after.cpu_s}
    detail |= {"cpu_seconds": cpu, "of": counted(lab), "cpus": params.get("cpus", "all")}
    system = cpu["system"] + cpu["irq"] + cpu["softirq"]  # as time(1) and top(1) count in the paper
    measured = [("ha_download_s", took), ("ha_user_s", cpu["user"]), ("ha_system_s", round(system, 3))]
    return Measured([measurement(metric, value, **detail) for metric, value in measured], time.monotonic() - started)


def interrupted(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
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
    started = time.monotonic()
    for turn in range(profile.failures):
        if turn:
            bench.renew()
        lab = bench.lab
        arm(lab, vpn, redundancy)
        breaks = break_gateway(lab, failure, redundancy)
        after_s = FAILS_AFTER_S + random.Random(f"{seed}/{turn}").uniform(0, HEARTBEAT_S)
        with (
            probe(lab.wan, "handover", lab.sites[-1].wan_address, *PAIR, ready="watching") as watcher,
            pushed(lab, longest_s, file_bytes, limit, profile.outage_limit_s) as download,
        ):
            readiness(lab, params)()  # some seconds in a guest kernel, and so before the moment
            time.sleep(max(0.0, download.started + after_s - time.monotonic()))
            if download.over and isinstance(why := download.end(), str):
                raise MeasurementError(f"the download broke off before the failure: {why}")
            if download.over:
                seconds = time.monotonic() - download.started
                raise MeasurementError(
                    f"{file_bytes} bytes had come before the failure after {seconds:.1f} s: {LARGER}"
                )
            breaks(lambda what: None)
            end = download.end()
            handovers.append(read_handover(answer(watcher, "handover", timeout_s=20)))
        took.append(end if isinstance(end, float) else round(download.seconds, 3))
        broken += [end] if isinstance(end, str) else []
    detail = {"file_bytes": file_bytes, "limit_bytes_per_s": params.get("download_limit", "off")}
    detail |= {"failure": FAILURES[failure], "timers": [detection(redundancy)], "failures": len(took)}
    detail |= {"unrecovered": len(broken), "at_least": 2 * len(broken) >= len(took)}
    measured = Measured([measurement("failover_download_s", float(np.median(took)), took, **detail)])
    add_handovers(measured, handovers, 1e-3, expected=failure != "sync_link")
    measured.warnings += [f"no recovery within {profile.outage_limit_s:g} s: {why}" for why in broken]
    measured.measuring_s = time.monotonic() - started
    return measured


def limit_of(params: Mapping[str, str]) -> int:
    """The rate that a download is limited to, bytes a second."""
    return UNLIMITED if params.get("download_limit", "off") == "off" else int(params["download_limit"])


def add_handovers(measured: Measured, handovers: Sequence[Handover], interval_s: float, *, expected: bool) -> None:
    """``handover_ms`` where the tunnel changed gateways; a warning where it did not although that was ``expected``."""
    times = [handover.handover_s for handover in handovers]
    seen = [round(seconds * 1e3, 2) for seconds in times if seconds is not None]
    if seen:
        detail = {"resolution_ms": round(1e3 * interval_s, 2), "changes": [handover.changes for handover in handovers]}
        measured.measurements.append(measurement("handover_ms", float(np.median(seen)), seen, **detail))
    if None in times and expected:
        measured.warnings.append(f"{times.count(None)} of {len(times)} failures: the tunnel did not change gateways")
    if any(handover.changes > 1 for handover in handovers):
        measured.warnings.append("the tunnel changed gateways more than once: both were active for a while, or in turn")


def detection(redundancy: str) -> str:
    """After what time a silent gateway is taken for dead, in words."""
    if redundancy == "clusterip":
        return f"a heartbeat of the plugin ha every {HEARTBEAT_S:g} s, dead after {DEAD_AFTER_S:g} s without one"
    if redundancy not in ADVERTISED_S:
        return "there is no second gateway"
    return f"VRRP advertisement every {ADVERTISED_S[redundancy]:g} s, dead after three"


@dataclass
class Download:
    """A download under way: curl on ``node``, since when."""

    node: NamespaceNode
    curl: NamespaceProcess
    longest_s: float
    started: float
    seconds: float = 0.0  # until it ended or broke off

    @property
    def over(self) -> bool:
        return not self.curl.alive()

    def end(self) -> float | str:
        """Await the end: its time in seconds, or curl's reason why it broke off."""
        code = self.curl.wait((self.longest_s + 10) * PATIENCE)
        self.seconds = time.monotonic() - self.started
        said = self.node.logged("curl").split("\n")
        return float(said[-2]) if code == 0 else " ".join(said).strip()[-200:]


@contextmanager
def downloading(lab: Lab, address: str, limit_s: float) -> Iterator[Callable[[], float | str]]:
    """A download through the tunnel, slow enough to be under way during what the block does; how to await its end."""
    longest_s = limit_s + 4 * FILE_BYTES / LIMIT
    with fetching(lab.host2, lab.host1, address, longest_s, FILE_BYTES, LIMIT) as download:
        yield download.end


def pushed(lab: Lab, longest_s: float, size: int, limit: int, stall_s: float) -> AbstractContextManager[Download]:
    """A download from the host behind the two gateways, as in the paper; given up where ``stall_s`` bring nothing."""
    stalls = ("--speed-limit", "1", "--speed-time", f"{stall_s:.0f}")
    return fetching(lab.host1, lab.host2, lab.sites[0].host_address, longest_s, size, limit, *stalls)


@contextmanager
def fetching(
    server: NamespaceNode, client: NamespaceNode, address: str, longest_s: float, size: int, limit: int, *options: str
) -> Iterator[Download]:
    """``size`` bytes by HTTP from ``server``, at ``limit`` bytes a second, during what the block does."""
    with probe(server, "serve", str(HTTP_PORT), str(size), str(limit), ready="serving"):
        argv = ("curl", "--silent", "--show-error", "--max-time", f"{longest_s:.0f}", "--output", "/dev/null")
        wanted = ("--write-out", "%{time_total}\n", f"http://{address}:{HTTP_PORT}/")
        curl = client.spawn(*argv, *options, *wanted, log="curl")
        try:
            yield Download(client, curl, longest_s, time.monotonic())
        finally:
            curl.stop()


def read_handover(found: Mapping[str, Any]) -> Handover:
    """The handover among the spells that runner/probes/handover.py saw: between the first two."""
    spells: Sequence[Sequence[Any]] = found["spells"]
    changes = max(0, len(spells) - 1) + found["left_off"]
    return Handover(spells[1][1] - spells[0][2] if len(spells) > 1 else None, changes)


FAILURES = {
    "interface": "the WAN interface of the active gateway goes down",
    "gateway": "the active gateway dies with all its ports",
    "daemon": "the VPN's daemon on the active gateway is killed; keepalived asks for it every second",
    "sync_link": "the link between the two gateways is cut",
    "return": "the preferred gateway, whose WAN interface was down, comes back",
}


def break_gateway(lab: Lab, failure: str, redundancy: str) -> Break:
    """The failure of that name, of the gateway that is active."""
    one, two = (lab.nodes[name] for name in PAIR)
    match failure:
        case "interface":
            return lambda note: ports(one, note, "down", "wan0")
        case "gateway":
            return lambda note: kill(one, note)
        case "daemon":
            return lambda note: kill_daemons(one, note)
        case "sync_link" if redundancy == "clusterip":
            return lambda note: silence(lab, PAIR, note)
        case "sync_link":
            return lambda note: ports(one, note, "down", "sync0")
        case "return":
            ports(one, lambda what: None, "down", "wan0")
            wait_until(lambda: is_active(lab, two.name), f"{two.name} active", 20)
            return lambda note: ports(one, note, "up", "wan0")
    raise AssertionError(f"nobody knows the failure {failure}")


def ports(gateway: NamespaceNode, note: Note, state: str, *names: str) -> None:
    """Set ports of a gateway up or down."""
    note(f"{gateway.name}: {' and '.join(names)} {state}")
    batch(gateway, *(f"link set {name} {state}" for name in names))


def kill(gateway: NamespaceNode, note: Note) -> None:
    """The gateway is gone: nothing runs on it, and nothing comes from its ports. No daemon has time for last words."""
    note(f"{gateway.name}: everything is killed")
    gateway.run("kill", "-KILL", "--", "-1", check=False)
    ports(gateway, note, "down", "wan0", "lan0", "sync0")


def kill_daemons(gateway: NamespaceNode, note: Note) -> None:
    """Kill what the VPN runs, not what moves it. Raises MeasurementError where it runs nothing."""
    names = sorted({name for name in processes(gateway) if name not in ("keepalived", "python3")})
    if not names:
        raise MeasurementError("this VPN runs no daemon that could be killed")
    note(f"{gateway.name}: SIGKILL to {', '.join(names)}")
    for name in names:
        gateway.run("pkill", "-KILL", "-x", name, check=False)
