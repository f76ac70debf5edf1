"""Packet rate: how many packets of one length the tunnel forwards in a second, by a loss-bounded search."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from runner.data.errors import CommandError, MeasurementError
from runner.data.metric import Metric
from runner.data.remarks import breakdown
from runner.data.trials import Trial
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import machines
from runner.instruments.tools.counters import fragments_created
from runner.instruments.tools.factors import BURST_PACKETS, FRAGMENTATION, PACKET_BYTES
from runner.instruments.tools.fragments import may_fragment
from runner.instruments.tools.generator import BURST, Generator, Load, generating, generator
from runner.instruments.tools.limits import Limits
from runner.instruments.tools.searched import on_one_cpu, run_search
from runner.instruments.traffic.tcp import pilot_bps
from runner.instruments.traffic.udp import found_rate, search_detail
from runner.lab.readings.wire import outer
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.tunnel.bring_up import Bench

OVERHEAD_S = 0.5  # what a trial costs beyond its duration: probes, counters, the last packets
LAST_STILL_S = 0.15  # without a packet: none is on its way any more, in the longest queues
MIN_RATE_BPS = 1e5


@dataclass(frozen=True)
class Counted:
    """One stream of packets: sent on host1, counted at host2's interface and on the WAN. Packets are inner ones.

    ``on_time`` of the ``received`` came within the sender's time, see generator.py; ``late`` is the rest. ``burst`` and
    ``longest_burst``: how many left back to back, on the mean and at most.
    """

    sent: int
    seconds: float
    received: int
    on_time: int
    outer_packets: int
    outer_ip_bytes: int
    fragments: int
    cpu_s: float
    burst: float
    longest_burst: int

    @property
    def late(self) -> int:
        """Packets that came after the sender's time."""
        return self.received - self.on_time

    @property
    def lost_packets(self) -> int:
        """Packets that did not come at all."""
        return self.sent - self.received


def packets(
    bench: Bench,
    packet_bytes: int,
    fragment: bool,
    search: UdpSearch,
    first_bps: float | None,
    burst: int = BURST,
) -> Measuring:
    """Packet rate of inner packets of ``packet_bytes`` (IPv4) by the loss-bounded search, and its CPU cost.

    ``fragment``: whether they may be fragmented. ``first_bps``: where to start, in inner bit/s. ``burst``: how many
    leave back to back. A rate that breaks the tunnel down counts as lost altogether, and the tunnel is made anew.
    Raises MeasurementError where there is no rate to report.
    """
    started = time.monotonic()
    measured = Measured()
    bits = 8 * packet_bytes
    streams: list[Counted] = []
    breakdowns: list[float] = []
    limits = Limits()

    def offer(rate_bps: float, duration_s: float) -> Loss:
        try:
            by = generator(bench, fragments=fragment)
            with limits.watch(bench, rate_bps) as piece:  # outside of the counters: the reading costs CPU time, too
                offered = (packet_bytes, rate_bps / bits, duration_s, fragment)
                counted = stream(bench.lab, bench.address, *offered, burst=burst, by=by)
                piece.note_carried(counted.received * packet_bytes, counted.sent * packet_bytes)
        except (CommandError, MeasurementError):
            if bench.carries_payload():
                raise
            counted = None
        if counted is None or (not counted.received and not bench.carries_payload()):
            breakdowns.append(rate_bps / bits)
            bench.renew()
            return Loss(1, 0, rate_bps)
        streams.append(counted)
        return Loss(counted.sent, counted.on_time, counted.sent / counted.seconds * bits)

    result = yield from run_search(search, offer, first_bps, OVERHEAD_S, min(MIN_RATE_BPS, first_bps or MIN_RATE_BPS))
    result = on_one_cpu(result, bench.lab)
    value = found_rate(result, "packet rate", measured)
    measured.loads = limits.machine_loads(value)
    measured.remarks += breakdown("packets", breakdowns, "packet/s")
    slower = (packet_bytes, 0.9 * value / bits, 1.0, fragment)
    best = best_passing(streams) or stream(bench.lab, bench.address, *slower, burst=burst)
    detail = search_detail(result) | stream_detail(best, burst) | {"breakdowns_packets_per_s": breakdowns}
    measured.measurements.append(measurement("packet_rate", value / bits, packet_bytes=packet_bytes, **detail))
    if best.cpu_s > 0 and best.received:
        per_cpu = best.received / best.cpu_s
        of = "the whole lab, which shares a kernel" if bench.lab.shared_kernel else "both gateways"
        cost = measurement("packets_per_cpu_second", per_cpu, of=of, cpu_seconds=round(best.cpu_s, 3))
        measured.measurements.append(cost)
    measured.measuring_s = time.monotonic() - started
    return measured


