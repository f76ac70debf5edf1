"""Measuring through a tunnel: TCP and UDP with iperf3, the idle tunnel with the asking probe.

Every number here has a guard that refuses it when the instrument did not do what it was asked.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from runner import probes
from runner.errors import CommandError, MeasurementError
from runner.lab import Lab
from runner.metrics import METRICS
from runner.model import Measurement
from runner.node import Completed, NamespaceProcess
from runner.plugin import TCP_PORTS
from runner.proof import ANSWER_PORT
from runner.search import Engine, Loss, SearchResult, find_throughput
from runner.tunnel import Bench

IPERF_PORT = str(TCP_PORTS[0])
FEED = "/run/vpneval/payload"
WINDOW_BYTES = 2**21  # socket buffers asked for in UDP tests, if net.core.rmem_max allows
OVERHEAD_S = 0.1  # what a one-second iperf3 costs beyond its second: process, connection, exchange of results
LOSS_RATIO = 0.01  # the thesis' bound on the mean loss, §3.5.1
JITTER_RATE_BPS = 1e6
JITTER_PAYLOAD_BYTES = 200


@dataclass(frozen=True)
class UdpSearch:
    """How UDP throughput is searched for: see runner.search.find_throughput."""

    engine: Engine = "bayes"
    relative_width: float = 0.01
    trial_duration_s: float = 2.0
    confirm: tuple[int, float] | None = (10, 10.0)
    max_rate_bps: float = 10e9
    budget_s: float | None = None


@dataclass
class Measured:
    """What a measurement of one trial gave, and for how long the instruments ran (seconds)."""

    measurements: list[Measurement] = field(default_factory=list)
    measuring_s: float = 0.0
    warnings: list[str] = field(default_factory=list)


def measurement(metric: str, value: float, samples: list[float] | None = None, **detail: Any) -> Measurement:
    """A value in the unit that the metric is defined in."""
    known = METRICS[metric]
    return Measurement(
        metric=metric, value=value, unit=known.unit, better=known.better, samples=samples or [], detail=detail
    )


# --- TCP ---------------------------------------------------------------------------------------------------


def tcp(lab: Lab, address: str, duration_s: int, streams: int, direction: str, payload: str) -> Measured:
    """TCP throughput and CPU cost of one iperf3 test of ``duration_s`` whole seconds.

    ``direction``: ``forward`` host1 to host2, ``reverse`` host2 to host1. ``payload``: ``random`` is iperf3's
    own buffer (128 KiB of random bytes again and again: longer than any VPN's compression window), ``zeros``
    is /dev/zero, ``text`` an endless text that deflate shrinks to a quarter.
    """
    options = ["--parallel", str(streams)] if streams > 1 else []
    options += ["--reverse"] if direction == "reverse" else []
    feeder = None
    if payload == "zeros":
        options += ["--file", "/dev/zero"]
    elif payload == "text":
        feeder = start_feeder(lab)
        options += ["--file", FEED]
    before, started = cpu_seconds(), time.monotonic()
    report = iperf3(lab, address, duration_s, *options)
    elapsed, cpu = time.monotonic() - started, cpu_seconds() - before
    if feeder is not None:
        check_feeder(feeder)
    received = report["end"]["sum_received"]
    if not received["bytes"]:
        raise MeasurementError("iperf3 sent, and nothing was received")
    check_duration(report, duration_s)
    samples = [interval["sum"]["bits_per_second"] for interval in report["intervals"]]
    sent = report["end"]["sum_sent"]
    measured = Measured(measuring_s=elapsed)
    measured.measurements.append(
        measurement(
            "tcp_throughput",
            received["bits_per_second"],
            samples,
            retransmits=sent.get("retransmits"),
            congestion_control=report["end"].get("sender_tcp_congestion"),
        )
    )
    measured.measurements.append(
        measurement("cpu_per_gigabyte", cpu / (received["bytes"] / 1e9), cpu_seconds=round(cpu, 3))
    )
    return measured


def check_duration(report: dict[str, Any], duration_s: float) -> None:
    """Refuse a test whose payload ended early: iperf3 then divides by the whole time all the same."""
    seconds = report["end"]["sum_sent"]["seconds"]
    empty = [interval["sum"]["start"] for interval in report["intervals"] if not interval["sum"]["bytes"]]
    if seconds < 0.9 * duration_s:
        raise MeasurementError(f"the payload was exhausted, or the test cut short, after {seconds:.1f} s")
    if len(empty) > len(report["intervals"]) / 2:
        raise MeasurementError(
            f"nothing was sent from {empty[0]:.1f} s on: the payload was exhausted or the tunnel hung"
        )


def start_feeder(lab: Lab) -> NamespaceProcess:
    """An endless text through a FIFO on host1."""
    lab.host1.write(FEED + ".txt", text_payload(), mode=0o644)
    lab.host1.write(f"{probes.FOLDER}/feed.py", probes.source("feed"), mode=0o644)
    lab.host1.run("rm", "-f", FEED)
    lab.host1.run("mkfifo", FEED)
    return lab.host1.spawn("python3", "-IS", f"{probes.FOLDER}/feed.py", FEED + ".txt", FEED, log="feeder")


def check_feeder(feeder: NamespaceProcess) -> None:
    """Refuse the test unless the payload outlasted it: the feeder must end because its reader went away."""
    try:
        code = feeder.wait(5)
    except TimeoutError:
        feeder.stop()
        raise MeasurementError("iperf3 never read the payload to the end of the test") from None
    if code != 0:
        raise MeasurementError(f"the payload was exhausted: its source ended first (exit {code})")


@cache
def text_payload() -> str:
    """2 MB of text-like payload, always the same: words of Zipf's frequencies; deflate shrinks it to a quarter."""
    rng = random.Random(1)
    syllables = ["ba", "con", "de", "er", "fi", "gra", "ing", "ka", "lo", "men", "ne", "ou", "per", "ri", "st", "ter"]
    words = ["".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3)))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return " ".join(rng.choices(words, weights, k=380_000))[:2_000_000]


