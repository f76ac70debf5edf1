"""What a VPN carries, delays and costs at each of a few rates: a ladder that is climbed until a rate is not carried.

A rate that is not carried is a result like any other. The cost of a byte changes with the rate, and so does the order
of the VPNs: one rate for all would hide that, and at full load on shared cores cost is only the inverse of speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from runner.data.errors import CommandError, InstrumentError, MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import bit_rate
from runner.data.slices import FOREIGN, at_rate
from runner.data.trials import Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.beside import Beside, Nothing, echoing, stamping
from runner.instruments.tools.cost import machines
from runner.instruments.tools.fragments import headers_bytes, may_fragment
from runner.instruments.tools.generator import Arrived, Load, generator, smooth_burst
from runner.instruments.tools.recovery import await_empty_queues, broke_down
from runner.instruments.tools.visits import WARM_S, visits
from runner.instruments.traffic.udp_rounds import CAREFUL_RTTS
from runner.lab.node.probing import ProbeSaidError
from runner.lab.readings.kernel_threads import KernelThreads
from runner.lab.shape.site_to_site import Lab
from runner.search.settings import LOSS_RATIO, loss_bound
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

RUNGS_BPS = (10e6, 30e6, 100e6, 300e6, 1000e6, 3000e6)
CALLS_BPS = (1e6, 3e6, 10e6, 30e6, 100e6, 300e6)  # of packets as calls send them
CALL_BYTES = 200  # of payload: 20 ms of G.711, with the header of RTP and what secures it
OF_LINE = (0.1, 0.5, 0.8, 1.0, 1.25)  # of what a line has room for
ROOM = 0.93  # of a line's rate for payload: Ethernet's and IP's headers, and those of a tunnel, take the rest
CALL_ROOM = 0.69  # for that of calls: 28 bytes of UDP and IP, and 60 of a tunnel
RUNG_S = 0.25  # and a round trip, after which both ends are at it
FEWEST_PACKETS = 40  # of a rung: of fewer, one tells too much
ALONE_S = 0.15  # of a rung, from its begin: CPU time is counted, and no probe is beside the load yet
OVERHEAD_S = 0.06  # of a rung
CARRIED = 0.95  # of a rung: who carries less does not carry it
# Through a tunnel in TCP datagrams are offered at rates up to this many times its TCP throughput: overload breaks it.
CAREFUL, LOOK_S = 1.25, 0.2
FEWEST = 3  # visits, after which a VPN that never carried the lowest rung has no more
MEMORY = "ladder"  # its place in Asked.memory
SHARED = ("stamped sender", "echo beside")
KERNEL_THREADS = KernelThreads()


@dataclass
class SoFar:
    """What the visits of a cell have found, in all instances of its tunnel. ``highest_bps``: the highest rung that was
    ever carried, 0 where none was; ``tcp_bps``: the most that a look at TCP has found, through a tunnel in TCP;
    ``limited``: did the sender fall short of the rung above the highest?"""

    visits: int = 0
    highest_bps: float = 0.0
    tcp_bps: float = 0.0
    limited: bool = False
    told: str = ""  # what the delays are


@dataclass
class RungFound:
    """What one rung found: its values by their names in ``runner.data.trials.Rung``."""

    values: dict[str, float]
    unanswered: int = 0  # attempts before it, of which the probe said that nothing came through
    loss_bound: float = LOSS_RATIO  # of its datagrams, with what the path loses without a VPN

    @property
    def loss_ratio(self) -> float:
        """The share of the load's datagrams that was lost; TCP sends what is lost again."""
        return self.values.get("loss_ratio", 0.0) if "sent_ratio" in self.values else 0.0

    @property
    def is_carried(self) -> bool:
        """Did nearly all come through?"""
        least = CARRIED - (self.loss_bound - LOSS_RATIO)
        return self.values["carried_ratio"] >= least and self.loss_ratio <= self.loss_bound

    @property
    def sender_limited(self) -> bool:
        """Was it the sender that fell short?"""
        return self.values.get("sent_ratio", 1.0) < CARRIED and self.loss_ratio <= self.loss_bound


