"""The failures as measurements of a trial: recovery on the site-to-site lab, reroute among OSPF routers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.levels import Levels, tunnel_levels
from runner.data.metric import time_ms
from runner.data.remarks import breakdown_remarks
from runner.design.profile import Profile
from runner.instruments.failures import reroute
from runner.instruments.failures.breaks import CUT_S, DOWN_S, break_by
from runner.instruments.failures.outage import Outage, outage, report_outages, watch_of
from runner.instruments.failures.overload import OVERLOAD_S, WHAT, Overload
from runner.instruments.failures.prepare import Breaking, routed_topology
from runner.instruments.instrument import Asked
from runner.instruments.result import Measured
from runner.tunnel.bring_up import Bench
from runner.tunnel.inner import KEPT_S, keep_routes
from runner.vpn.plugin import Vpn

BESIDE_S = 30.0  # that it is watched whether a tunnel lives on without its coordinator
# What each failure is, for whom reads the number alone.
KINDS = {
    "restart": "the answering gateway's daemons are told to end, and started again at once",
    "reboot": f"the answering gateway dies without a word, and comes back {DOWN_S:g} s later, cold",
    "wan_cut": f"the WAN loses everything for {CUT_S:g} s, unnoticed by the gateways; the cut is in the outage",
    "roaming": "the dialing gateway's WAN address changes, while the configuration allows for it where it can",
    "overload": WHAT,
    "beside": f"what the VPN needs beside its gateways is killed, and stays away for {BESIDE_S:g} s at least",
}
# A neighbour's entry for an address that is gone lives on for some seconds: arp(7), delay_first_probe_time and probes.
LOOK_S = {"roaming": 12.0, "beside": BESIDE_S}


def recovery(bench: Bench, vpn: Vpn, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """``outage_ms`` of one kind of failure. Raises as ``outage`` does."""
    failure = params["failure"]
    watch = watch_of(profile, look_s=LOOK_S.get(failure, 2.0))
    if "outage_limit_s" in params:
        watch = replace(watch, limit_s=float(params["outage_limit_s"]))
    offered_bps: list[int] = []

    def once(rng: random.Random) -> Outage:
        if failure == "overload":
            overload = Overload(bench.lab, bench.address)
            result = outage(bench.lab, bench.address, overload.note_end, watch, rng, ready=overload.load)
            offered_bps.append(round(overload.offered_bps))
            return result
        return outage(bench.lab, bench.address, break_by(bench.lab, vpn, tunnel_levels(params), failure), watch, rng)

    def kept_once(rng: random.Random) -> Outage:
        with keep_routes(bench.lab, vpn, params):
            return once(rng)

    outages = repeat_failure(bench, kept_once, profile.failures, seed)
    overloads = {"offered_bps": offered_bps} if offered_bps else {}
    routes = {"ipv6_route_within_s": KEPT_S} if "inner" in params else {}
    what: dict[str, Any] = {"failure": KINDS[failure], "timers": bench.tunnel.timers, **overloads, **routes}
    measured = report_outages("outage_ms", outages, watch.limit_s, watched_s=watch.limit_s, **what)
    dead = [rate for result, rate in zip(outages, offered_bps, strict=False) if result.recovered_s is None]
    measured.remarks += breakdown_remarks("UDP", dead)
    return measured


def measure_reroute(bench: Bench, params: Mapping[str, str], profile: Profile, seed: int) -> Measured:
    """``convergence_ms`` when the link gw1–r2 dies in one way, with the paths before and after.

    Raises MeasurementError where the tunnel did not take the first path before.
    """
    topology = routed_topology(params)
    _, timers, period_s = reroute.DETECTIONS[params["detection"]]
    watch = watch_of(profile, phase_s=period_s)
    before: list[str] = []
    after: list[str] = []

    def once(rng: random.Random) -> Outage:
        there, back = reroute.paths(topology, bench.lab)
        if there != reroute.FIRST or back != reroute.FIRST[::-1]:
            raise MeasurementError(f"the tunnel does not take the first path, but {there} and {back}")
        before.append(path_text(there, back))
        result = outage(bench.lab, bench.address, reroute.kill_link(bench.lab, params["link_failure"]), watch, rng)
        after.append(path_text(*reroute.paths(topology, bench.lab)))
        return result

    outages = repeat_failure(bench, once, profile.failures, seed)
    paths = {"path_before": before, "path_after": after}
    measured = report_outages(
        "convergence_ms", outages, watch.limit_s, detection=timers, timers=bench.tunnel.timers, **paths
    )
    return measured


def repeat_failure(bench: Bench, once: Callable[[random.Random], Outage], times: int, seed: int) -> list[Outage]:
    """Run ``once`` ``times`` times, each time in a fresh lab with a new tunnel, and at a random phase of its own."""
    outages = []
    for turn in range(times):
        if turn:
            bench.renew()
        outages.append(once(random.Random(f"{seed}/{turn}")))
    return outages


def path_text(there: list[str], back: list[str]) -> str:
    """A path in words: both directions, or one where they are the same."""
    same = there == back[::-1]
    return " – ".join(there) + ("" if same else " and back " + " – ".join(back))


class Recovery(Breaking):
    """A failure of a gateway or of the path, or too much traffic, and how long the tunnel carries nothing."""

    name = "recovery"
    factors = {
        "failure": Levels(tuple(KINDS), default="restart", before=True),
        "outage_limit_s": Levels(("60", "150"), (1, 600), told="watched for {} s".format),  # absent: the profile's
    }
    metrics = (
        time_ms(
            name="outage_ms",
            title="Outage",
            definition="How long one kind of failure stops the traffic. Datagrams run in both directions at a fixed "
            "rate. The value is the number that are lost, or more than 400 ms late, divided by the rate, in the worse "
            "direction. If the traffic does not recover in time, the value is a lower bound.",
            source="RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
            plot="timelines",
        ),
    )
    one_failure_s = 12.0
    inner_ipv6 = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        more_s = {"overload": OVERLOAD_S, "beside": BESIDE_S}.get(params["failure"], 0.0)
        return (self.one_failure_s + more_s) * profile.failures

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return recovery(bench, asked.vpn, asked.params, asked.profile, asked.seed)


class Reroute(Breaking):
    """The death of a link between routers, and how long the tunnel carries nothing."""

    name = "reroute"
    factors = {
        "detection": Levels(tuple(reroute.DETECTIONS), default="hello", before=True),
        "endpoint": Levels(("loopback", "link"), default="loopback", before=True),
        "uplinks": Levels(("two_routers", "one_router"), default="two_routers", before=True),
        "link_failure": Levels(("carrier", "silent"), default="silent", before=True),
    }
    metrics = (
        time_ms(
            name="convergence_ms",
            title="Convergence time",
            definition="A link dies, and routing moves the tunnel's packets to another path. Datagrams run in both "
            "directions at a fixed rate. The value is the number that are lost, or more than 400 ms late, divided by "
            "the rate, in the worse direction. If the traffic does not recover in time, the value is a lower bound.",
            source="RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
            plot="timelines",
        ),
    )

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return measure_reroute(bench, asked.params, asked.profile, asked.seed)
