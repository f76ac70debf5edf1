"""Latency while a TCP stream fills the tunnel (bufferbloat), and what the daemons ask of their kernel meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from runner.data.errors import CommandError, InstrumentError, MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric, time_ms
from runner.data.remarks import Remark
from runner.data.trials import Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import PACKET_BYTES, system_calls
from runner.instruments.tools.counters import arrived_bytes
from runner.instruments.tools.factors import CONGESTION
from runner.instruments.tools.iperf import IPERF_PORT, congestion_in_use, iperf3, listens, restart_server
from runner.instruments.traffic.idle import exchanges, percentiles
from runner.lab.node import Process, wait_until
from runner.lab.node.probing import error_class, was_killed
from runner.lab.shape import congestion
from runner.lab.shape.congestion import CUBIC
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

EXCHANGES = 200  # what the 99th percentile needs
IDLE_S = 0.3
COUNTING_S = 0.3  # for the system calls, at the end of the load
LOAD_LIMIT_S = 30  # how much longer than the exchanges the load may last: it is stopped, and this is the safety net
FLOWING_BYTES = 500_000  # when so much has arrived, the load has begun and its queues are filling
FELL_SHORT = 0.8  # a half load that reaches less than this share of itself is a warning
DATAGRAM_INTERVAL_MS = 5


def measure_under_load(
    lab: Lab, address: str, load: str, duration_s: float, datagrams: bool, control: str = CUBIC
) -> Measured:
    """Round-trip time under load, beside that of the idle tunnel just before; system calls per packet.

    ``load``: ``full`` is one TCP stream as fast as it goes, ``half`` one at half of the throughput that a pilot of
    one second reaches. ``duration_s``: of the exchanges. ``datagrams``: does the VPN carry IP, so that irtt can
    look at the idle tunnel, too? ``control``: the stream's congestion control, which decides how long the queues are
    that it fills. Raises MeasurementError where the load does not start, ends too early, or has another one.
    """
    measured = Measured()
    before = exchanges(lab, address, IDLE_S)
    if datagrams:
        try:
            measured.measurements.append(udp_rtt(lab, address))
        except MeasurementError as error:  # a second instrument: the first goes on
            measured.remarks.append(Remark(kind="no value", subject="UDP round-trip time", why=str(error)))
    options: tuple[str, ...] = ("--congestion", control)
    wanted_bps = None
    if load == "half":
        wanted_bps = iperf3(lab, address, 1, *options)["end"]["sum_received"]["bits_per_second"] / 2
        options += ("--bitrate", str(int(wanted_bps)))

    with streaming(lab, address, 3 * duration_s, *options) as stream:
        since, bytes_before = time.monotonic(), arrived_bytes(lab.host2)
        times = exchanges(lab, address, duration_s, at_least=EXCHANGES)
        load_bps = 8 * (arrived_bytes(lab.host2) - bytes_before) / (time.monotonic() - since)
        since, bytes_before = time.monotonic(), arrived_bytes(lab.host2)
        calls = system_calls(lab, COUNTING_S)
        packets_per_s = (arrived_bytes(lab.host2) - bytes_before) / PACKET_BYTES / (time.monotonic() - since)
        check_load(lab, stream)
        check_congestion(lab, control)
    if wanted_bps and load_bps < FELL_SHORT * wanted_bps:
        share = load_bps / wanted_bps
        measured.warnings.append(f"the load of half the throughput reached only {share:.0%} of that")

    _add_under_load(measured, before, times, load_bps, control, calls, packets_per_s)
    return measured


def _add_under_load(
    measured: Measured,
    before: list[float],
    times: list[float],
    load_bps: float,
    control: str,
    calls: float | str,
    packets_per_s: float,
) -> None:
    """Add what was found under load: round-trip times (ms) ``before`` it and in it, and the system calls of a second,
    or why they were not counted."""
    median, idle_median = float(np.median(times)), float(np.median(before))
    under_load = measurement("rtt_loaded", median, times, **percentiles(times))
    under_load.detail.update(load_bps=round(load_bps), idle_ms=idle_median, added_ms=round(median - idle_median, 4))
    under_load.detail["congestion_control"] = control
    measured.measurements.append(under_load)
    if isinstance(calls, str):
        under_load.detail["no_syscalls"] = calls
    elif packets_per_s == 0:  # iperf3 paces in blocks of 128 KiB
        under_load.detail["no_syscalls"] = f"nothing arrived in the {COUNTING_S:g} s of counting"
    else:
        per_packet = measurement("syscalls_per_packet", calls / packets_per_s)
        per_packet.detail.update(calls_per_s=round(calls), packets_per_s=round(packets_per_s))
        measured.measurements.append(per_packet)


@contextmanager
def streaming(lab: Lab, address: str, most_s: float, *options: str) -> Iterator[Process]:
    """A TCP stream through the tunnel, which has begun to arrive, and goes on until the block ends, for about
    ``most_s`` seconds at most. Raises as ``check_load`` does."""
    first = arrived_bytes(lab.host2)
    argv = ("iperf3", "--client", address, "--port", IPERF_PORT, "--connect-timeout", "3000")
    stream = lab.host1.spawn(*argv, "--time", str(round(most_s) + LOAD_LIMIT_S), *options, log="load")
    try:
        wait_until(
            lambda: not stream.alive() or arrived_bytes(lab.host2) - first > FLOWING_BYTES,
            "the load arriving",
            deadline_s=10,
        )
        check_load(lab, stream)
        yield stream
    finally:
        stream.stop()
        free_server(lab)


def check_load(lab: Lab, stream: Process, log: str = "load") -> None:
    """Refuse what was measured beside a load that has ended. Raises MeasurementError; InstrumentError where the load's
    client or server was killed."""
    if stream.alive():
        return
    complaint = lab.host1.read_log(log).strip()[-300:]
    if was_killed(stream.wait(0)):
        raise InstrumentError(f"the load's iperf3 was killed on {lab.host1.name}")
    if not listens(lab):
        raise InstrumentError(f"the iperf3 server on {lab.host2.name} had died: {complaint}")
    raise MeasurementError(f"the load ended too early: {complaint}")


def check_congestion(lab: Lab, control: str) -> None:
    """Refuse what was measured beside a load of another congestion control. Raises MeasurementError."""
    if (used := congestion_in_use(lab)) != control:
        raise MeasurementError(f"the load's congestion control was {used or 'unknown'}, not {control}")


def free_server(lab: Lab) -> None:
    """Wait until the iperf3 server has noticed that its client is gone. There is a new server where it does not notice,
    or has died."""
    established = ("ss", "-Htn", "state", "established", f"sport = :{IPERF_PORT}")
    try:
        wait_until(lambda: not lab.host2.run(*established).stdout.strip(), "the server free", deadline_s=3)
        free = listens(lab)
    except TimeoutError:
        free = False
    if not free:
        restart_server(lab)


def udp_rtt(lab: Lab, address: str, duration_s: float = 0.5) -> Value:
    """Round-trip time, its variation and loss of datagrams by irtt on the idle tunnel.

    The one-way delays that irtt also has need clocks that agree, and are left out.
    """
    server = lab.host2.spawn("irtt", "server", "-i", "0", log="irtt")  # 0: any interval that the client wants
    try:
        wait_until(lambda: ":2112 " in lab.host2.run("ss", "-Hlun").stdout, "irtt listening", deadline_s=3)
        options = ("-i", f"{DATAGRAM_INTERVAL_MS}ms", "-d", f"{duration_s}s", "--timeouts=500ms,1s,3s", "-Q", "-o", "-")
        done = lab.host1.run("irtt", "client", *options, address, check=False, timeout=duration_s + 15)
    except (TimeoutError, CommandError) as late:
        raise MeasurementError(f"irtt: {late}") from late
    finally:
        server.stop()
    if done.code != 0:
        raise error_class(done.code)(f"irtt: {(done.stderr or done.stdout).strip()[-300:]}")
    return read_irtt(json.loads(done.stdout))


def read_irtt(report: dict[str, Any]) -> Value:
    """The measurement in irtt's JSON (its durations are ns). Raises MeasurementError if nothing came back."""
    times = [trip["delay"]["rtt"] / 1e6 for trip in report["round_trips"] if "rtt" in trip["delay"]]
    if not times:
        raise MeasurementError("irtt: no datagram came back")
    variation = report["stats"]["ipdv_round_trip"]
    return measurement(
        "udp_rtt",
        float(np.median(times)),
        times,
        **percentiles(times),
        variation_mean_ms=round(variation["mean"] / 1e6, 4) if variation["n"] else None,
        loss_ratio=report["stats"]["packet_loss_percent"] / 100,
    )


