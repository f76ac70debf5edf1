"""What a tunnel costs that carries nothing: CPU time, wake-ups and memory of its gateways, and what it sends by itself.

A lab of bare gateways beside it is the control: one with nothing on it must cost nothing, and one with a program that
polls must be seen to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric, time_s
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.operator.mesh import star
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import own_cpu_s, processes, pss_bytes
from runner.lab.node import LabNode, proc, wait_until
from runner.lab.node.commands import Dialogue
from runner.lab.node.probing import ask_probe, probe
from runner.lab.shape.site_to_site import Lab, mesh_sites
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

SETTLE_S = 5.0  # after what was in the tunnel before
LOOK_EVERY_S = 5.0
MINUTE_S = 60.0
IP = {"0800": 23, "86dd": 20}  # EtherType -> the byte of a frame that names the protocol in it
OF_THE_NETWORK = (0, 2, 58)  # IGMP, ICMPv6, and the hop-by-hop header that its reports begin with: the kernel's own
ETHERNET_BYTES = 14
POLLS_PER_S, PACKETS_PER_S = 10.0, 1.0
POLLER = """
import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
sock, begun, polls = socket.socket(family, socket.SOCK_DGRAM), time.monotonic(), 0
while True:
    if polls % int(sys.argv[3]) == 0:
        sock.sendto(b"poll", (sys.argv[1], 9))
    polls += 1
    time.sleep(max(0, begun + polls / float(sys.argv[2]) - time.monotonic()))
"""
SEEN = 0.5  # the share of what the polling program does that must be seen of it, on however busy a machine


@dataclass(frozen=True)
class AtRest:
    """What a gateway did in ``seconds`` of nothing. ``cpu_ms``, ``wakeups``, ``packets`` and ``bytes`` (of IP, both
    ways) are a minute's. ``silence_s`` is the longest time without a packet, the ends of the watch among them."""

    seconds: float
    cpu_ms: float
    wakeups: float
    pss_bytes: int
    packets: float
    bytes: float
    silence_s: float


class Watched:
    """A gateway that is left alone. ``tap``: the program on the WAN that sees what passes its cable."""

    def __init__(self, gateway: LabNode, tap: Dialogue) -> None:
        self._gateway, self._tap = gateway, tap
        self._packets: list[tuple[float, int]] = []
        self._begin_s = self._cpu_s = 0.0
        self._slept: dict[str, int] = {}

    def begin(self) -> None:
        """From now on it counts."""
        ask_probe(self._tap, "tap", {}, 10)
        self._packets = []
        self._cpu_s, self._slept, self._begin_s = own_cpu_s(self._gateway), self._sleeps(), time.time()

    def look(self) -> None:
        """Take over what the tap has seen. Raises MeasurementError where it could not keep all."""
        seen = ask_probe(self._tap, "tap", {}, 10)
        if seen["lost"]:
            raise MeasurementError(f"{seen['lost']} packets of {self._gateway.name} came too fast to be kept")
        found = ((at_s, bytes.fromhex(text)) for at_s, _, text in seen["frames"])
        self._packets += [(at_s, len(frame) - ETHERNET_BYTES) for at_s, frame in found if of_ip(frame)]

    def end(self) -> AtRest:
        """What it did since ``begin``."""
        seconds, cpu_s, slept = time.time() - self._begin_s, own_cpu_s(self._gateway), self._sleeps()
        self.look()
        wakeups = sum(max(0, count - self._slept.get(thread, 0)) for thread, count in slept.items())
        times = [self._begin_s, *(at_s for at_s, _ in self._packets), self._begin_s + seconds]
        a_minute = MINUTE_S / seconds
        return AtRest(
            seconds=round(seconds, 2),
            cpu_ms=round(1000 * (cpu_s - self._cpu_s) * a_minute, 3),
            wakeups=round(wakeups * a_minute, 2),
            pss_bytes=pss_bytes(self._gateway),
            packets=round(len(self._packets) * a_minute, 2),
            bytes=round(sum(length for _, length in self._packets) * a_minute, 1),
            silence_s=round(max(later - sooner for sooner, later in pairwise(times)), 2),
        )

    def _sleeps(self) -> dict[str, int]:
        """How often each thread has gone to sleep by itself, so that something woke it later (proc_pid_status(5)): a
        switch that a busy machine forces on it is none."""
        found = {}
        for _, pid in processes([self._gateway]):
            for thread in proc.threads_of(pid):
                with suppress(*proc.GONE):
                    words = proc.thread_file(pid, thread, "status").split()
                    found[f"{pid}/{thread}"] = int(words[words.index("voluntary_ctxt_switches:") + 1])
        return found


def of_ip(frame: bytes) -> bool:
    """Does the Ethernet frame carry IP, but for what the kernel says to groups and neighbours by itself?"""
    at = IP.get(frame[12:14].hex())
    return at is not None and len(frame) > at and frame[at] not in OF_THE_NETWORK


@contextmanager
def watch_gateways(lab: Lab) -> Iterator[dict[str, Watched]]:
    """All gateways of the lab, by name."""
    with ExitStack() as stack:
        yield {
            site.name: Watched(
                lab.gateway(site), stack.enter_context(probe(lab.wan, "tap", site.name, ready="tapping"))
            )
            for site in lab.sites
        }


