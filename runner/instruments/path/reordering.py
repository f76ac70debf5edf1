"""How far a packet may be overtaken before the tunnel throws it away: the replay window, as it works."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.metric import Metric
from runner.instruments.instrument import Asked
from runner.instruments.path.numbers import NumbersHeard, Path, paths
from runner.instruments.path.verdict import ALIKE, NoControl, PathProbe, PathVerdict
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

DEPTHS = tuple(2**power for power in range(1, 15))  # packets that overtake; 16,384 are more than any window here
AT_ONCE = 15  # depths that are tried in one pass
APART = 3  # numbers from one held packet to the next
TRIES = 3  # of a pass in which something else was lost


def overtaking_plan(depths: tuple[int, ...]) -> dict[int, int]:
    """Number of a packet -> how many overtake it. No packet waits for one that is held itself."""
    longest = depths[-1]
    # Powers of two are no multiples of APART, and long depths end behind all that are held.
    apart = APART if depths == DEPTHS or depths[0] > APART * len(depths) else longest + 2
    return {(at + 1) * apart: depth for at, depth in enumerate(depths)}


def accepted_depths(path: Path, depths: tuple[int, ...]) -> set[int]:
    """The depths that were delivered. Raises MeasurementError where other packets were lost or late each time."""
    plan = overtaking_plan(depths)
    for _ in range(TRIES):
        heard = path.follow(plan, max(number + depth for number, depth in plan.items()) + 2)
        if clean(heard, plan):
            return {plan[number] for number in heard.late}
    raise MeasurementError(
        f"in {TRIES} passes packets that nobody held were lost or overtaken, in the last one {len(heard.missing)} of "
        f"{heard.sent} were missing"
    )


def clean(heard: NumbersHeard, plan: Mapping[int, int]) -> bool:
    """Was each held packet either delivered exactly as late as planned, or not at all, and every other one in order?"""
    late = all(plan.get(number) == below for number, below in heard.late.items())
    return late and heard.planned == len(plan) and {*heard.late, *heard.missing} == plan.keys()


def depths_between(low: int, high: int) -> tuple[int, ...]:
    """At most AT_ONCE depths between an accepted and a refused one, evenly."""
    number = min(AT_ONCE, high - low - 1)
    return tuple(sorted({low + (high - low) * step // (number + 1) for step in range(1, number + 1)} - {low, high}))


def deepest(path: Path) -> tuple[int, int]:
    """The deepest depth that is accepted, and the least that is refused; 0 for none of either. Raises MeasurementError
    where a deeper one is accepted and a lesser refused."""
    tried, low, high = DEPTHS, 0, 0
    while tried:
        taken = accepted_depths(path, tried)
        refused = {*tried} - taken
        low, high = max({low} | taken), min({high or max(DEPTHS) + 1} | refused)
        if low >= high:
            raise MeasurementError(f"a packet that {low} had overtaken was delivered, and one of {high} was not")
        if high > max(DEPTHS):
            return low, 0
        tried = depths_between(low, high)
    return low, high


class Reordering(PathProbe):
    """The replay window, by single packets that are held back."""

    name = "reordering"
    metrics = (
        Metric(
            name="reordering_depth",
            title="Reordering that it accepts",
            unit="packet",
            better="higher",
            definition="The largest number of later packets that may overtake a packet so that it is still delivered. "
            "One packet at a time is held back by an exact number of packets; 16384 is the largest number tried.",
            source="RFC 4303 §3.4.3 (the window is 32 at least, 64 by default), RFC 6479, RFC 4737 §4.2.1 (extent)",
            exact=True,
        ),
    )
    takes_s = 25.0

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.transport == "tcp":
            return Unsupported("its tunnel is a TCP connection, which puts packets in order again")
        return super().refuses(lab, vpn, params)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        with paths(bench) as (tunnel, bare):
            if missing := {*DEPTHS} - accepted_depths(bare, DEPTHS):
                raise NoControl(
                    f"without a tunnel {len(missing)} of {len(DEPTHS)} packets that were held never arrived"
                )
            low, high = deepest(tunnel)
            depths = tuple(filter(None, (low, high)))
            again = [accepted_depths(tunnel, depths) == {low} - {0} for _ in range(ALIKE - 1)]
        kind = "window" if high else "all"
        control = {"deepest": max(DEPTHS), "delivered": len(DEPTHS)}
        numbers = {"accepted": low, "refused": high}
        return {"reordering_depth": PathVerdict(kind, float(low), control, numbers, 1 + sum(again), ALIKE)}