class Loaded(Whole):
    """The same exchanges while a TCP stream fills the tunnel."""

    name = "loaded"
    factors = {
        "load": Levels(("full", "half"), default="full", told="{} load".format, usual="full"),
        "congestion": replace(CONGESTION, default=CUBIC),
    }
    metrics = (
        time_ms(
            name="rtt_loaded",
            title="Round-trip time under load",
            definition="Median time of the same exchange as in the round-trip time, while a TCP stream from the near "
            "host to the far host fills the tunnel, or half of it (factor load). How long the queues are then is the "
            "choice of the stream's congestion control (factor congestion).",
            source="RFC 2681 under working conditions, after draft-ietf-ippm-responsiveness",
            margin=1.15,
            plot="distribution",
        ),
        time_ms(
            name="udp_rtt",
            title="UDP round-trip time",
            definition="irtt sends a datagram every 5 ms through a tunnel that carries nothing else. The value is the "
            "median round-trip time. The detail has the delay variation and the loss. This is a second instrument "
            "beside the TCP exchange.",
            source="RFC 2681 (round-trip delay), RFC 3393 (variation, of round trips); irtt-client(1)",
            margin=1.15,
            plot="distribution",
        ),
        Metric(
            name="syscalls_per_packet",
            title="System calls per packet",
            unit="/packet",
            better="lower",
            definition="A TCP stream fills the tunnel. The value is the number of system calls that the VPN's daemons "
            "make on both gateways for every 1448 bytes that arrive at the far host. A tunnel in the kernel without a "
            "daemon has 0.",
            source="perf-stat(1), tracepoint raw_syscalls:sys_enter; the thesis explains its ranking by them",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return congestion.control_refusal((lab.host1,), params.get("congestion", CUBIC))

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        around_s = 2.0  # the idle tunnel first, the load's start and end, and counting
        pilot_s = profile.duration_s + 0.1 if params["load"] == "half" else 0.0
        return around_s + profile.loaded_s + pilot_s

    def once(self, bench: Bench, asked: Asked) -> Measured:
        datagrams, control = asked.vpn.carries == "ip", asked.params.get("congestion", CUBIC)
        return measure_under_load(
            bench.lab, bench.address, asked.params["load"], asked.profile.loaded_s, datagrams, control
        )
