"""Overhead: what a packet is longer on the WAN, from counters, and against a capture and the protocol's closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.levels import tunnel_levels
from runner.data.metric import Metric
from runner.data.packet import AGREE_BYTES, Layers, over_ipv6, overhead_of
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.counters import counters, fragments_by_node
from runner.instruments.tools.factors import FRAGMENTATION, PACKET_BYTES
from runner.instruments.tools.fragments import may_fragment
from runner.instruments.tools.generator import Generator, Load, generator
from runner.instruments.traffic.packets import Counted, stream
from runner.lab.node.iproute import interface
from runner.lab.node.probing import answer, probe
from runner.lab.readings.wire import ETHERNET_BYTES, Outer, leaving, outer
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

PACKETS = 200
TRIES = 3
PER_S = 400.0  # slow enough that no tunnel puts two packets into one
SHORT_BYTES = 256
COMMON = 0.02  # lengths that make up less than this of the captured packets are not the stream's


def overhead(lab: Lab, packet_bytes: int, fragment: bool, layers: Layers | None, by: Generator) -> Measured:
    """Overhead, bytes of IP per inner packet of ``packet_bytes``, host1 to host2 by ``by``, the tunnel otherwise idle.

    What the WAN's counters say that it carried from the first gateway to the last while PACKETS packets were sent,
    less what does not belong to them, less the packets themselves; Ethernet headers are on neither side. A capture
    of the same packets tells what does not belong to them: other protocols, and packets of rare, short lengths, such as
    keepalives; where the stream's packets are all accounted for, of any rare length, such as a handshake's. (What the
    idle tunnel sends in the same time is no measure of that: OpenVPN's pings stop while there is traffic.) Counters,
    capture and the closed form, ``layers`` where the plugin knows them, must agree, or there is a warning. A packet
    that is lost by chance, as on a busy machine, spoils the account, so that the stream is sent again. Raises
    MeasurementError where packets were lost in each of TRIES streams.
    """
    outer(lab), outer(lab, "reverse")  # a port without a queue gets one now, and not within the measurement
    lossy = 0
    for _ in range(TRIES):
        counted, report, back, again, made = capture_stream(lab, packet_bytes, fragment, by)
        if counted.received >= counted.sent:
            break
        lossy += 1
    else:
        raise MeasurementError(
            f"{counted.lost_packets} of {counted.sent} packets were lost at {PER_S:.0f} packet/s, the last of {TRIES} "
            "times"
        )
    seen, (outer_packets, outer_bytes) = report["out"], report["counted"]
    outer_ip_bytes = outer_bytes - ETHERNET_BYTES * outer_packets
    lengths = {int(length): count for length, count in seen["lengths"].items()}
    mine, rare = of_the_stream(lengths, counted.sent)
    if not mine:
        raise MeasurementError("no IP packet of the tunnel was on the WAN, so the tunnel uses something else")
    value = (outer_ip_bytes - rare - seen["other_bytes"]) / counted.sent - packet_bytes
    captured = mine / counted.sent - packet_bytes
    closed_form_bytes = None if layers is None else overhead_of(layers)
    detail = {
        "packet_bytes": packet_bytes,
        "layer": "IP: outer minus inner IP packet length, Ethernet headers excluded",
        "closed_form_bytes": closed_form_bytes,
        "layers": layers,
        "captured_bytes": round(captured, 3),
        "captured_lengths": lengths,
        "captured_fragments": seen["fragments"],
        "background_ip_bytes": rare + seen["other_bytes"],
        "outer_packets_per_packet": round(sum(lengths.values()) / counted.sent, 4),
        "fragments_per_packet": {name: round(count / counted.sent, 4) for name, count in made.items()},
        "retransmissions": again,
        "reverse_ip_bytes_per_packet": round(back.ip_bytes / counted.sent, 2),
    }
    measured = Measured([measurement("overhead_bytes", round(value, 3), **detail)])
    lost = f"overhead: {lossy} of {lossy + 1} streams lost packets, and the last one counts"
    measured.warnings += [lost] * bool(lossy)
    repeated = again * max(lengths, default=0) / counted.sent
    measured.warnings += disagreements(value, captured, closed_form_bytes, repeated)
    if counted.fragments and not fragment:
        measured.warnings.append(f"{counted.fragments} fragments were made, although fragmentation is not allowed")
    return measured


def capture_stream(
    lab: Lab, packet_bytes: int, fragment: bool, by: Generator
) -> tuple[Counted, dict[str, Any], Outer, int, dict[str, int]]:
    """Send the stream, with a capture on the WAN: its counts, what the capture saw, and meanwhile what went back over
    the WAN, TCP's retransmissions, and the fragments that the near host and its gateway made."""
    node, port = leaving(lab, "forward")
    with probe(node, "lengths", interface(node, port), ready="watching") as watching:
        back, again, made = outer(lab, "reverse"), retransmissions(lab), fragments_by_node(lab)
        load = Load((packet_bytes,), PER_S, PACKETS / PER_S, burst=1, fragment=fragment)
        counted = stream(lab, load, [by])
        back, again = outer(lab, "reverse") - back, retransmissions(lab) - again
        made = {name: count - made[name] for name, count in fragments_by_node(lab).items()}
        return counted, answer(watching, "lengths"), back, again, made


def of_the_stream(lengths: Mapping[int, int], sent: int) -> tuple[int, int]:
    """Bytes of IP that the stream's ``sent`` packets had, and the others', from captured lengths (bytes -> packets).

    The others are rare, short, and shorter than the stream's: keepalives, acknowledgements. Other rare ones are the
    stream's: two inner packets in one TCP segment, and what was left of them. Unless there is a packet of the common
    length for each that was sent: then every rare one is another's, such as WireGuard's handshake of 176 bytes, and
    so are the few of the common length beyond those that were sent.
    """
    enough, typical = COMMON * sum(lengths.values()), max(lengths, key=lambda length: lengths[length], default=0)
    shorter_than = min(typical, SHORT_BYTES) if lengths.get(typical, 0) < sent else math.inf
    rare = {length: count for length, count in lengths.items() if count < enough and length < shorter_than}
    beyond = lengths.get(typical, 0) - sent
    if 0 < beyond < enough:
        rare[typical] = beyond
    others = sum(length * count for length, count in rare.items())
    return sum(length * count for length, count in lengths.items()) - others, others


def retransmissions(lab: Lab) -> int:
    """TCP segments that the gateways have sent again so far, which a tunnel in TCP does on a busy machine."""
    return sum(counters(lab.gateway(site))["TcpRetransSegs"] for site in lab.sites)


def disagreements(
    value: float, captured: float, closed_form_bytes: int | None, repeated_bytes: float = 0.0
) -> list[str]:
    """Warnings where counters, capture and closed form do not give the same overhead, in bytes per packet.

    ``repeated_bytes``: what retransmissions may have added to the closed form.
    """
    warnings = []
    if abs(value - captured) > AGREE_BYTES:
        warnings.append(f"overhead: counters say {value:.1f} byte/packet, the capture {captured:.1f}")
    if closed_form_bytes is None:
        return warnings
    if not -AGREE_BYTES <= value - closed_form_bytes <= AGREE_BYTES + repeated_bytes:
        warnings.append(
            f"overhead: {value:.1f} byte/packet measured, the protocol's closed form is {closed_form_bytes}"
        )
    return warnings


class Overhead(Whole):
    """The bytes that a slow stream of packets of one length has on the WAN."""

    name = "overhead"
    factors = {"packet_bytes": PACKET_BYTES, "fragmentation": FRAGMENTATION}
    metrics = (
        Metric(
            name="overhead_bytes",
            title="Overhead",
            unit="byte/packet",
            better="lower",
            definition="How many bytes the tunnel adds to an inner packet of one length: the bytes of the outer IP "
            "packets, less the inner packet, and less what the tunnel sends while idle. Only the direction from the "
            "near site to the far site counts. Ethernet headers do not count.",
            source="RFC 4303 §2, whitepaper of WireGuard §5.4.6, RFC 4253 §6 (see runner/vpn/closed_form.py)",
        ),
    )
    inner_ipv6 = True
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.5

    def once(self, bench: Bench, asked: Asked) -> Measured:
        packet_bytes = int(asked.params["packet_bytes"])
        layers = asked.vpn.encapsulation(tunnel_levels(asked.params), packet_bytes)
        if layers and bench.lab.sites[0].path_version == 6:
            layers = over_ipv6(layers)
        fragment = may_fragment(bench, asked.params, packet_bytes)
        by = generator(bench, fragments=fragment)  # one of another trial in this tunnel holds its port
        return overhead(bench.lab, packet_bytes, fragment, layers, by)