@contextmanager
def control(bench: Bench) -> Iterator[dict[str, Watched]]:
    """Bare gateways: gw1 polls, and gw2 is polled; gw3 has nothing to do. Raises MeasurementError."""
    with bench.meshes(star(mesh_sites(3))) as lab:
        near, far = lab.sites[0], lab.sites[1]
        wait_until(
            lambda: lab.gateway(near).run("ping", "-c1", "-W1", far.wan_address, check=False).code == 0, "a bare WAN"
        )
        every = str(round(POLLS_PER_S / PACKETS_PER_S))
        argv = ("python3", "-IS", "-c", POLLER, far.wan_address, str(POLLS_PER_S), every)
        lab.gateway(near).spawn(*argv, log="poller")
        with watch_gateways(lab) as gateways:
            yield gateways


def quiet(bench: Bench, quiet_s: float) -> Measured:
    """Leave the tunnel alone for ``quiet_s`` seconds, and the bare gateways beside it. Values are the mean of the two
    gateways. Raises MeasurementError, and InstrumentError where the control shows that it would not have been seen."""
    with control(bench) as bare, watch_gateways(bench.lab) as gateways:
        everyone = [*gateways.values(), *bare.values()]
        time.sleep(SETTLE_S)
        for gateway in everyone:
            gateway.begin()
        end_s = time.monotonic() + quiet_s
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_EVERY_S, left_s))
            for gateway in everyone:
                gateway.look()
        rests = {name: gateway.end() for name, gateway in gateways.items()}
        beside = {name: gateway.end() for name, gateway in bare.items()}
    check(polling=beside["gw1"], nothing=beside["gw3"])
    return Measured(values(rests, beside))


def check(polling: AtRest, nothing: AtRest) -> None:
    """Raise InstrumentError where the bare gateways do not show what is on them."""
    if nothing.cpu_ms or nothing.wakeups or nothing.packets or nothing.pss_bytes:
        raise InstrumentError(f"a gateway with nothing on it is said to have done something: {asdict(nothing)}")
    wakeups, packets = SEEN * POLLS_PER_S * MINUTE_S, SEEN * PACKETS_PER_S * MINUTE_S
    if polling.wakeups < wakeups or polling.packets < packets or not polling.cpu_ms or not polling.pss_bytes:
        raise InstrumentError(
            f"a program that wakes {POLLS_PER_S * MINUTE_S:g} times and sends {PACKETS_PER_S * MINUTE_S:g} packets a "
            f"minute was not seen on a gateway: {asdict(polling)}"
        )


def values(rests: Mapping[str, AtRest], beside: Mapping[str, AtRest]) -> list[Any]:
    """Each metric's mean over the gateways, and all of them beside the first."""
    of = {metric: [float(getattr(rest, field)) for rest in rests.values()] for metric, field in FIELDS.items()}
    found = [measurement(metric, sum(each) / len(each)) for metric, each in of.items()]
    found[0].detail.update(
        gateways={name: asdict(rest) for name, rest in rests.items()},
        polling=asdict(beside["gw1"]),
        nothing=asdict(beside["gw3"]),
    )
    return found


FIELDS = {
    "idle_cpu": "cpu_ms",
    "idle_wakeups": "wakeups",
    "idle_memory": "pss_bytes",
    "idle_packets": "packets",
    "idle_bytes": "bytes",
    "idle_silence": "silence_s",
}


class Quiet(Whole):
    """A tunnel that carries nothing."""

    name = "quiet"
    factors = {"quiet_s": Levels(("30", "120"), range=(10, 3600), default="120", told="{} s of nothing".format)}
    metrics = (
        Metric(
            name="idle_cpu",
            title="CPU time of an idle gateway",
            unit="ms/min",
            better="lower",
            definition="CPU time of all processes of a gateway while its tunnel carries nothing, in each minute; mean "
            "of the two gateways. The kernel counts it in the gateway's control group; its own threads are not in it.",
            source="cgroups(7), cpu.stat",
            margin=1.5,
        ),
        Metric(
            name="idle_wakeups",
            title="Wake-ups of an idle gateway",
            unit="/min",
            better="lower",
            definition="How often the threads of a gateway's processes went to sleep by themselves, to be woken later, "
            "in each minute in which the tunnel carries nothing: their voluntary context switches. Those that another "
            "process forces on them are not counted. Mean of the two gateways.",
            source="proc_pid_status(5), voluntary_ctxt_switches",
            margin=1.5,
        ),
        Metric(
            name="idle_memory",
            title="Memory of an idle gateway",
            unit="B",
            better="lower",
            definition="Proportional set size of a gateway's processes, after the time in which the tunnel carried "
            "nothing; mean of the two gateways. The kernel's own memory is not counted.",
            source="proc_pid_smaps(5), smaps_rollup, Pss",
        ),
        Metric(
            name="idle_packets",
            title="Packets of an idle tunnel",
            unit="/min",
            better="lower",
            definition="IP packets, both ways, on the WAN's cable of a gateway in each minute in which the tunnel "
            "carries nothing. ARP, IGMP and ICMPv6 are left out.",
            source="packet(7)",
        ),
        Metric(
            name="idle_bytes",
            title="Bytes of an idle tunnel",
            unit="B/min",
            better="lower",
            definition="The same packets' bytes, from the outer IP header on.",
            source="packet(7)",
        ),
        time_s(
            name="idle_silence",
            title="Longest silence of an idle tunnel",
            definition="The longest time without any of these packets. A NAT on the way forgets a tunnel that is "
            "silent for longer than its timer. At most as long as the trial's watch.",
            source="RFC 4787 REQ-5 (a NAT's timer for UDP: at least 2 minutes); RFC 3948 §4 (keepalives)",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.kind != "netns":
            return Unsupported("an idle gateway is watched where nothing but the VPN runs on it: in the namespace lab")
        return None

    def labs(self, params: Mapping[str, str]) -> int:
        return 2

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return SETTLE_S + float(params["quiet_s"]) + 1.0

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return quiet(bench, float(asked.params["quiet_s"]))