@dataclass
class Climb:
    """Climbs one tunnel's ladder, again and again."""

    bench: Bench
    asked: Asked
    so_far: SoFar
    fragment: bool = False

    @property
    def datagrams(self) -> bool:
        """Does the ladder carry datagrams?"""
        return self.asked.params["carried"] != "tcp"

    @property
    def payload_bytes(self) -> int:
        """Of each datagram."""
        return CALL_BYTES if self.asked.params["carried"] == "calls" else self.asked.profile.udp_payload_bytes

    @property
    def careful(self) -> bool:
        """May overload break the tunnel?"""
        return self.datagrams and self.asked.vpn.transport == "tcp"

    @property
    def side_probe(self) -> Beside:
        """The probe beside the load."""
        if not self.bench.lab.shared_kernel:
            return echoing(self.bench)
        if self.asked.vpn.carries == "tcp":
            return Nothing()
        return stamping(self.bench, generator(self.bench, fragments=self.fragment))

    def visit(self) -> dict[str, float]:
        """Climb until the first rung that is not carried, and at most one above the highest that ever was."""
        found, highest_bps, known_bps = dict[str, float](), 0.0, self.so_far.highest_bps
        rates = rungs(self.asked)
        for below_bps, rate_bps in zip([0.0, *rates], rates, strict=False):
            if (self.so_far.visits and below_bps > known_bps) or (
                below_bps and self.careful and self.too_much(rate_bps)
            ):
                break
            rung, climbed = self.attempts(rate_bps, again=rate_bps <= known_bps)
            found |= {at_rate(name, rate_bps): round(value, 6) for name, value in rung.values.items()}
            if not climbed:
                self.so_far.limited = rung.sender_limited
                break
            highest_bps = rate_bps
        self.so_far.visits += 1
        self.so_far.highest_bps = max(known_bps, highest_bps)
        return found | {"ladder_rate": highest_bps}

    def attempts(self, rate_bps: float, *, again: bool) -> tuple[RungFound, bool]:
        """Offer a rate, and once more where the sender fell short, or where it is not carried although it was before
        (``again``). Returns what the first attempt found that was offered as asked, with how many there were of these,
        and how many were bad; and whether any carried the rate, so that the climb goes on."""
        tried = [self.rung(rate_bps)]
        if tried[0].sender_limited or (again and not tried[0].is_carried):
            tried.append(self.rung(rate_bps))
        offered = [rung for rung in tried if not rung.sender_limited]
        first = (offered or tried)[0]
        unanswered = sum(rung.unanswered for rung in tried)
        bad = unanswered + sum(not rung.is_carried for rung in offered)
        counts = {"attempts": float(len(offered) + unanswered), "bad_attempts": float(bad)}
        broke_down = max(rung.values["broke_down"] for rung in tried)
        found = replace(first, values=first.values | counts | {"broke_down": broke_down}, unanswered=0)
        return found, any(rung.is_carried for rung in tried)

    def too_much(self, rate_bps: float) -> bool:
        """Is this rate far above what the tunnel's TCP carries? A new look is taken before that is said."""
        if rate_bps > CAREFUL * self.so_far.tcp_bps:
            look = visits(self.bench).tcp(LOOK_S)
            self.so_far.tcp_bps = max(self.so_far.tcp_bps, 8 * look["bytes"] / look["seconds"])
        return rate_bps > CAREFUL * self.so_far.tcp_bps

    def rung(self, rate_bps: float) -> RungFound:
        """Offer one rate; where it was too much, wait until the queues are empty, or make the tunnel anew."""
        rung = self._try_rate(self._datagrams if self.datagrams else self._tcp, rate_bps)
        if rung.is_carried:
            return rung
        nothing = rung.values["carried_ratio"] == 0 or (self.datagrams and not await_empty_queues(self.bench))
        rung.values["broke_down"] = float(nothing and broke_down(self.bench))
        if rung.values["broke_down"] or (nothing and self.careful):
            self.bench.renew()
        return rung

    def _try_rate(self, offer: Callable[[float], dict[str, float]], rate_bps: float) -> RungFound:
        """Offer a rate, twice where the first attempt has no result. A transfer that does not end in time, twice, has
        not been carried. Raises MeasurementError where it is the instrument that fails."""
        unanswered, packets = 0, max(FEWEST_PACKETS, RUNG_S * rate_bps / (8 * self.payload_bytes))
        bound = loss_bound(self.bench.lab.path_loss_ratio, packets)
        for last in (False, True):
            try:
                return RungFound({"broke_down": 0.0} | offer(rate_bps), unanswered, bound)
            except InstrumentError:
                raise
            except (MeasurementError, CommandError) as error:
                if broke_down(self.bench) or (last and isinstance(error, ProbeSaidError)):
                    return RungFound({"carried_ratio": 0.0, "broke_down": 0.0}, unanswered)
                if last:
                    raise
                unanswered += isinstance(error, ProbeSaidError)
        raise AssertionError

    def _tcp(self, rate_bps: float) -> dict[str, float]:
        via, beside = visits(self.bench), self.side_probe
        counting = Counting(self.bench.lab)
        rung_s = RUNG_S + self.bench.lab.rtt_s
        transfer = via.tcp(rung_s - WARM_S, rate_bps=rate_bps, meanwhile=lambda: counting.begin(beside))
        counting.end()
        beside.finish(rung_s)
        delays = beside.delays()
        carried_bps = 8 * transfer["bytes"] / transfer["seconds"]
        loss = {"loss_ratio": 1 - delays.came / delays.sent} if delays.sent else {}
        found = {"carried_ratio": min(1.0, carried_bps / rate_bps), **loss, **delays.values()}
        return found | counting.values(carried_bps)

    def _datagrams(self, rate_bps: float) -> dict[str, float]:
        payload_bytes = self.payload_bytes
        packet_bytes = payload_bytes + headers_bytes(self.bench.address)
        per_s, rtt_s = rate_bps / (8 * payload_bytes), self.bench.lab.rtt_s
        rung_s = max(RUNG_S, FEWEST_PACKETS / per_s, CAREFUL_RTTS * rtt_s * self.careful) + rtt_s
        load = Load((packet_bytes,), per_s, rung_s, burst=smooth_burst(per_s * rung_s), fragment=self.fragment)
        made = generator(self.bench, fragments=self.fragment)
        with made.anew():
            beside = self.side_probe
            counting = Counting(self.bench.lab)
            made.begin(load)
            counting.begin(beside)
            offered = made.sender_report(load)
            stamped = beside.finish(rung_s)
            arrived = made.finish(load, offered, beside=stamped)
            counting.end()
            delays = beside.delays()
        wanted = load.per_s * load.seconds
        return {
            "carried_ratio": min(1.0, arrived.kept_up / wanted),
            "sent_ratio": min(1.0, arrived.sent / wanted),
            "loss_ratio": 1 - arrived.received / arrived.sent if arrived.sent else 1.0,
            **delays.values(),
            **counting.values(8 * arrived.received * payload_bytes / lasted_s(arrived)),
        }


