"""Packet rate: how many packets of one length the tunnel forwards in a second, by a loss-bounded search."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.data.metric import Metric
from runner.data.remarks import breakdown_remarks
from runner.data.trials import Trial
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import machines
from runner.instruments.tools.counters import fragments_created
from runner.instruments.tools.factors import BURST_PACKETS, FRAGMENTATION, PACKET_BYTES
from runner.instruments.tools.fragments import may_fragment
from runner.instruments.tools.generator import BURST, Generator, Load, at_once, generator
from runner.instruments.tools.searched import Played, Searching, Trials, on_one_cpu, run_search, search_detail
from runner.instruments.traffic.tcp import pilot_bps
from runner.lab.readings.wire import Outer, outer
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.tunnel.bring_up import Bench

OVERHEAD_S = 0.5  # what a trial costs beyond its duration: probes, counters, the last packets
LAST_STILL_S = 0.15  # without a packet: none is on its way any more, in the longest queues
MIN_RATE_BPS = 1e5


@dataclass(frozen=True)
class Counted:
    """Streams of packets, one each way: sent on one host, counted at the other's interface and on the WAN. Packets are
    inner ones, of all ways together.

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
    burst: float
    longest_burst: int
    cpu_s: float = 0.0

    @property
    def late(self) -> int:
        """Packets that came after the sender's time."""
        return self.received - self.on_time

    @property
    def lost_packets(self) -> int:
        """Packets that did not come at all."""
        return self.sent - self.received

    def as_played(self, packet_bytes: int) -> Played[Counted]:
        """A trial of packets of this length, whose rate is in inner bit/s."""
        loss = Loss(self.sent, self.on_time, self.sent / self.seconds * 8 * packet_bytes)
        return Played(loss, self.sent * packet_bytes, self.received * packet_bytes, self)


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
    leave back to back. Raises MeasurementError where there is no rate to report.
    """
    started, measured, bits = time.monotonic(), Measured(), 8 * packet_bytes

    def send(per_s: float, seconds: float) -> Counted:
        load = Load((packet_bytes,), per_s, seconds, burst, fragment=fragment)
        return stream(bench.lab, load, [generator(bench, fragments=fragment)], lambda: cpu_spent(bench.lab))

    generator(bench, fragments=fragment)  # its start belongs to no trial
    trials = Trials(bench, lambda rate_bps, seconds: send(rate_bps / bits, seconds).as_played(packet_bytes))
    result = yield from search_rate(trials, search, first_bps, OVERHEAD_S)
    value = trials.found_rate(result, "packet rate", measured)
    breakdowns = [rate_bps / bits for rate_bps in trials.breakdowns_bps]
    measured.remarks += breakdown_remarks("packets", breakdowns, "packet/s")
    best = best_passing(trials.counts) or send(0.9 * value / bits, 1.0)
    detail = search_detail(result) | stream_detail(best, burst) | {"breakdowns_packets_per_s": breakdowns}
    measured.measurements.append(measurement("packet_rate", value / bits, packet_bytes=packet_bytes, **detail))
    if best.cpu_s > 0 and best.received:
        per_cpu = best.received / best.cpu_s
        of = "the whole lab, which shares a kernel" if bench.lab.shared_kernel else "both gateways"
        cost = measurement("packets_per_cpu_second", per_cpu, of=of, cpu_seconds=round(best.cpu_s, 3))
        measured.measurements.append(cost)
    measured.measuring_s = time.monotonic() - started
    return measured


def search_rate(trials: Trials[Counted], search: UdpSearch, first_bps: float | None, overhead_s: float) -> Searching:
    """A search in inner bit/s, from ``first_bps`` on, if anything is known."""
    lowest_bps = min(MIN_RATE_BPS, first_bps or MIN_RATE_BPS)
    result = yield from run_search(search, trials.offer, first_bps, overhead_s, lowest_bps)
    return on_one_cpu(result, trials.bench.lab)


def stream(lab: Lab, load: Load, ways: Sequence[Generator], spent_s: Callable[[], float] = lambda: 0.0) -> Counted:
    """Send ``load`` by each of ``ways`` (the first from host1 to host2, the second back) at the same time, and count
    its packets where they come out. ``spent_s``: CPU seconds so far, for the time in which they are sent.

    Raises MeasurementError where a probe does not work, or a counter's two counts disagree.
    """
    wan, fragments, spent = on_the_wan(lab, len(ways)), fragments_created(lab), [spent_s()]
    arrived = at_once(ways, load, LAST_STILL_S, lambda: spent.append(spent_s()))
    passed = [after - before for after, before in zip(on_the_wan(lab, len(ways)), wan, strict=True)]
    return Counted(
        sent=sum(way.sent for way in arrived),
        seconds=max(way.seconds for way in arrived),
        received=sum(way.received for way in arrived),
        on_time=sum(way.on_time for way in arrived),
        outer_packets=sum(way.packets for way in passed),
        outer_ip_bytes=sum(way.ip_bytes for way in passed),
        fragments=fragments_created(lab) - fragments,
        burst=statistics.fmean(way.burst for way in arrived),
        longest_burst=max(way.longest_burst for way in arrived),
        cpu_s=spent[1] - spent[0],
    )


def on_the_wan(lab: Lab, ways: int) -> list[Outer]:
    """What has gone over the WAN so far, forward, and of two ways in reverse, too."""
    return [outer(lab, direction) for direction in ("forward", "reverse")[:ways]]


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
