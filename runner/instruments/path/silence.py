"""A NAT that forgets what is silent: is the tunnel still reachable from outside after nobody has sent anything?

Where tunnels take turns, their silences pass at the same time: a turn ends one silence and begins the next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.data.errors import MeasurementError, Unsupported
from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Measuring, at_once
from runner.instruments.path.nat import nat_refusal
from runner.instruments.path.translation import Nat, back_s, behind_nat, came_up, reached_from_outside
from runner.instruments.path.verdict import TROUBLE, Judging, NoControl, PathVerdict
from runner.instruments.result import Measured
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

SILENCES_S = (30, 60, 180)
GRACE_S = 2  # a keepalive every 30 s is meant to keep a mapping of 30 s
LONGER_S = 6  # than the silence named: what has no keepalive is forgotten by then
TURN_S = 5.0


@dataclass(frozen=True)
class Begun:
    """A silence: when it began, the control's mapping, and the packets that had passed by then."""

    since: float
    mapping: tuple[str, int]
    passed: Mapping[str, int]


def begin(bench: Bench, nat: Nat, silence_s: int) -> Begun:
    """The NAT forgets after ``silence_s``, and knows a mapping of the tunnel and one of the control. Raises
    NoControl."""
    nat.forgets_after(silence_s + GRACE_S)
    bench.carries_payload()  # by this packet, the tunnel's mapping has the new time
    mapping = nat.outside_address()
    return Begun(time.monotonic(), mapping, nat.packet_counts())


def end(bench: Bench, nat: Nat, begun: Begun) -> dict[str, Any]:
    """What is left after the silence: was the tunnel reached, and which packets of its own had passed. Raises
    NoControl where the NAT still knows the control's mapping."""
    silent_s, passed = time.monotonic() - begun.since, nat.packet_counts()
    reached = reached_from_outside(bench)
    if nat.reaches(begun.mapping):
        raise NoControl(f"the NAT has not forgotten a mapping that was silent for {silent_s:.0f} s")
    own = {name: passed[name] - begun.passed[name] for name in passed}
    return {"silent_s": round(silent_s), "reached": reached, **own, "back_from_inside_s": back_s([bench])[0]}


def verdict(seen: Mapping[str, Mapping[str, Any]], controls: Mapping[str, str]) -> PathVerdict:
    """The longest silence after which the tunnel was reached from outside, as it was after each shorter one."""
    longest = 0
    for silence_s in SILENCES_S:
        if not seen.get(str(silence_s), {}).get("reached"):
            break
        longest = silence_s
    kind = "all" if longest == SILENCES_S[-1] else "some" if longest else "none"
    return PathVerdict(kind, float(longest), controls, {"longest_s": longest, "after_silence_of_s": dict(seen)})


class Silence(Judging):
    """A NAT that forgets after 30, 60 and 180 s."""

    name = "silence"
    metrics = (
        Metric(
            name="nat_silence",
            title="Silence after which it is reachable",
            unit="s",
            better="higher",
            definition="The first gateway is behind a NAT that forgets a mapping after 30, 60 and 180 s. Nothing is "
            "sent through the tunnel for longer than that, then an echo from outside. The value is the longest of "
            "these times after which it is answered; 0 for none.",
            source="RFC 4787 REQ-5 (a NAT's timer for UDP: at least 2 minutes), RFC 3948 §4 (keepalives)",
            exact=True,
        ),
    )
    takes_s = float(sum(SILENCES_S)) + 20.0
    spends_tunnel = True

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > len(SILENCES_S)

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.reference:
            return Unsupported("without a tunnel there is nothing that a NAT could forget")
        return super().refuses(lab, vpn, params) or nat_refusal(lab, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return TURN_S if self.takes_turns(params, profile) else self.takes_s

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return at_once(self.measure(bench, asked))

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        seen, controls = dict[str, dict[str, Any]](), dict[str, str]()
        try:
            with behind_nat(bench, asked) as nat:
                if not came_up(bench, asked):
                    came = ":".join(map(str, nat.outside_address()))
                    return self.to_measured({"nat_silence": PathVerdict("dead", 0.0, {"came_through": came})})
                for silence_s in SILENCES_S:
                    begun = begin(bench, nat, silence_s)
                    if (yield {"silence_s": float(silence_s)}) is Go.END:
                        raise MeasurementError(f"the run ended before {silence_s} s of silence were over")
                    time.sleep(max(0.0, begun.since + silence_s + LONGER_S - time.monotonic()))
                    seen[str(silence_s)] = end(bench, nat, begun)
                    controls[str(silence_s)] = f"{begun.mapping[0]}:{begun.mapping[1]} forgotten"
                    if seen[str(silence_s)]["back_from_inside_s"] is None:
                        break
        except TROUBLE as trouble:
            return self.inconclusive(trouble)
        return self.to_measured({"nat_silence": verdict(seen, controls)})
