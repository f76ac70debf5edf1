"""The idle tunnel: round-trip time, and the set-up time that was taken when it came up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from runner.data.errors import MeasurementError, ProofError
from runner.data.metric import time_ms, time_s
from runner.data.trials import Position
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring, whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.visits import visits
from runner.lab import probes
from runner.lab.node.probing import error_class
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT

VISIT_EXCHANGES, VISIT_S, FEWEST = 20, 3.0, 3  # in a visit: so many, fewer where they take longer, but these
EXCHANGE_RTTS = 20  # at least, of exchanges that go on for a time
SETUP_EVERY, SELDOM = 3, 12  # in visits
SETUPS = 10  # tell most pairs apart, and a set-up takes ten times as long as a visit


def idle(lab: Lab, address: str, duration_s: float, setup_s: float) -> Measured:
    """Round-trip time on the idle tunnel, and the set-up time that was taken when the tunnel came up."""
    times = exchanges(lab, address, duration_s)
    return Measured(
        [measurement("rtt", float(np.median(times)), times, **percentiles(times)), measurement("setup_time", setup_s)],
    )


def slices(bench: Bench, memory: dict[str, Any]) -> Measuring:
    """Round-trip time in short visits until told to end, and set-up times: first that of the tunnel itself, then those
    of an equal tunnel beside it, in every SETUP_EVERYth visit, and after SETUPS of them in every SELDOMth. Raises
    LabError, and MeasurementError, also where the second tunnel does not come up."""
    times, taken, go = list[float](), 0, Go.ON
    while go is Go.ON:
        most = VISIT_S / bench.lab.rtt_s if bench.lab.rtt_s else VISIT_EXCHANGES
        _, *now = visits(bench).exchanges(1 + max(FEWEST, min(VISIT_EXCHANGES, round(most))))
        readings = {"rtt": float(np.median(now))}
        if memory.get("told") is not bench.tunnel:  # once, also where the measurement is begun again
            memory["told"], readings["setup_time"] = bench.tunnel, bench.tunnel.setup_s
        elif taken % (SETUP_EVERY if memory.get("setups", 0) < SETUPS else SELDOM) == 0 and bench.another:
            try:
                with bench.another() as beside:
                    readings["setup_time"] = beside.tunnel.setup_s
            except ProofError as error:  # the tunnel that stands has been proven
                raise MeasurementError(f"the same tunnel, brought up beside this one: {error}") from error
        memory["setups"] = memory.get("setups", 0) + ("setup_time" in readings)
        times, taken = times + now, taken + 1
        go = yield readings
    return Measured([measurement("rtt", 0.0, **percentiles(times))])


def exchanges(lab: Lab, address: str, duration_s: float, at_least: int = 1) -> list[float]:
    """Times in ms of one byte and its answer, one after another for ``duration_s`` seconds or EXCHANGE_RTTS.

    Until ``at_least`` were done it goes on, to three times the duration. Raises MeasurementError where an
    exchange breaks off, or none was finished.
    """
    duration_s = max(duration_s, EXCHANGE_RTTS * lab.rtt_s)
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "rtt", address, str(ANSWER_PORT), str(duration_s))
    asked = lab.host1.run(*ask, str(at_least), timeout=3 * duration_s + 15, check=False)
    if asked.code != 0:
        raise error_class(asked.code)(
            f"the exchange of bytes stopped too early: {asked.stderr.strip().splitlines()[-1:]}"
        )
    times: list[float] = json.loads(asked.stdout)
    if not times:
        raise MeasurementError("no exchange of bytes ended in time")
    return times


def percentiles(times: list[float]) -> dict[str, Any]:
    """The distribution of ``times`` (ms) as percentiles (RFC 2681 §4.1), linear between order statistics.

    That is Hyndman and Fan's seventh definition, numpy's default. A percentile needs two samples above it.
    """
    summary: dict[str, Any] = {"exchanges": len(times), "min_ms": min(times), "max_ms": max(times)}
    for percent in (50, 95, 99):
        if len(times) * (100 - percent) >= 200:
            summary[f"p{percent}_ms"] = round(float(np.percentile(times, percent)), 4)
    return summary


class Idle(Instrument):
    """Exchanges of one byte through a tunnel that carries nothing else."""

    name = "idle"
    metrics = (
        time_ms(
            name="rtt",
            title="Round-trip time",
            short="RTT",
            definition="One host sends one byte, the other answers with one byte, over one open TCP connection with "
            "TCP_NODELAY. The value is the median time from request to answer. The tunnel carries nothing else. The "
            "exchange is the same for every VPN, so that VPNs which carry TCP only can be compared.",
            source="RFC 2681 (round-trip delay), with a TCP exchange as the Type-P",
            margin=1.15,
            plot="distribution",
        ),
        time_s(
            name="setup_time",
            title="Tunnel set-up time",
            short="Set-up",
            definition="The time from the first command on a gateway until the far host has answered the first "
            "payload. Both gateways start cold: no daemon is running; keys and files are in place.",
            source="after draft-ietf-bmwg-ipsec-term (tunnel set-up rate), seen by the hosts",
            margin=1.2,
            absolute=True,  # plain IP has no tunnel to set up: its value is the probe's own time, and mostly noise
        ),
    )
    inner_ipv6 = True

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 0.1 if profile.rounds else profile.rtt_s + 0.1

    def again(self, params: Mapping[str, str]) -> tuple[Position, ...]:
        return ("last",)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        if asked.profile.rounds:
            return (yield from slices(bench, asked.memory))
        return (yield from whole(idle(bench.lab, bench.address, asked.profile.rtt_s, bench.tunnel.setup_s)))
