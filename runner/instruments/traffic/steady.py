"""One uncut stretch of datagrams at one rate: what slices of a quarter of a second do not see, as holes, stalls and a
policer with a large burst."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.levels import Levels
from runner.data.metric import share, time_s
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.fragments import headers_bytes, may_fragment
from runner.instruments.tools.generator import BURST, Load, generator
from runner.instruments.tools.recovery import broke_down
from runner.instruments.tools.steadiness import detail, steadiness
from runner.tunnel.bring_up import Bench

STRETCH_S, CONTROL_S = 30.0, 8.0  # the latter of plain IP, which says what the machine did meanwhile
TOGETHER_S = 0.001  # packets that are due in this time leave together, BURST at most: a burst is no gap
STILL_S = 0.5  # after the stretch: what a queue holds for longer has been lost to a call
STEADY = (
    "Datagrams at one rate (factor steady_bps, of payload) for 30 s without a break, over plain IP for 8 s, counted "
    "where they come in. "
)
SOURCES = "after RFC 2544 §26.3 (loss at a rate), RFC 7680 (one-way loss), RFC 3357 (loss in spans)"


class Steady(Whole):
    """Datagrams at one rate for STRETCH_S, over plain IP for CONTROL_S."""

    name = "steady"
    factors = {
        "steady_bps": Levels(
            ("100000000",),
            (100_000, 10**11),
            default="100000000",
            told=lambda level: f"at {int(level) / 1e6:g} Mbit/s without a break",
        )
    }
    metrics = (
        time_s(
            name="steady_gap",
            title="Longest gap",
            definition=STEADY + "The longest time in which none came, less what the sender did not send and the "
            "counter did not see.",
            source=SOURCES,
            margin=1.5,
        ),
        time_s(
            name="steady_late",
            title="Latest datagram",
            definition=STEADY + "How much later than the least delayed datagram the latest one came.",
            source="after RFC 3393 (delay variation), RFC 7679",
            margin=1.5,
        ),
        share(
            name="steady_worst_second_loss",
            title="Loss of the worst second",
            better="lower",
            definition=STEADY + "The share of a second's datagrams that never came, of the second that lost most.",
            source=SOURCES,
        ),
        share(
            name="steady_loss",
            title="Loss at a steady rate",
            better="lower",
            definition=STEADY + "The share that never came.",
            source=SOURCES,
        ),
    )
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return STRETCH_S + 2

    def once(self, bench: Bench, asked: Asked) -> Measured:
        payload_bytes = asked.profile.udp_payload_bytes
        rate_bps = min(float(asked.params["steady_bps"]), asked.profile.udp.max_rate_bps)
        packet_bytes = payload_bytes + headers_bytes(bench.address)
        fragment = may_fragment(bench, {"fragmentation": asked.profile.fragmentation}, packet_bytes)
        per_s = rate_bps / (8 * payload_bytes)
        load = Load(
            (packet_bytes,),
            per_s,
            CONTROL_S if asked.vpn.reference else STRETCH_S,
            burst=max(1, min(BURST, round(per_s * TOGETHER_S))),
            fragment=fragment,
        )
        arrived = generator(bench, fragments=fragment).play(load, STILL_S)
        steady = steadiness(arrived, bench.lab.rtt_s, bench.lab.path_loss_ratio)
        broken = steady.loss_by_second[-1] > 0.5 and broke_down(bench)
        if broken:
            bench.renew()
        return Measured(
            [
                measurement("steady_gap", steady.longest_gap_s, rate_bps=rate_bps, broke_down=broken, **detail(steady)),
                measurement("steady_late", steady.latest_s, late_p99_s=steady.late_p99_s),
                measurement("steady_worst_second_loss", steady.worst_second_loss_ratio),
                measurement("steady_loss", round(steady.loss_ratio, 6)),
            ],
        )
