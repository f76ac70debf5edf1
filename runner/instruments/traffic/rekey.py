"""New keys under load: how much throughput a rekey costs, and how long a packet waits meanwhile.

A TCP stream fills the tunnel from the far host to the near one, so that iperf3's own intervals say what *arrived*.
The second before and the second after each rekey are looked at, with one-byte exchanges beside the stream. A rekey
that a clock makes is watched for, and lies in the middle of its second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from runner.data.errors import MeasurementError, Unsupported
from runner.data.kinds import LARGEST
from runner.data.levels import Levels
from runner.data.metric import Metric, time_ms
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.counters import arrived_bytes
from runner.instruments.tools.iperf import IPERF_PORT
from runner.instruments.traffic.loaded import FLOWING_BYTES, check_load, free_server
from runner.lab import probes
from runner.lab.node import PATIENCE, wait_until
from runner.lab.node.probing import error_class
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.plugin import Vpn

REKEYS = {"esp": 3, "ike": 3, "clock": 2, "protocol": 1}
LOOKED_S = 1.0  # before and after each
INTERVAL_S = 0.1
LOAD_LIMIT_S = 200  # the load is ended earlier; this is the safety net
CLOCK_LIMIT_S = {"clock": 30.0, "protocol": 150.0}  # within which a clock must have made a rekey
LOOK_EVERY_S = 0.02
REKEY_EVERY_S = "6"  # seconds, where an option sets it: OpenVPN wants its handshake done in half of it
LOG = "rekey-load"
ENDED = "interrupt - the client has terminated"


def rekey(bench: Bench, vpn: Vpn, what: str) -> Measured:
    """Throughput lost and longest round trip at ``REKEYS`` rekeys of ``what``: esp and ike are those that gateway 1
    asks for, clock and protocol those that its VPN makes by itself.

    The plugin sees to it that the keys are new. Raises MeasurementError, CommandError or TimeoutError where a rekey
    does not happen, or the load ends too early.
    """
    lab, me, peers, renew = bench.lab, bench.lab.sites[0], bench.lab.sites[1:], vpn.lifecycle().rekeying.renew
    argv = ("iperf3", "--client", bench.address, "--port", IPERF_PORT, "--connect-timeout", "3000", "--reverse")
    options = ("--time", str(LOAD_LIMIT_S), "--interval", str(INTERVAL_S), "--json")
    said_before = len(lab.host1.read_log(LOG))
    stream = lab.host1.spawn(*argv, *options, log=LOG)
    begun = time.monotonic()

    first = arrived_bytes(lab.host1)
    asked_s: list[float] = []
    took_s: list[float] = []
    before_ms: list[list[float]] = []
    after_ms: list[list[float]] = []
    try:
        wait_until(
            lambda: not stream.alive() or arrived_bytes(lab.host1) - first > FLOWING_BYTES,
            "the load arriving",
            deadline_s=10,
        )
        for _ in range(REKEYS[what]):
            check_load(lab, stream, LOG)
            if what in CLOCK_LIMIT_S:
                quiet, seen, times = watch(bench, vpn, what)
                before_ms.append(quiet)
                asked_s.append(seen - LOOKED_S / 2 - begun)
                after_ms.append(times)
                continue
            before_ms.append(_exchanges(bench, lambda: None))
            asked_s.append(time.monotonic() - begun)
            after_ms.append(_exchanges(bench, lambda: renew(lab.gateway(me), peers, what), took_s))
        if what in CLOCK_LIMIT_S:
            time.sleep(LOOKED_S / 2)  # so that the load covers the last rekey's second
        check_load(lab, stream, LOG)
        lab.host1.run("pkill", "-TERM", "iperf3")  # it then says what it has seen
        stream.wait(10 * PATIENCE)
    finally:
        stream.stop()
        free_server(lab)
    report = read_report(lab.host1.read_log(LOG)[said_before:])
    losses = [throughput_loss(report["intervals"], at) for at in asked_s]
    spikes = [max(times) for times in after_ms]
    rounded = {"losses": [round(loss, 4) for loss in losses], "rekey_s": [round(rekey_s, 3) for rekey_s in took_s]}
    idle = {"before_max_ms": [max(times) for times in before_ms], "before_median_ms": [*map(median, before_ms)]}
    measured = Measured(
        [
            measurement("rekey_loss", median(losses), losses, what=what, **rounded),
            measurement("rekey_rtt", median(spikes), spikes, **idle, exchanges=sum(map(len, after_ms))),
        ],
    )
    if warning := too_slow(took_s):
        measured.warnings.append(warning)
    return measured


def too_slow(took_s: Sequence[float]) -> str:
    """The warning where a rekey on command took longer than LOOKED_S, as on a guest kernel short of CPU; else ""."""
    longest_s = max(took_s, default=0.0)
    if longest_s <= LOOKED_S:
        return ""
    return f"a rekey took {longest_s:.1f} s: the {LOOKED_S:g} s looked at from the command on may have none of it"


def watch(bench: Bench, vpn: Vpn, what: str) -> tuple[list[float], float, list[float]]:
    """Exchanges for one second after another, until the VPN has renewed its keys in one of them.

    Returns the round trips (ms) of the second before, the monotonic time at which the new keys were seen, and the
    round trips of the second in which they were. Raises TimeoutError after CLOCK_LIMIT_S.
    """
    me, peers = bench.lab.sites[0], bench.lab.sites[1:]
    mark = partial(vpn.lifecycle().rekeying.mark, bench.lab.gateway(me), peers)
    limit_s = CLOCK_LIMIT_S[what] * PATIENCE
    old, started, before = mark(), time.monotonic(), list[float]()
    while time.monotonic() < started + limit_s:
        seen: list[float] = []
        times = _exchanges(bench, partial(_look, mark, old, seen))
        if seen and before:
            return before, seen[0], times
        if seen:  # too soon to have a second before it: the next one
            old = mark()
        before = times
    raise TimeoutError(f"{vpn.title} renewed no keys within {limit_s:g} s")


def _look(mark: Callable[[], str], old: str, seen: list[float]) -> None:
    """Note in ``seen`` when ``mark`` is no longer ``old``, or return after a second."""
    end = time.monotonic() + LOOKED_S
    while not seen and time.monotonic() < end:
        if mark() != old:
            seen.append(time.monotonic())
        time.sleep(LOOK_EVERY_S)


def _exchanges(bench: Bench, do: Any, took_s: list[float] | None = None) -> list[float]:
    """Round trips (ms) for LOOKED_S, during which ``do`` runs; the time that it takes is added to ``took_s``."""
    lab, log = bench.lab, "rekey-exchanges"
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "rtt", bench.address, str(ANSWER_PORT), str(LOOKED_S))
    asking = lab.host1.spawn(*ask, log=log)
    since = time.monotonic()
    do()
    if took_s is not None:
        took_s.append(time.monotonic() - since)
    if code := asking.wait(3 * LOOKED_S + 15):
        raise error_class(code)(f"the exchange of bytes stopped too early: {lab.host1.read_log(log).strip()[-300:]}")
    times: list[float] = json.loads(lab.host1.read_log(log).strip().splitlines()[-1])
    if not times:
        raise MeasurementError("no exchange of bytes ended in time")
    return times


def throughput_loss(intervals: list[dict[str, Any]], at_s: float) -> float:
    """The share of the throughput of the LOOKED_S before ``at_s`` that is missing in those after it.

    ``intervals``: iperf3's. Raises MeasurementError where the stream did not cover both, or nothing came before.
    """

    def rate(start: float, end: float) -> float:
        inside = [interval["sum"] for interval in intervals if start <= interval["sum"]["start"] < end]
        if len(inside) < LOOKED_S / INTERVAL_S / 2:
            raise MeasurementError(f"the load has no intervals from {start:.1f} to {end:.1f} s")
        return fmean(interval["bits_per_second"] for interval in inside)

    before = rate(at_s - LOOKED_S, at_s)
    if not before:
        raise MeasurementError("nothing arrived in the second before the rekey")
    return 1 - rate(at_s, at_s + LOOKED_S) / before


def read_report(output: str) -> dict[str, Any]:
    """iperf3's JSON, before and after which its output may have other text. Raises MeasurementError where there is
    none."""
    try:
        report: dict[str, Any] = json.loads(output[output.find("{") : output.rfind("}") + 1])
    except ValueError:
        raise MeasurementError(f"iperf3 printed no JSON: {output.strip()[-300:]}") from None
    if (error := report.get("error", "")) and not error.startswith(ENDED):
        raise MeasurementError(f"iperf3: {error}")
    return report


def no_rekey(vpn: Vpn, what: str) -> str:
    """Why the VPN cannot renew its keys in the way that the level ``what`` of the factor rekey names."""
    lacks = {
        "clock": "has no option here that sets how often it renews its keys",
        "protocol": "has no clock in its protocol that renews keys within minutes",
    }
    instead = "".join(f" (--set rekey={way} measures what it has)" for way in vpn.lifecycle().rekeying.ways[:1])
    return f"{vpn.title} {lacks.get(what, f'has no command that asks for new keys ({what})')}{instead}"


class Rekey(Whole):
    """Renewals of keys while a stream flows."""

    name = "rekey"
    factors = {"rekey": Levels(("esp", "ike", "clock", "protocol"), default="esp", before=True)}
    metrics = (
        Metric(
            name="rekey_loss",
            title="Throughput lost at a rekey",
            unit="1",
            better="lower",
            definition="The share of the throughput that a rekey costs: 1 minus the payload received in the second "
            "after the start of the rekey, divided by the payload received in the second before. The value is the "
            "median of the trial's rekeys. It is below 0 where noise is larger than the loss.",
            source="RFC 7296 §2.8 (rekeying); swanctl(8) --rekey",
            bounds=(-LARGEST, 1.0),  # more may come after a rekey than before, but not less than nothing
        ),
        time_ms(
            name="rekey_rtt",
            title="Longest round trip at a rekey",
            definition="A TCP stream fills the tunnel. The longest of the round trips that begin within one second "
            "after the start of a rekey. The value is the median of the trial's rekeys. The detail has the round "
            "trips of the second before.",
            source="RFC 2681 (round-trip delay), RFC 7296 §2.8 (rekeying)",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if params["rekey"] in vpn.lifecycle().rekeying.ways:
            return None
        return Unsupported(no_rekey(vpn, params["rekey"]))

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {"rekey_every_s": REKEY_EVERY_S} if params["rekey"] == "clock" else {}

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return {"clock": 17.0, "protocol": 125.0}.get(params["rekey"], 7.5)  # else on command

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return rekey(bench, asked.vpn, asked.params["rekey"])