def stream(
    lab: Lab,
    address: str,
    packet_bytes: int,
    per_s: float,
    seconds: float,
    fragment: bool = False,
    *,
    burst: int = BURST,
    by: Generator | None = None,
) -> Counted:
    """Send packets of ``packet_bytes`` at ``per_s`` for ``seconds`` from host1, and count them where they come out.

    ``burst`` of them are sent together (see generate.py). ``by``: a generator for such packets, where there is one.
    Raises MeasurementError where a probe does not work, or the counter's two counts disagree.
    """
    load = Load((packet_bytes,), per_s, seconds, burst=burst, fragment=fragment)
    with ExitStack() as stack:
        by = by or stack.enter_context(generating(lab, address, fragments=fragment))
        wan, fragments, cpu = outer(lab), fragments_created(lab), cpu_spent(lab)
        by.begin(load)
        sent = by.sender_report(load)
        cpu = cpu_spent(lab) - cpu
        arrived = by.finish(load, sent, LAST_STILL_S)
        passed = outer(lab) - wan
    return Counted(
        sent=arrived.sent,
        seconds=arrived.seconds,
        received=arrived.received,
        on_time=arrived.on_time,
        outer_packets=passed.packets,
        outer_ip_bytes=passed.ip_bytes,
        fragments=fragments_created(lab) - fragments,
        cpu_s=cpu,
        burst=arrived.burst,
        longest_burst=arrived.longest_burst,
    )


def cpu_spent(lab: Lab) -> float:
    """CPU seconds so far, of both gateways; of the whole lab where its nodes share a kernel."""
    return sum(machines(lab).cpu_s.values())


def best_passing(streams: Sequence[Counted]) -> Counted | None:
    """The stream with the most packets a second among those that lost no more than the search allows."""
    passing = [counted for counted in streams if counted.on_time >= (1 - LOSS_RATIO) * counted.sent]
    return max(passing, key=lambda counted: counted.sent / counted.seconds, default=None)


def stream_detail(counted: Counted, burst: int = BURST) -> dict[str, Any]:
    """The stream that the costs are taken from, as data for the trial's line."""
    return {
        "sent": counted.sent,
        "received": counted.received,
        "late": counted.late,
        "lost": counted.lost_packets,
        "outer_packets_per_packet": round(counted.outer_packets / max(1, counted.received), 4),
        "outer_ip_bytes_per_packet": round(counted.outer_ip_bytes / max(1, counted.received), 2),
        "fragments": counted.fragments,
        "burst_packets": burst,
        "burst_packets_sent": round(counted.burst, 1),
        "burst_packets_longest": counted.longest_burst,
    }


class Packets(Instrument):
    """A search for the packet rate."""

    name = "packets"
    factors = {"packet_bytes": PACKET_BYTES, "fragmentation": FRAGMENTATION, "burst_packets": BURST_PACKETS}
    metrics = (
        Metric(
            name="packet_rate",
            title="Packet rate",
            unit="packet/s",
            better="higher",
            definition="The highest offered rate of inner packets of one length at which the mean loss ratio stays "
            "below 1 %. The far host's interface counts the packets, so that no receiving program limits the rate. A "
            "packet that comes out of a queue after the sender has stopped is not counted.",
            source="RFC 2544 §26.1 with the thesis' loss bound; RFC 2285 §3.6.1 (forwarding rate)",
            limited=True,
        ),
        Metric(
            name="packets_per_cpu_second",
            title="Packets per CPU second",
            unit="packet/s",
            better="higher",
            definition="The number of inner packets received per CPU second (user, system, interrupt, softirq) of the "
            "gateways, in the fastest trial of the search that passed. If the lab's nodes share a kernel, the CPU "
            "time is that of the whole lab, including the generator.",
            source="proc_stat(5)",
        ),
    )
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return profile.packets.expected_s(OVERHEAD_S, first=first, warm_budget_s=profile.warm_budget_s)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Search from where an earlier repetition ended, from overload, or, through a tunnel in TCP, from a pilot's
        rate."""
        packet_bytes = int(asked.params["packet_bytes"])
        fragment = may_fragment(bench, asked.params, packet_bytes)
        first_bps = asked.known_bps
        if first_bps is None and asked.vpn.transport == "tcp":
            first_bps = 0.7 * pilot_bps(bench) * min(1.0, packet_bytes / 1500)
        burst = int(asked.params.get("burst_packets", BURST))
        return (yield from packets(bench, packet_bytes, fragment, asked.profile.packets, first_bps, burst))

    def known_bps(self, trial: Trial) -> float | None:
        return rate_found(trial, "packet_rate")


def rate_found(trial: Trial, metric: str) -> float | None:
    """What a search for packets a second found, in bit/s of inner packets; None where it found nothing."""
    packets_per_s = next((measured.value for measured in trial.measurements if measured.metric == metric), None)
    return None if packets_per_s is None else packets_per_s * 8 * int(trial.params["packet_bytes"])