def rungs(asked: Asked) -> list[float]:
    """The rates of the ladder, bit/s of payload, the lowest first: the usual ones, or shares of what a line has room
    for. None above what the profile's searches may offer, unless the lowest is: then that is the only rung."""
    line_bps, most_bps = asked.params.get("line_bps"), asked.profile.udp.max_rate_bps
    room, usual = (CALL_ROOM, CALLS_BPS) if asked.params["carried"] == "calls" else (ROOM, RUNGS_BPS)
    rates = [float(round(share * room * float(line_bps))) for share in OF_LINE] if line_bps else list(usual)
    return [rate_bps for rate_bps in rates if rate_bps <= most_bps] or [most_bps]


class Counting:
    """Counts the CPU time of a load from now on. Where the nodes share a kernel, for ALONE_S, after which the probe
    begins beside it: what a VPN costs is what its load costs, whichever probe it has. Machines of their own tell their
    time too coarsely and too late for that: there it is counted until the load ends, with the same probe for all."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._before = lab, spent_s(lab)
        self._after: dict[str, float] | None = None

    def begin(self, beside: Beside) -> None:
        """Let the probe begin, when it is its turn: by its own clock, as this process may wake up too late."""
        rtt_s = self._lab.rtt_s
        if not self._lab.shared_kernel:
            beside.begin(RUNG_S + rtt_s)
            return
        beside.begin(RUNG_S - ALONE_S, rtt_s + ALONE_S)
        if rtt_s:
            time.sleep(rtt_s)
            self._before = spent_s(self._lab)
        time.sleep(ALONE_S)
        self._after = spent_s(self._lab)

    def end(self) -> None:
        """The load has ended."""
        self._after = self._after or spent_s(self._lab)

    def values(self, carried_bps: float) -> dict[str, float]:
        """The time that it was counted for, the payload that was carried at this rate in it, and the CPU seconds where
        they are known. A counter of another machine may have gone back by what its other programs usually spend: then
        they are not. Nothing where this process woke up only after the load's end."""
        assert self._after is not None
        found = {name: value - self._before[name] for name, value in self._after.items() if name in self._before}
        found = {name: value for name, value in found.items() if value >= 0 or name == FOREIGN}
        if self._lab.shared_kernel and found["seconds"] > RUNG_S:
            return {}
        return found | {"carried_bytes": carried_bps / 8 * found["seconds"]}


