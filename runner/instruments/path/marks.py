"""DSCP and ECN: what of a packet's marks leaves with the tunnel's packet, and whether a router's mark comes in.

host1 ──── gw1 ════ near │ relay │ far ════ gw2 ──── host2
speaks             tap    sets CE                    tap
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from runner.data.errors import Unsupported
from runner.data.levels import Levels
from runner.data.metric import verdict
from runner.instruments.instrument import Asked
from runner.instruments.path.verdict import TRIES, NoControl, PathProbe, PathVerdict
from runner.instruments.tools.between import Talker, talking, wan_relay
from runner.lab.node import PATIENCE
from runner.lab.node.iproute import interface
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

PACKETS = 20
PORT = 9  # discard (RFC 863): whoever looks taps the wire
BYTES = 600
LEAST = 500  # bytes of a packet that bears a message; the daemons' own are shorter, or few
ETHERNET = 14
EF, ECT0, CE = 0xB8, 0x02, 0x03  # RFC 3246, RFC 3168 §5
ECN = 3  # the two bits


@dataclass
class Ends:
    """A speaker with an address to speak to, and where its packets are seen: on the WAN, and behind it."""

    speaker: Talker
    address: str
    wan: Talker
    behind: Talker

    def send(self, tos: int) -> tuple[Counter[int], Counter[int]]:
        """Send packets with this TOS byte. The TOS bytes of the packets on the WAN, and of those that arrive."""
        seen_on(self.wan), seen_on(self.behind)
        for _ in range(PACKETS):
            self.speaker.say(udp=secrets.token_bytes(BYTES).hex(), to=[self.address, PORT], tos=tos)
        outside, inside = Counter[int](), Counter[int]()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and min(outside.total(), inside.total()) < PACKETS:
            time.sleep(0.02)
            outside += seen_on(self.wan)
            inside += seen_on(self.behind)
        return outside, inside


def seen_on(tap: Talker) -> Counter[int]:
    """The TOS bytes of the long IP packets that have come in at a tap since the last look; of IPv6 its traffic class,
    which is four bits of each of two bytes (RFC 8200 §3)."""
    frames = [bytes.fromhex(data) for _, way, data in tap.say()["frames"] if way == "in"]
    long = [frame for frame in frames if len(frame) - ETHERNET >= LEAST]
    of_ipv4 = (frame[ETHERNET + 1] for frame in long if frame[12:14] == b"\x08\x00")
    of_ipv6 = (
        int.from_bytes(frame[ETHERNET : ETHERNET + 2], "big") >> 4 for frame in long if frame[12:14] == b"\x86\xdd"
    )
    return Counter([*of_ipv4, *(word & 0xFF for word in of_ipv6)])


def control(ends: Ends, relay: Talker) -> dict[str, int]:
    """The same from gateway to gateway, without a tunnel: marks leave as they are, and CE arrives."""
    relay.say(do="pass")
    outside, _ = ends.send(EF | ECT0)
    relay.say(do="mark", least=LEAST)
    _, inside = ends.send(ECT0)
    relay.say(do="pass")
    if outside[EF | ECT0] != PACKETS or inside[CE] != PACKETS:
        raise NoControl(
            f"of {PACKETS} packets without a tunnel {outside[EF | ECT0]} left with their marks, and {inside[CE]} "
            "arrived with the mark that the relay set"
        )
    return {"left_marked": outside[EF | ECT0], "arrived_marked": inside[CE]}


def mark_verdicts(ends: Ends, relay: Talker, came_out: Mapping[str, int]) -> dict[str, PathVerdict]:
    """The verdicts on DSCP and on ECN. Raises MeasurementError where the tunnel does not carry the packets."""
    relay.say(do="pass")
    outside, inside = ends.send(EF)
    copied = outside[EF] >= PACKETS and outside[0] < PACKETS
    kind = "copied" if copied else "zero" if outside[0] >= PACKETS else "own"
    kept = sum(number for tos, number in inside.items() if tos == EF)
    if inside.total() < PACKETS:
        raise NoControl(f"the tunnel delivered {inside.total()} of {PACKETS} packets before anything was marked")
    dscp = PathVerdict(kind, float(copied), came_out, {"outside": tos_counts(outside), "arrived_unchanged": kept})
    outside, _ = ends.send(ECT0)
    relay.say(do="mark", least=LEAST)
    _, inside = ends.send(ECT0)
    relay.say(do="pass")
    leaves = sum(number for tos, number in outside.items() if tos & ECN) >= PACKETS
    heard = sum(number for tos, number in inside.items() if tos & ECN == CE)
    numbers = {"outside": tos_counts(outside), "arrived": inside.total(), "arrived_with_ce": heard}
    return {"dscp_copied": dscp, "congestion_heard": _ecn(leaves, heard, inside.total(), came_out, numbers)}


def _ecn(
    leaves: bool, heard: int, arrived: int, came_out: Mapping[str, int], numbers: Mapping[str, object]
) -> PathVerdict:
    """A router drops what it cannot mark, and what is lost is heard, too. What it marks must arrive marked, or not."""
    if not leaves:
        return PathVerdict("not_copied", 1.0, came_out, numbers)
    unheard = arrived - heard
    return PathVerdict("lost" if unheard else "heard" if heard else "dropped", float(not unheard), came_out, numbers)


def tos_counts(marks: Counter[int]) -> dict[str, int]:
    """TOS byte, as text -> packets."""
    return {f"{tos:#04x}": number for tos, number in sorted(marks.items())}


class Marks(PathProbe):
    """DSCP and ECN of the tunnel's packets."""

    name = "marks"
    metrics = (
        verdict(
            name="dscp_copied",
            title="DSCP on the WAN",
            definition="The value is 1 if the tunnel's packets bear the DSCP of the packets inside, else 0: then the "
            "WAN cannot tell voice from bulk.",
            source="RFC 2983 §3 (uniform and pipe model), RFC 4301 §5.1.2",
        ),
        verdict(
            name="congestion_heard",
            title="Congestion is heard",
            definition="The value is 0 if the tunnel's packets say that they can be marked, and the mark of a router "
            "(CE) does not arrive inside: the router then drops nothing and nobody slows down. Else it is 1.",
            source="RFC 6040 §4 (copying at ingress, Figure 4 at egress), RFC 3168 §9.1",
        ),
    )
    factors = {"marks": Levels(("copied",), before=True, told="marks {}".format)}
    takes_s = 8.0
    most_tries = TRIES

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {factor: params[factor] for factor in self.factors if factor in params}

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if "marks" in params and not vpn.copies_marks:
            return Unsupported(f"the plugin of {vpn.title} knows no option that copies DSCP and ECN to the outside")
        return super().refuses(lab, vpn, params)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        lab = bench.lab
        near, far = lab.gateway(lab.sites[0]), lab.gateway(lab.sites[-1])
        with wan_relay(lab) as relay, ExitStack() as stack:
            tapped = {
                node.name: stack.enter_context(talking(node, "tap", interface(node, port), ready="tapping"))
                for node, port in (
                    (lab.wan, lab.sites[0].name),
                    (far, lab.sites[-1].wan_interface),
                    (lab.host2, "eth0"),
                )
            }
            gateway, host = (
                stack.enter_context(talking(node, "speak", ready="speaking")) for node in (near, lab.host1)
            )
            wan = tapped["wan"]
            came_out = control(Ends(gateway, lab.sites[-1].wan_address, wan, tapped[far.name]), relay)
            return mark_verdicts(Ends(host, bench.address, wan, tapped[lab.host2.name]), relay, came_out)
