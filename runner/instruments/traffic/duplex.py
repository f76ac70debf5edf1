"""Packets of one length through the tunnel in both directions at once: packet rate, share forwarded, fragmentation.

As the router paper measures (§VI), but for the search: a flood says how much of too much is forwarded, and only a rate
that is not lossy says what the tunnel carries. Both are measured, each by its name.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.metric import Metric, share
from runner.data.remarks import breakdown_remarks
from runner.data.trials import Trial, Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.factors import BURST_PACKETS, PACKET_BYTES
from runner.instruments.tools.generator import BURST, Load, generator
from runner.instruments.tools.searched import Played, Trials, search_detail
from runner.instruments.traffic.packets import MIN_RATE_BPS, OVERHEAD_S, Counted, rate_found, search_rate, stream
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench

LINE_BPS = 1e9  # what is offered each way under overload: hardware configuration A of the paper
ETHERNET_BYTES = 38  # preamble, header, check sequence and gap: with 46 bytes of IP the paper's 1.488 Mpacket/s
OVERLOAD_S = 0.4
FEWEST_TRIALS = 10  # may be made, however slow the machine is: climbing to a rate that fails can take seven


def duplex(
    bench: Bench, packet_bytes: int, search: UdpSearch, known_bps: float | None, burst: int = BURST
) -> Measuring:
    """Packet rate both ways of inner packets of ``packet_bytes`` (IPv4), which may be fragmented.

    The search's budget counts what a trial really costs here, and is stretched to FEWEST_TRIALS of them.
    ``known_bps``: what an earlier repetition found, in inner bit/s, where the search then starts. Raises
    MeasurementError where there is no rate to report.
    """
    started, measured, bits = time.monotonic(), Measured(), 8 * packet_bytes

    def play(rate_bps: float, duration_s: float) -> Played[Counted]:
        return both_ways(bench, packet_bytes, rate_bps / bits / 2, duration_s, burst).as_played(packet_bytes)

    trials = Trials(bench, play)
    line_bps = 2 * LINE_BPS * packet_bytes / (packet_bytes + ETHERNET_BYTES)
    trials.offer(line_bps, OVERLOAD_S)
    overload = trials.counts[0] if trials.counts else None
    # What a trial costs beside its packets: half a second, and in a guest kernel several.
    overhead_s = max(OVERHEAD_S, time.monotonic() - started - OVERLOAD_S)
    least_s = FEWEST_TRIALS * (search.trial_duration_s + overhead_s)
    search = replace(search, budget_s=max(search.budget_s or 0.0, least_s))
    first_bps = known_bps
    if first_bps is None and overload:
        first_bps = max(MIN_RATE_BPS, overload.on_time / overload.seconds * bits)
    result = yield from search_rate(trials, search, first_bps, overhead_s)
    value = trials.found_rate(result, "packet rate", measured)
    breakdowns = [rate_bps / bits for rate_bps in trials.breakdowns_bps]
    measured.remarks += breakdown_remarks("packets", breakdowns, "packet/s")
    streams = trials.counts
    detail = search_detail(result) | {"packet_bytes": packet_bytes, "breakdowns_packets_per_s": breakdowns}
    detail |= bursts_detail(streams[1:], burst)  # without the overload, which knows no pause
    measured.measurements.append(measurement("packet_rate_both_ways", value / bits, **detail))
    if overload:
        share = measurement("forwarded_share", overload.received / overload.sent)
        share.detail.update(sent=overload.sent, offered_per_s=round(overload.sent / overload.seconds))
        measured.measurements.append(share)
    calm = next((stream for stream in reversed(streams) if stream.received == stream.sent), None)
    calm = calm or both_ways(bench, packet_bytes, value / bits / 4, OVERLOAD_S, burst)  # half of it
    measured.measurements.append(_per_packet(calm))
    measured.measuring_s = time.monotonic() - started
    return measured


def _per_packet(calm: Counted) -> Value:
    """Packets on the WAN for each packet of the hosts, in a stream without loss. Raises MeasurementError where nothing
    arrived."""
    if not calm.received:
        raise MeasurementError(f"nothing arrived of {calm.sent} packets at half of the packet rate")
    per_packet = measurement("wan_packets_per_packet", calm.outer_packets / calm.received)
    per_packet.detail.update(sent=calm.sent, received=calm.received, fragments=calm.fragments)
    return per_packet


def both_ways(bench: Bench, packet_bytes: int, per_s: float, seconds: float, burst: int = BURST) -> Counted:
    """Packets of ``packet_bytes`` at ``per_s`` each way for ``seconds``, ``burst`` of them back to back at most. Raises
    as ``stream``."""
    ways = [generator(bench, reverse=reverse, fragments=True) for reverse in (False, True)]
    return stream(bench.lab, Load((packet_bytes,), per_s, seconds, burst, fragment=True), ways)


def bursts_detail(streams: Sequence[Counted], burst: int = BURST) -> dict[str, Any]:
    """In which bursts packets were asked for and left, as data for the trial's line."""
    return {
        "burst_packets": burst,
        "burst_packets_sent": round(statistics.median(stream.burst for stream in streams), 1) if streams else None,
        "burst_packets_longest": max((stream.longest_burst for stream in streams), default=None),
    }


class Duplex(Instrument):
    """A search for the packet rate both ways at once."""

    name = "duplex"
    factors = {"packet_bytes": PACKET_BYTES, "burst_packets": BURST_PACKETS}
    metrics = (
        Metric(
            name="packet_rate_both_ways",
            title="Packet rate, both ways",
            unit="packet/s",
            better="higher",
            definition="The hosts send inner packets of one length to each other at the same time. The value is the "
            "highest offered rate, both directions added, at which the mean loss ratio stays below 1 %. A short "
            "search finds it.",
            source="the paper on the Quagga and strongSwan router, §VI (figure 6); RFC 2544 §26.1",
            limited=True,
        ),
        share(
            name="forwarded_share",
            title="Share forwarded under overload",
            better="higher",
            definition="The hosts offer more packets in both directions than the tunnel can carry: the line rate of 1 "
            "Gbit/s each way, or as much as the generator can send. The value is the number of packets that arrive, "
            "divided by the number that were sent.",
            source="the paper on the Quagga and strongSwan router, §VI; RFC 2285 §3.6.2 (rate at maximum offered load)",
        ),
        Metric(
            name="wan_packets_per_packet",
            title="WAN packets per packet",
            unit="packet/packet",
            better="lower",
            definition="The number of packets on the WAN for each inner packet that arrives, at a rate that loses "
            "none. It doubles where packets are fragmented, because packet and encapsulation together are longer than "
            "the WAN's MTU.",
            source="the paper on the Quagga and strongSwan router, §VI; RFC 791 §3.2 (fragmentation)",
        ),
    )
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return profile.duplex.expected_s(OVERHEAD_S, first=first, warm_budget_s=profile.warm_budget_s)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Search from where an earlier repetition ended, if there is one."""
        packet_bytes, burst = int(asked.params["packet_bytes"]), int(asked.params.get("burst_packets", BURST))
        return (yield from duplex(bench, packet_bytes, asked.profile.duplex, asked.known_bps, burst))

    def known_bps(self, trial: Trial) -> float | None:
        return rate_found(trial, "packet_rate_both_ways")