def spent_s(lab: Lab) -> dict[str, float]:
    """Seconds so far, of a clock (``seconds``) and on CPUs: ``cpu_s``, of all nodes and of the kernel's threads where
    they share a kernel, for all VPNs alike, because the kernel charges its work on a packet to the process that sends
    it, or to a thread of its own; else of both gateways. In the first case also what is in it of each gateway's
    processes (``gw1_cpu_s``) and of the kernel's threads (``threads_cpu_s``), which work for all nodes; and
    ``foreign_s``, of the machine's other programs. No CPU seconds where nobody counts them."""
    if not lab.shared_kernel:
        return {"seconds": time.monotonic(), "cpu_s": sum(machines(lab).cpu_s.values())}
    threads_s = KERNEL_THREADS.seconds()
    by_node = {name: node.cpu_s() for name, node in lab.nodes.items()}
    known = {name: seconds for name, seconds in by_node.items() if seconds is not None}
    if len(known) < len(by_node):
        return {"seconds": time.monotonic()}
    cpu_s = sum(known.values()) + threads_s
    own = {f"{site.name}_cpu_s": known[site.name] for site in lab.sites}
    foreign_s = sum(machines(lab).cpu_s.values()) - cpu_s - time.process_time()
    return {"seconds": time.monotonic(), "cpu_s": cpu_s, "threads_cpu_s": threads_s, **own, FOREIGN: foreign_s}


def lasted_s(arrived: Arrived) -> float:
    """From the first datagram that was sent to the last that came."""
    return max(arrived.seconds, arrived.samples[-1][0] if arrived.samples else 0.0)


@contextmanager
def probes_anew(bench: Bench) -> Iterator[None]:
    """After a failure the probes beside the load begin anew: what they would say next is unknown."""
    try:
        yield
    except (MeasurementError, CommandError):
        for name in SHARED:
            bench.forget(name)
        raise


class Ladder(Instrument):
    """A few rates, from the lowest up, in TCP or in datagrams."""

    name = "ladder"
    factors = {
        "carried": Levels(("tcp", "datagrams", "calls"), default="tcp", told="{} at rising rates".format),
        "line_bps": Levels(("100000000",), (100_000, 10**11)),
    }
    metrics = (
        bit_rate(
            name="ladder_rate",
            title="Highest rate of the ladder",
            definition="Rates of 10, 30, 100, 300, 1000 and 3000 Mbit/s of payload (with the factor line_bps: 0.1, "
            "0.5, 0.8, 1 and 1.25 times 93 % of that line) are offered for a quarter of a second each, as one paced "
            "TCP stream or as datagrams, until one is not carried: less than 95 % of it comes through, or more than "
            "1 % of its datagrams is lost. Datagrams of calls have 200 bytes; their rates are a tenth of these, or "
            "shares of 69 % of the line. The value is the highest rate that is carried, 0 where not even the lowest "
            "is. The trial's curve has what was carried, lost and delayed at each rate, and the CPU time it took.",
            source="after RFC 8219 §5 (fixed loads), RFC 2544 §26.3 (loss rate by rate), RFC 7679 (one-way delay); "
            "cgroups(7), proc_stat(5)",
        ),
    )
    inner_ipv6 = True
    every = 2  # a ladder takes as long as ten other turns

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if params["carried"] != "tcp" and vpn.carries == "tcp":
            return Unsupported(f"{vpn.title} carries TCP only", cause="tcp only")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 5 * (RUNG_S + OVERHEAD_S)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        so_far: SoFar = asked.memory.setdefault(MEMORY, SoFar())
        climb, go, highest = Climb(bench, asked, so_far), Go.ON, list[float]()
        if climb.datagrams:
            length = climb.payload_bytes + headers_bytes(bench.address)
            climb.fragment = may_fragment(bench, {"fragmentation": asked.profile.fragmentation}, length)
        while go is Go.ON:
            with probes_anew(bench):
                so_far.told = climb.side_probe.told
                found = climb.visit()
            highest.append(found["ladder_rate"])
            go = yield found
            if not asked.profile.rounds or (so_far.visits >= FEWEST and not so_far.highest_bps):
                break
        return Measured([value(highest, so_far)])


def value(highest_bps: list[float], so_far: SoFar) -> Value:
    """The highest rate of the middle visit, with what the delays are, and whether the sender was the limit."""
    middle = sorted(highest_bps)[len(highest_bps) // 2]
    detail: dict[str, Any] = {"delays": so_far.told} if so_far.told else {}
    return measurement("ladder_rate", middle, **detail | ({"at_least": True} if so_far.limited else {}))
