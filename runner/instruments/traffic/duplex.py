"""Packets of one length through the tunnel in both directions at once: packet rate, share forwarded, fragmentation.

As the router paper measures (§VI), but for the search: a flood says how much of too much is forwarded, and only a rate
that is not lossy says what the tunnel carries. Both are measured, each by its name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runner.data.errors import CommandError, MeasurementError
from runner.data.metric import Metric
from runner.data.trials import Trial
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.traffic.counters import fragments_created
from runner.instruments.traffic.factors import PACKET_BYTES
from runner.instruments.traffic.generator import Load, generator
from runner.instruments.traffic.packets import LAST_STILL_S, OVERHEAD_S, rate_found
from runner.instruments.traffic.searched import searched
from runner.instruments.traffic.udp import found_rate, search_detail
from runner.lab.site_to_site import Lab
from runner.lab.wire import outer
from runner.search import Loss
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench

LINE_BPS = 1e9  # what is offered each way under overload: hardware configuration A of the paper
ETHERNET_BYTES = 24  # preamble, header and gap; the paper counts the frame check sequence into its 64 bytes
OVERLOAD_S = 0.4
MIN_RATE_BPS = 1e5
FEWEST_TRIALS = 4  # however slow the machine is


@dataclass(frozen=True)
class Both:
    """A stream each way at once. Inner packets, both directions together; ``on_time`` as in packets.py."""

    sent: int
    seconds: float
    received: int
    on_time: int
    outer_packets: int
    fragments: int


def duplex(bench: Bench, packet_bytes: int, search: UdpSearch, known_bps: float | None) -> Measuring:
    """Packet rate both ways of inner packets of ``packet_bytes`` (IPv4), which may be fragmented.

    The search's budget counts what a trial really costs here, and is stretched to FEWEST_TRIALS of them.
    ``known_bps``: what an earlier repetition found, in inner bit/s, where the search then starts. A rate that breaks
    the tunnel down counts as lost altogether. Raises MeasurementError where there is no rate to report.
    """
    started = time.monotonic()
    bits = 8 * packet_bytes
    streams: list[Both] = []
    breakdowns: list[float] = []

    def offer(rate_bps: float, duration_s: float) -> Loss:
        try:
            both: Both | None = both_ways(bench, packet_bytes, rate_bps / bits / 2, duration_s)
        except (CommandError, MeasurementError):
            if bench.carries_payload():
                raise
            both = None
        if both is None or (not both.received and not bench.carries_payload()):
            breakdowns.append(rate_bps / bits)
            bench.renew()
            return Loss(1, 0, rate_bps)
        streams.append(both)
        return Loss(both.sent, both.on_time, both.sent / both.seconds * bits)

    line_bps = 2 * LINE_BPS * packet_bytes / (packet_bytes + ETHERNET_BYTES)
    offer(line_bps, OVERLOAD_S)
    overload = streams[0] if streams else None
    # What a trial costs beside its packets: half a second, and in a guest kernel several.
    overhead_s = max(OVERHEAD_S, time.monotonic() - started - OVERLOAD_S)
    least_s = FEWEST_TRIALS * (search.trial_duration_s + overhead_s)
    search = replace(search, budget_s=max(search.budget_s or 0.0, least_s))
    first_bps = known_bps
    if first_bps is None and overload:
        first_bps = max(MIN_RATE_BPS, overload.on_time / overload.seconds * bits)
    result = yield from searched(search, offer, first_bps, overhead_s, min(MIN_RATE_BPS, first_bps or MIN_RATE_BPS))
    measured = Measured()
    value = found_rate(result, "packet rate", measured)
    if breakdowns:
        measured.warnings.append(f"the tunnel broke down under packets, from {min(breakdowns):.0f} packet/s offered")
    detail = search_detail(result) | {"packet_bytes": packet_bytes, "breakdowns_packets_per_s": breakdowns}
    measured.measurements.append(measurement("packet_rate_both_ways", value / bits, **detail))
    if overload:
        share = measurement("forwarded_share", overload.received / overload.sent)
        share.detail.update(sent=overload.sent, offered_per_s=round(overload.sent / overload.seconds))
        measured.measurements.append(share)
    calm = next((one for one in reversed(streams) if one.received == one.sent), None)
    calm = calm or both_ways(bench, packet_bytes, value / bits / 4, OVERLOAD_S)  # half of it
    if not calm.received:
        raise MeasurementError(f"nothing arrived of {calm.sent} packets at half of the packet rate")
    per_packet = measurement("wan_packets_per_packet", calm.outer_packets / calm.received)
    per_packet.detail.update(sent=calm.sent, received=calm.received, fragments=calm.fragments)
    measured.measurements.append(per_packet)
    measured.measuring_s = time.monotonic() - started
    return measured


def both_ways(bench: Bench, packet_bytes: int, per_s: float, seconds: float) -> Both:
    """Packets of ``packet_bytes`` at ``per_s`` each way for ``seconds``, counted where they come out.

    Raises MeasurementError where a probe does not work, or a counter's two counts disagree.
    """
    lab, load = bench.lab, Load((packet_bytes,), per_s, seconds, fragment=True)
    ways = [generator(bench, reverse=reverse, fragments=True) for reverse in (False, True)]
    wan, fragments = _outer_packets(lab), fragments_created(lab)
    for way in ways:
        way.begin(load)
    sent = [way.sent(load) for way in ways]
    arrived = [way.finish(load, one, LAST_STILL_S) for way, one in zip(ways, sent, strict=True)]
    return Both(
        sent=sum(one.sent for one in arrived),
        seconds=max(one.seconds for one in arrived),
        received=sum(one.received for one in arrived),
        on_time=sum(one.on_time for one in arrived),
        outer_packets=_outer_packets(lab) - wan,
        fragments=fragments_created(lab) - fragments,
    )


def _outer_packets(lab: Lab) -> int:
    return outer(lab, "forward").packets + outer(lab, "reverse").packets


class Duplex(Instrument):
    """A search for the packet rate both ways at once."""

    name = "duplex"
    factors = {"packet_bytes": PACKET_BYTES}
    metrics = (
        Metric(
            name="packet_rate_both_ways",
            title="Packet rate, both ways",
            unit="packet/s",
            better="higher",
            definition="Inner packets of one length per second, both directions at once and together: the highest "
            "offered rate whose mean loss ratio stays below 1 %, by a short search.",
            source="the paper on the Quagga and strongSwan router, §VI (figure 6); RFC 2544 §26.1",
        ),
        Metric(
            name="forwarded_share",
            title="Share forwarded under overload",
            unit="1",
            better="higher",
            definition="Packets that arrived of those that were offered, both directions, when more is offered than "
            "the tunnel carries: the line rate of 1 Gbit/s each way, or what the generator can.",
            source="the paper on the Quagga and strongSwan router, §VI; RFC 2285 §3.6.2 (rate at maximum offered load)",
        ),
        Metric(
            name="wan_packets_per_packet",
            title="WAN packets per packet",
            unit="packet/packet",
            better="lower",
            definition="Packets on the WAN per inner packet that arrived, at a rate that loses none. Where a packet "
            "and its encapsulation are longer than the WAN's MTU it is fragmented, and this doubles.",
            source="the paper on the Quagga and strongSwan router, §VI; RFC 791 §3.2 (fragmentation)",
        ),
    )
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return profile.duplex.expected_s(OVERHEAD_S, first=first, warm_budget_s=profile.warm_budget_s)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """From where an earlier repetition ended, with less time then."""
        search, profile = asked.profile.duplex, asked.profile
        if asked.known_bps is not None and profile.warm_budget_s is not None:
            search = replace(search, budget_s=0.6 * (search.budget_s or profile.warm_budget_s))
        return (yield from duplex(bench, int(asked.params["packet_bytes"]), search, asked.known_bps))

    def known_bps(self, trial: Trial) -> float | None:
        return rate_found(trial, "packet_rate_both_ways")
