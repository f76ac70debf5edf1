"""A tunnel in use for an hour and more: does a gateway gain descriptors or memory, and how long is a pause at a rekey?

A bare gateway beside it, on which a program leaks both, is the control; another one has nothing on it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import scipy  # loads scipy.stats at its first use

from runner.data.errors import InstrumentError, MeasurementError, Unsupported
from runner.data.levels import BASELINE, Levels
from runner.data.metric import Metric, time_ms
from runner.data.remarks import Remark
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.operator.mesh import star
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import processes
from runner.instruments.tools.counters import arrived_bytes
from runner.instruments.tools.iperf import IPERF_PORT, iperf3
from runner.instruments.traffic.loaded import check_load, free_server
from runner.lab.node import LabNode, Process, proc
from runner.lab.node.commands import last_words
from runner.lab.shape.congestion import CUBIC
from runner.lab.shape.site_to_site import Lab, mesh_sites
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

PILOT_S, LOAD_LIMIT_S = 2, 300
SLICE_S, PROBES_PER_S = 5.0, 50.0
REKEYS = 6  # that a VPN is asked for, where one can ask
SHORTEST_REKEY_S = 10
TREND_S = 1800.0  # in less a heap still grows to its size
LOG = "soak-load"
LEAK_S, LEAK_BYTES = 0.5, 65536
LEAKER = """
import os, sys, time
held = []
while True:
    held.append((os.open("/dev/null", os.O_RDONLY), bytearray(os.urandom(int(sys.argv[2])))))
    time.sleep(float(sys.argv[1]))
"""
SEEN = 0.5  # the share of the leak that must be seen, on however busy a machine


@dataclass(frozen=True)
class Held:
    """What a gateway's processes hold at a moment: open descriptors, and memory that they share with nobody."""

    at_s: float
    descriptors: int
    private_bytes: int


def read_held(node: LabNode) -> Held:
    """By proc_pid_fd(5) and proc_pid_smaps(5), Private_Dirty and Swap: what a leak adds to."""
    descriptors = private_bytes = 0
    for _, pid in processes([node]):
        try:
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
            private_bytes += proc.memory_bytes(pid, "Private_Dirty", "Swap")
        except proc.GONE:
            continue
    return Held(time.monotonic(), descriptors, private_bytes)