# --- UDP ---------------------------------------------------------------------------------------------------


def udp(bench: Bench, payload_bytes: int, search: UdpSearch, first_bps: float | None, seed: int) -> Measured:
    """UDP throughput by the loss-bounded search, and jitter at a low rate.

    ``first_bps``: where to start, if anything is known. The search sees the tunnel only through ``offer``. A
    rate that breaks the tunnel down counts as lost altogether, and the tunnel is made anew. Raises
    MeasurementError where there is no throughput to report.
    """
    started = time.monotonic()
    measured = Measured()
    counters = {"receive_buffer_errors": 0, "fragments": 0}
    breakdowns: list[float] = []
    window = str(min(WINDOW_BYTES, int(bench.lab.host2.run("sysctl", "-n", "net.core.rmem_max").stdout)))
    options = ("--udp", "--length", str(payload_bytes), "--window", window, "--bitrate")

    def offer(rate_bps: float, duration_s: float) -> Loss:
        before = receive_buffer_errors(bench.lab), fragments_created(bench.lab)
        try:
            report = iperf3(bench.lab, bench.address, max(1, round(duration_s)), *options, str(int(rate_bps)))
        except MeasurementError:
            if bench.carries_payload():
                raise  # the instrument failed, not the tunnel
            breakdowns.append(rate_bps)
            bench.renew()
            return Loss(1, 0, rate_bps)
        dropped = receive_buffer_errors(bench.lab) - before[0]
        counters["receive_buffer_errors"] += dropped
        counters["fragments"] += fragments_created(bench.lab) - before[1]
        return udp_loss(report, payload_bytes, dropped)

    result = find_throughput(
        offer,
        loss_ratio=LOSS_RATIO,
        relative_width=search.relative_width,
        trial_duration_s=search.trial_duration_s,
        confirm=search.confirm,
        max_rate_bps=search.max_rate_bps,
        budget_s=search.budget_s,
        engine=search.engine,
        first_rate_bps=first_bps,
        overhead_s=OVERHEAD_S,
        seed=seed,
    )
    value = result.confirmed_rate_bps or result.rate_bps
    if value is None and all(trial.loss_ratio <= LOSS_RATIO for trial in result.trials):
        # Nothing failed: what was offered last is a lower bound, and is reported as one.
        value = max(trial.offered_rate_bps for trial in result.trials)
        limited = "generator_limited" in result.flags
        why = "iperf3 could offer no more" if limited else "the search's time ended before a rate failed"
        measured.warnings.append(f"UDP throughput is at least this: {why}")
    if value is None:
        raise MeasurementError(f"no UDP throughput: {explain(result)}")
    if "unstable" in result.flags:
        measured.warnings.append("UDP throughput is unstable: the loss at one rate changed during the search")
    if breakdowns:
        measured.warnings.append(f"the tunnel broke down under UDP, from {min(breakdowns) / 1e6:.0f} Mbit/s offered")
    detail = search_detail(result) | counters | {"payload_bytes": payload_bytes, "breakdowns_bps": breakdowns}
    found = measurement("udp_throughput", value, **detail)
    measured.measurements.append(found)
    try:
        measured.measurements.append(jitter(bench.lab, bench.address))
    except MeasurementError as error:  # the throughput that was found stays found
        measured.warnings.append(f"no jitter: {error}")
    measured.measuring_s = time.monotonic() - started
    return measured


