"""Packets that the path brings twice, and packets that it loses in bursts: does the tunnel deliver all the others?"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from runner.data.errors import Unsupported
from runner.data.metric import share
from runner.instruments.instrument import Asked
from runner.instruments.path.numbers import LOST, NumbersHeard, paths
from runner.instruments.path.verdict import TRIES, NoControl, PathProbe, PathVerdict
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

REPEATED = 200
PACKETS = 2000
TO_BAD, TO_GOOD = 0.01, 0.15  # of each packet: the loss is 6 % on average, in bursts of 7


def bursts(seed: int, count: int = PACKETS) -> list[int]:
    """The numbers that are lost: all of the bad state (Gilbert 1960, with h = 0). The same for the same seed."""
    rng, bad, lost = random.Random(seed), False, []
    for number in range(count):
        bad = rng.random() >= TO_GOOD if bad else rng.random() < TO_BAD
        if bad and 0 < number < count - 1:  # the first and the last show that all have arrived
            lost.append(number)
    return lost


def of_repeats(heard: NumbersHeard, bare: NumbersHeard) -> PathVerdict:
    """The verdict on repeated packets. Raises NoControl where they do not arrive twice without a tunnel."""
    if bare.twice != bare.sent or bare.missing:
        raise NoControl(f"without a tunnel {bare.twice} of {bare.sent} repeated packets arrived twice")
    kind = "lost" if heard.missing else "twice" if heard.twice else "once"
    numbers = {"sent": heard.sent, "delivered": heard.got, "delivered_twice": heard.twice, "repeated": heard.planned}
    return PathVerdict(kind, heard.got / heard.sent, {"sent": bare.sent, "delivered_twice": bare.twice}, numbers)


def of_bursts(heard: NumbersHeard, bare: NumbersHeard, lost: Collection[int]) -> PathVerdict:
    """The verdict on loss in bursts. Raises NoControl where the relay has lost other packets than those ``lost``, which
    a machine that hands packets on in another order makes it do, or a tunnel that sends long packets of its own."""
    for what, found in (("without a tunnel", bare), ("through the tunnel", heard)):
        if arrived := {*lost} - {*found.missing}:
            raise NoControl(
                f"{what} {len(arrived)} of the {len(lost)} packets arrived that the WAN was to lose: "
                "the relay lost others in their place, as on a busy machine"
            )
    if more := {*bare.missing} - {*lost}:
        raise NoControl(f"without a tunnel {len(more)} packets were lost that the WAN passes on")
    passed = heard.sent - len(lost)
    numbers = {"sent": heard.sent, "lost_on_the_wan": len(lost), "passed": passed, "delivered": heard.got}
    control = {"passed": passed, "delivered": bare.got}
    return PathVerdict("exact" if heard.got == passed else "more_lost", heard.got / passed, control, numbers)


class Repeats(PathProbe):
    """Duplicates and burst loss, by a relay that does both exactly."""

    name = "repeats"
    metrics = (
        share(
            name="duplicates_borne",
            title="Bears duplicates",
            better="higher",
            definition=f"The WAN brings each of {REPEATED} packets twice. The value is the share of them that arrives.",
            source="RFC 5560 (duplication), RFC 4303 §3.4.3",
        ),
        share(
            name="burst_loss_borne",
            title="Bears loss in bursts",
            better="higher",
            definition=f"The WAN loses some of {PACKETS} packets in bursts. The value is the share of the others that "
            "arrives.",
            source="RFC 3611 §4.7.2, RFC 6534 §3 (Gilbert–Elliott model, bursts)",
        ),
    )
    takes_s = 15.0
    most_tries = TRIES

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.transport == "tcp":
            return Unsupported("its tunnel is a TCP connection, which sends again what is lost and drops duplicates")
        return super().refuses(lab, vpn, params)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        plan = dict.fromkeys(bursts(asked.seed), LOST)
        with paths(bench) as (tunnel, bare):
            losing = of_bursts(tunnel.follow(plan, PACKETS), bare.follow(plan, PACKETS), plan)
            repeating = of_repeats(tunnel.repeat(REPEATED), bare.repeat(REPEATED))
        return {"burst_loss_borne": losing, "duplicates_borne": repeating}