def descriptor_gain(looks: Sequence[Held]) -> int:
    """How far the floor of the descriptors has risen: the fewest of the last third, less the fewest of the first. What
    is open for a moment only, as at a rekey, raises no floor."""
    third = max(1, len(looks) // 3)
    return min(look.descriptors for look in looks[-third:]) - min(look.descriptors for look in looks[:third])


def trend(looks: Sequence[Held]) -> tuple[float, float, float]:
    """Bytes of private memory an hour, with its 95 % interval: Theil and Sen's slope over the last two thirds, in which
    a heap has its size."""
    late = looks[len(looks) // 3 :]
    slope = scipy.stats.theilslopes([look.private_bytes for look in late], [look.at_s / 3600 for look in late], 0.95)
    return float(slope[0]), float(slope[2]), float(slope[3])


def pause_ms(output: str) -> float:
    """The longest time between two answers in what ping(8) -D prints. Raises MeasurementError where there are none."""
    times = [float(at_s) for at_s in re.findall(r"^\[(\d+\.\d+)\] \d+ bytes from", output, re.MULTILINE)]
    if len(times) < 2:
        raise MeasurementError(f"nothing came back through the tunnel for {SLICE_S:g} s")
    return round(1000 * max(later - sooner for sooner, later in pairwise(times)), 2)


def longest_pause_ms(bench: Bench, do: Callable[[], object]) -> float:
    """The longest pause (ms) of SLICE_S, during which ``do`` runs."""
    count = str(round(SLICE_S * PROBES_PER_S))
    argv = ("ping", "-n", "-D", "-i", f"{1 / PROBES_PER_S:g}", "-c", count, "-W", "1", bench.address)
    running = bench.lab.host1.talk(*argv)
    try:
        do()
        return pause_ms(last_words(running, "", SLICE_S + 20)[0])
    finally:
        if running.poll() is None:
            bench.lab.host1.end(running)
        running.wait()


@contextmanager
def loading(bench: Bench, seconds: float, share: float) -> Iterator[tuple[Process, float]]:
    """A TCP stream of a share of what the tunnel carries, and its rate, bit/s."""
    report = iperf3(bench.lab, bench.address, PILOT_S, "--congestion", CUBIC)
    rate_bps = share * report["end"]["sum_received"]["bits_per_second"]
    free_server(bench.lab)
    argv = ("iperf3", "--client", bench.address, "--port", IPERF_PORT, "--connect-timeout", "3000", "--interval", "0")
    options = ("--time", str(round(2 * seconds) + LOAD_LIMIT_S), "--bitrate", str(int(rate_bps)), "--congestion", CUBIC)
    stream = bench.lab.host1.spawn(*argv, *options, log=LOG)
    try:
        yield stream, rate_bps
    finally:
        stream.stop()
        free_server(bench.lab)


@contextmanager
def bare_gateways(bench: Bench) -> Iterator[dict[str, LabNode]]:
    """The control: a bare gateway that ``leaks``, and one with ``nothing``. Raises MeasurementError."""
    with bench.meshes(star(mesh_sites(2))) as lab:
        leaks, nothing = (lab.gateway(site) for site in lab.sites)
        leaks.spawn("python3", "-IS", "-c", LEAKER, str(LEAK_S), str(LEAK_BYTES), log="leaker")
        yield {"leaks": leaks, "nothing": nothing}


def check(looks: Mapping[str, Sequence[Held]]) -> None:
    """Raise InstrumentError where the leak was not seen, or something was where nothing is."""
    leaks, nothing = looks["leaks"], looks["nothing"]
    apart_s = leaks[-max(1, len(leaks) // 3)].at_s - leaks[0].at_s
    expected = apart_s / LEAK_S
    if descriptor_gain(leaks) < SEEN * expected or trend(leaks)[0] < SEEN * LEAK_BYTES * 3600 / LEAK_S:
        raise InstrumentError(
            f"a program that had leaked {expected:.0f} descriptors of {LEAK_BYTES} B each was seen to have gained "
            f"{descriptor_gain(leaks)}, and {trend(leaks)[0]:.0f} B an hour"
        )
    if any(look.descriptors or look.private_bytes for look in nothing):
        raise InstrumentError("a gateway with nothing on it is said to hold descriptors or memory")


class Renewals:
    """The rekeys of a soak: those that the VPN's clock makes are noticed, and where there is a command it is given."""

    def __init__(self, bench: Bench, vpn: Vpn, soak_s: float) -> None:
        self._rekeying, lab = vpn.lifecycle().rekeying, bench.lab
        self._gateway, self._peers = lab.gateway(lab.sites[0]), lab.sites[1:]
        self.by_clock = not {"clock", "protocol"}.isdisjoint(self._rekeying.ways)
        self.on_command = not self.by_clock and "esp" in self._rekeying.ways
        self._every_s, self._due_s = soak_s / (REKEYS + 1), time.monotonic() + soak_s / (REKEYS + 1)
        self._known = self._mark()

    def _mark(self) -> str:
        return self._rekeying.mark(self._gateway, self._peers) if self.by_clock else ""

    def look_while_renewing(self, look: Callable[[Callable[[], object]], float]) -> tuple[float, bool]:
        """What ``look`` finds while it runs what it is given, and whether keys were renewed meanwhile."""
        if self.on_command and time.monotonic() >= self._due_s:
            self._due_s += self._every_s
            return look(partial(self._rekeying.renew, self._gateway, self._peers, "esp")), True
        found, before, self._known = look(lambda: None), self._known, self._mark()
        return found, self._known != before


class Soak(Instrument):
    """A tenth of what a tunnel carries, so that it is in use and never full, for long."""

    name = "soak"
    datagrams = True
    factors = {
        "soak_s": Levels(("60", "3600"), range=(60, 86400), default="3600", before=True, told="{} s".format),
        "soak_load": Levels(("1", "10"), range=(1, 90), default="10", told="{} % of the tunnel's throughput".format),
    }
    metrics = (
        Metric(
            name="soak_descriptors",
            title="Descriptors gained in use",
            unit="1",
            better="lower",
            definition="How many more file descriptors the processes of a gateway have open at the end of the trial: "
            "the fewest in its last third, less the fewest in its first. The larger of the two gateways'. A TCP stream "
            "of a tenth of the tunnel's throughput (factor soak_load) flows meanwhile, and keys are renewed.",
            source="proc_pid_fd(5)",
        ),
        Metric(
            name="soak_memory",
            title="Memory gained in use",
            unit="B/h",
            better="lower",
            definition="How fast the private memory of a gateway's processes grows meanwhile: Theil and Sen's slope "
            "over the last two thirds of a trial of half an hour or more. The larger of the two gateways'.",
            source="proc_pid_smaps(5), Private_Dirty and Swap; Sen 1968",
        ),
        time_ms(
            name="soak_pause",
            title="Pause at a rekey in use",
            definition="The longest time between two answers to echo requests, sent every 20 ms, in the five seconds "
            "in which keys were renewed; median of the trial's rekeys. The detail has the same without a rekey.",
            source="RFC 792 (echo); RFC 7296 §2.8 (rekeying)",
            margin=1.5,
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.kind != "netns":
            return Unsupported(
                "a gateway's descriptors are counted where nothing but the VPN runs on it: in namespaces"
            )
        if vpn.name == BASELINE:
            return Unsupported("without a tunnel no process runs on a gateway")
        return super().refuses(lab, vpn, params)

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {"rekey_every_s": str(max(SHORTEST_REKEY_S, int(params["soak_s"]) // REKEYS))}

    def labs(self, params: Mapping[str, str]) -> int:
        return 2

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return PILOT_S + float(params["soak_s"]) + 2.0

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        lab, soak_s = bench.lab, float(asked.params["soak_s"])
        share = int(asked.params["soak_load"]) / 100
        pauses: dict[bool, list[float]] = {True: [], False: []}
        with bare_gateways(bench) as bare, loading(bench, soak_s, share) as (stream, rate_bps):
            gateways = {site.name: lab.gateway(site) for site in lab.sites} | bare
            looks: dict[str, list[Held]] = {name: [] for name in gateways}
            renewals, first, since = Renewals(bench, asked.vpn, soak_s), arrived_bytes(lab.host2), time.monotonic()
            go = Go.ON
            while go is Go.ON and time.monotonic() - since < soak_s:
                check_load(lab, stream, LOG)
                found_ms, renewed = renewals.look_while_renewing(partial(longest_pause_ms, bench))
                pauses[renewed].append(found_ms)
                for name, node in gateways.items():
                    looks[name].append(read_held(node))
                of = {f"{name}_{what}": getattr(looks[name][-1], what) for name in looks for what in WHAT}
                go = yield {"pause_ms": found_ms, "renewals": float(renewed), **of}
            carried_bps = 8 * (arrived_bytes(lab.host2) - first) / (time.monotonic() - since)
        check({name: looks.pop(name) for name in bare})
        measured = results(looks, pauses)
        measured.measurements[0].detail.update(load_bps=round(carried_bps), asked_bps=round(rate_bps))
        return measured


WHAT = ("descriptors", "private_bytes")


def results(looks: Mapping[str, Sequence[Held]], pauses: Mapping[bool, Sequence[float]]) -> Measured:
    """The values of all gateways' looks and of the pauses (ms) with a rekey and without; and why one is missing."""
    measured = Measured()
    by_gateway: dict[str, Any] = {name: descriptor_gain(each) for name, each in looks.items()}
    last = {name: {what: getattr(each[-1], what) for what in WHAT} for name, each in looks.items()}
    value = measurement("soak_descriptors", float(max(by_gateway.values())), by_gateway=by_gateway, last=last)
    measured.measurements.append(value)
    watched_s = min(each[-1].at_s - each[0].at_s for each in looks.values())
    if watched_s < TREND_S:
        why = f"in {watched_s:.0f} s a heap may still grow to its size; {TREND_S:.0f} s are needed"
        measured.remarks.append(Remark(kind="no value", subject="Memory gained in use", why=why))
    else:
        trends = {name: trend(each) for name, each in looks.items()}
        worst = max(trends.values())
        detail = {name: [round(figure) for figure in figures] for name, figures in trends.items()}
        measured.measurements.append(measurement("soak_memory", worst[0], by_gateway=detail))
    quiet = median(pauses[False]) if pauses[False] else None
    if pauses[True]:
        value = measurement("soak_pause", median(pauses[True]), [*pauses[True]], rekeys=len(pauses[True]))
        value.detail.update(without_rekey_ms=quiet, longest_ms=max(pauses[True]))
        measured.measurements.append(value)
    else:
        measured.remarks.append(Remark(kind="no value", subject="Pause at a rekey in use", why="no rekey was seen"))
    return measured
