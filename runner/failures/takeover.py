"""A gateway of two fails, and the other takes over: handover time by capture, outage, and what a download feels."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.errors import MeasurementError
from runner.experiment import Profile
from runner.failures.breaks import processes
from runner.failures.outage import Outage, Watch, outage, reported, watch_of
from runner.failures.redundancy import ADVERTISED_S, PAIR, arm, is_active
from runner.failures.stream import Break
from runner.failures.timers import timers_of
from runner.lab import Lab, batch
from runner.measure.cost import counted, snapshot
from runner.measure.download import HTTP_PORT, download
from runner.measure.result import Measured, measurement
from runner.measure.wire import answer, probe
from runner.node import PATIENCE, NamespaceNode, wait_until
from runner.plugin import Vpn
from runner.tunnel import Bench

FILE_BYTES, LIMIT = 10_000_000, 2_000_000  # the download during a failure, and its bytes a second
WHOLE_FILE_BYTES = 50_000_000  # the download while nothing fails, as fast as it goes: the paper's second test
LOOK_S = 6.0  # a failure whose effect comes later is watched so long
Note = Callable[[str], None]


@dataclass(frozen=True)
class Handover:
    """What the WAN saw: from the last tunnel packet of one gateway to the first of the other, and how many changes."""

    handover_s: float | None
    changes: int


def failover(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """One kind of failure of the active gateway: outage, handover, and a download meanwhile; or none, and a download.

    Raises MeasurementError and TimeoutError where the second gateway cannot be prepared, and what ``outage`` raises.
    """
    redundancy, failure = params["redundancy"], params["gateway_failure"]
    if failure == "none":
        return undisturbed(bench, vpn, redundancy)
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
        breaks = break_gateway(lab, failure)
        with probe(lab.wan, "handover", lab.sites[-1].wan_address, *PAIR, ready="watching") as watcher:
            with downloading(lab, bench.address, watch.limit_s) as ended:
                outages.append(outage(lab, bench.address, breaks, watch, random.Random(f"{seed}/{turn}")))
                downloads.append(ended())
            handovers.append(read_handover(answer(watcher, "handover", timeout_s=20)))
    detail = {"failure": FAILURES[failure], "timers": [detection(redundancy), *timers]}
    measured = reported("failover_outage_ms", outages, watch.limit_s, **detail)
    add_handovers(measured, handovers, watch, expected=failure != "sync_link")
    took = [seconds for seconds in downloads if isinstance(seconds, float)]
    if took:
        what = {"file_bytes": FILE_BYTES, "limit_bytes_per_s": LIMIT}
        measured.measurements.append(measurement("failover_download_s", float(np.median(took)), took, **what))
    measured.warnings += [f"the download broke off: {why}" for why in downloads if isinstance(why, str)]
    measured.measuring_s = time.monotonic() - started
    return measured


def undisturbed(bench: Bench, vpn: Vpn, redundancy: str) -> Measured:
    """``ha_download_s``: what redundancy costs while nothing fails; CPU seconds by kind are in the detail."""
    arm(bench.lab, vpn, redundancy)
    before = snapshot(bench.lab)
    measured = download(bench.lab, bench.address, WHOLE_FILE_BYTES)
    after = snapshot(bench.lab)
    (found,) = measured.measurements
    cpu = {kind: round(after.cpu_s[kind] - before.cpu_s[kind], 3) for kind in after.cpu_s}
    # The file's making is in the CPU time, and the same for all.
    detail = found.detail | {"cpu_seconds": cpu, "of": counted(bench.lab)}
    return Measured([measurement("ha_download_s", found.value, **detail)], measured.measuring_s)


def add_handovers(measured: Measured, handovers: Sequence[Handover], watch: Watch, *, expected: bool) -> None:
    """``handover_ms`` where the tunnel changed gateways; a warning where it did not although that was ``expected``."""
    times = [handover.handover_s for handover in handovers]
    seen = [round(seconds * 1e3, 2) for seconds in times if seconds is not None]
    if seen:
        detail = {"resolution_ms": round(1e3 / watch.rate, 2), "changes": [handover.changes for handover in handovers]}
        measured.measurements.append(measurement("handover_ms", float(np.median(seen)), seen, **detail))
    if None in times and expected:
        measured.warnings.append(f"{times.count(None)} of {len(times)} failures: the tunnel did not change gateways")
    if any(handover.changes > 1 for handover in handovers):
        measured.warnings.append("the tunnel changed gateways more than once: both were active for a while, or in turn")


def detection(redundancy: str) -> str:
    """After what time a silent gateway is taken for dead, in words."""
    if redundancy not in ADVERTISED_S:
        return "there is no second gateway"
    return f"VRRP advertisement every {ADVERTISED_S[redundancy]:g} s, dead after three"


@contextmanager
def downloading(lab: Lab, address: str, limit_s: float) -> Iterator[Callable[[], float | str]]:
    """A download through the tunnel, slow enough to be under way during what the block does; how to await its end:
    its time in seconds, or curl's reason why it broke off."""
    longest_s = limit_s + 4 * FILE_BYTES / LIMIT
    with probe(lab.host2, "serve", str(HTTP_PORT), str(FILE_BYTES), str(LIMIT), ready="serving"):
        argv = ("curl", "--silent", "--show-error", "--max-time", f"{longest_s:.0f}", "--output", "/dev/null")
        wanted = ("--write-out", "%{time_total}\n", f"http://{address}:{HTTP_PORT}/")
        curl = lab.host1.spawn(*argv, *wanted, log="curl")

        def ended() -> float | str:
            code = curl.wait((longest_s + 10) * PATIENCE)
            said = lab.host1.logged("curl").split("\n")
            return float(said[-2]) if code == 0 else " ".join(said).strip()[-200:]

        yield ended
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


def break_gateway(lab: Lab, failure: str) -> Break:
    """The failure of that name, of the gateway that is active."""
    one, two = (lab.nodes[name] for name in PAIR)
    match failure:
        case "interface":
            return lambda note: ports(one, note, "down", "wan0")
        case "gateway":
            return lambda note: kill(one, note)
        case "daemon":
            return lambda note: kill_daemons(one, note)
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
    """Kill what the VPN runs, not keepalived. Raises MeasurementError where it runs nothing."""
    names = sorted({name for name in processes(gateway) if name != "keepalived"})
    if not names:
        raise MeasurementError("this VPN runs no daemon that could be killed")
    note(f"{gateway.name}: SIGKILL to {', '.join(names)}")
    for name in names:
        gateway.run("pkill", "-KILL", "-x", name, check=False)