def udp_loss(report: dict[str, Any], payload_bytes: int, receiver_drops: int = 0) -> Loss:
    """Datagrams sent and received of an iperf3 UDP test, the receiver's own drops counted apart.

    iperf3 counts gaps in the sequence only, so that a lost tail reads as no loss; sent minus received does not.
    What the receiving socket dropped came through the tunnel, and is no loss of the VPN.
    """
    sent = report["end"]["sum_sent"]
    received = report["end"]["sum_received"]["bytes"] / payload_bytes + receiver_drops
    if not sent["packets"]:
        raise MeasurementError("iperf3 sent no datagram")
    return Loss(sent["packets"], min(received, sent["packets"]), sent["bits_per_second"])


def search_detail(result: SearchResult) -> dict[str, Any]:
    """A search as data for the trial's line: every trial of it, with what was offered and lost."""
    return {
        "interval_bps": list(result.interval_bps) if result.interval_bps else None,
        "confirmed_rate_bps": result.confirmed_rate_bps,
        "flags": sorted(result.flags),
        "trials": [
            {
                "offered_rate_bps": round(trial.offered_rate_bps),
                "duration_s": trial.duration_s,
                "loss_ratio": round(trial.loss_ratio, 6),
                "purpose": trial.purpose,
            }
            for trial in result.trials
        ],
    }


def explain(result: SearchResult) -> str:
    losses = ", ".join(f"{t.loss_ratio:.1%} at {t.offered_rate_bps / 1e6:.3g} Mbit/s" for t in result.trials[-3:])
    return f"{', '.join(sorted(result.flags)) or 'the search found none'}; loss ratio {losses or 'not measured'}"


def jitter(lab: Lab, address: str) -> Measurement:
    """Jitter of a 1 Mbit/s stream of small datagrams for a second, as iperf3's receiver computes it."""
    report = iperf3(
        lab,
        address,
        1,
        *("--udp", "--bitrate", str(int(JITTER_RATE_BPS)), "--length", str(JITTER_PAYLOAD_BYTES)),
    )
    loss = udp_loss(report, JITTER_PAYLOAD_BYTES)
    if loss.received == 0:
        raise MeasurementError("the jitter stream was sent, and nothing was received")
    achieved = report["end"]["sum_sent"]["bits_per_second"]
    if achieved < 0.9 * JITTER_RATE_BPS:
        raise MeasurementError(f"the sender fell short: {achieved / 1e6:.2f} of {JITTER_RATE_BPS / 1e6:.2f} Mbit/s")
    end = report["end"]["sum_received"]
    return measurement("jitter", end["jitter_ms"], loss_ratio=1 - loss.received / loss.sent)


