"""What limits a tunnel that stands between two gateways: by their counters, and the rates with and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.kinds import Strict
from runner.data.limits import judge
from runner.data.loads import Limit, MachineLoad
from runner.lab.readings.seen import Counters

PAYLOAD_SHARE = 0.9  # of what is on the path: the rest is headers
REACHED = 0.9  # of the rate that was asked for: no other limit was met
AS_PATH = 0.8  # of the path's rate without a tunnel, headers included: the path limits it
FEW = 0.1  # fragments a packet: below, they are other programs'


class Pieces(Strict):
    """Fragments of IP that the gateways made and put together, those that they could not put together, and the packets
    that left them, in ``seconds``. ``longest``: does a packet as long as the tunnel's MTU travel in fragments?"""

    made: int
    arrived: int
    failed: int
    packets: int
    seconds: float
    longest: bool | None = None

    @property
    def travel(self) -> bool:
        """Do packets travel in fragments?"""
        return bool(self.longest) or self.made + self.arrived > FEW * max(1, self.packets)


def limit_of(
    tunnel: Sequence[float],
    path: Sequence[float],
    max_bps: float,
    policed: Limit | None,
    pieces: Pieces,
    loads: Sequence[MachineLoad],
) -> Limit | None:
    """What limits the tunnel, of what was found while a probe loaded it, the surest first. ``tunnel``, ``path``: rates
    of TCP both ways, bit/s; ``policed``: the policer that dropped packets meanwhile."""
    by = judge(loads)
    evidence = by.evidence if by else []
    slow = min(tunnel)
    if slow >= REACHED * PAYLOAD_SHARE * max_bps:
        sentence = f"nothing up to {max_bps / 1e6:.4g} Mbit/s, and no probe was to send faster"
        return Limit(sentence=sentence, kind="none found", evidence=evidence)
    if policed is not None:
        return policed
    if by is not None and by.kind not in ("none found", "queue", "generator", "shared cores"):
        return by
    if path and slow >= AS_PATH * path[list(tunnel).index(slow)]:
        both = f"{path[list(tunnel).index(slow)] / 1e6:.4g} Mbit/s without the tunnel, {slow / 1e6:.4g} in it"
        return Limit(sentence=f"the path: it carries {both}", kind="path", evidence=evidence)
    if pieces.travel and by is not None and by.kind in ("none found", "queue"):
        sentence = f"fragments: {pieces.made} made and {pieces.arrived} put together of {pieces.packets} packets"
        return Limit(sentence=sentence, kind="queue", evidence=evidence)
    return by


def policed_in(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> Limit | None:
    """The policer of a gateway's own that has dropped packets in between."""
    for name, now in after.items():
        for port, (packets, drops) in now["policed"].items():
            then = before[name]["policed"].get(port, [0, 0])
            if drops > then[1]:
                what = (
                    f"{drops - then[1]} of {packets - then[0]} packets dropped by the policer at {name}'s port {port}"
                )
                return Limit(sentence=f"policing: {what}", where=name, kind="path", evidence=[what])
    return None


def fragments_in(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> int:
    """How many fragments the gateways made, and how many came, in between."""
    return sum(
        after[name]["ip"][what] - before[name]["ip"][what] for name in after for what in ("FragCreates", "ReasmReqds")
    )


def pieces_in(before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float) -> Pieces:
    """The fragments of these ``seconds``."""

    def counter_increase(what: str) -> int:
        return sum(after[name]["ip"].get(what, 0) - before[name]["ip"].get(what, 0) for name in after)

    sent = sum(
        counts[1] - before[name]["packets"].get(port, [0, 0])[1]
        for name, now in after.items()
        for port, counts in now["packets"].items()
        if port != "lo"
    )
    return Pieces(
        made=counter_increase("FragCreates"),
        arrived=counter_increase("ReasmReqds"),
        failed=counter_increase("ReasmFails"),
        packets=max(0, sent),
        seconds=round(seconds, 1),
    )