def receive_buffer_errors(lab: Lab) -> int:
    """UdpRcvbufErrors of host2: datagrams that arrived and found the socket's buffer full."""
    return snmp(lab.host2.run("cat", "/proc/net/snmp"), "Udp", "RcvbufErrors")


def fragments_created(lab: Lab) -> int:
    """IP fragments that the near host and its gateway have made so far."""
    nodes = (lab.host1, lab.gateway(lab.sites[0]))
    return sum(snmp(node.run("cat", "/proc/net/snmp"), "Ip", "FragCreates") for node in nodes)


def snmp(shown: Completed, protocol: str, counter: str) -> int:
    """One counter of /proc/net/snmp (RFC 1213 names): a line of names, then a line of values."""
    names, values = (line.split() for line in shown.stdout.splitlines() if line.startswith(protocol + ":"))
    return int(values[names.index(counter)])


# --- the idle tunnel ---------------------------------------------------------------------------------------


def idle(lab: Lab, address: str, duration_s: float, setup_s: float) -> Measured:
    """Round-trip time on the idle tunnel, and the set-up time that was taken when the tunnel came up."""
    started = time.monotonic()
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "rtt", address, str(ANSWER_PORT), str(duration_s))
    asked = lab.host1.run(*ask, timeout=duration_s + 15, check=False)
    if asked.code != 0:
        raise MeasurementError(f"the exchange broke off: {asked.stderr.strip().splitlines()[-1:]}")
    times = json.loads(asked.stdout)
    if not times:
        raise MeasurementError("no exchange was finished in the time")
    return Measured(
        [measurement("rtt", statistics.median(times), times), measurement("setup_time", setup_s)],
        time.monotonic() - started,
    )


# --- instruments -------------------------------------------------------------------------------------------


def iperf3(lab: Lab, address: str, duration_s: int, *options: str) -> dict[str, Any]:
    """Run one iperf3 test from host1 and return its JSON. Raises MeasurementError with iperf3's own words.

    ``duration_s`` is whole: iperf3 takes ``-t 0.5`` as 0, which means for ever.
    """
    argv = ["iperf3", "--client", address, "--port", IPERF_PORT, "--time", str(duration_s), "--json"]
    argv += ["--connect-timeout", "3000", *options]
    try:
        done = lab.host1.run(*argv, check=False, timeout=duration_s + 4)
        if "the server is busy" in done.stdout:  # the test before ended here, and not there yet
            time.sleep(0.5)
            done = lab.host1.run(*argv, check=False, timeout=duration_s + 4)
    except CommandError as late:
        restart_server(lab)
        raise MeasurementError(f"iperf3 hung: {late}") from late
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise MeasurementError(f"iperf3 said no JSON: {(done.stdout + done.stderr).strip()[-300:]}") from None
    if error := report.get("error"):
        raise MeasurementError(f"iperf3: {error}")
    return report


def restart_server(lab: Lab) -> None:
    """After a hung test the server may still wait for it: give the next test a new one."""
    lab.host2.run("pkill", "-KILL", "iperf3", check=False)
    lab.host2.spawn("iperf3", "--server", "--port", IPERF_PORT, log="iperf3-server")


def cpu_seconds() -> float:
    """CPU seconds this machine has spent so far in user, system, interrupt and softirq (proc_stat(5)).

    The nodes of a namespace lab share this machine, so that this is the whole lab, the generators included.
    """
    user, nice, system, _idle, _iowait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / 100  # USER_HZ is 100 on every Linux
