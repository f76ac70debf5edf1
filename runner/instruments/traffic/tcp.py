"""TCP throughput and what it costs: slices between which other tunnels have their turn, or one iperf3 test."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from math import ceil
from typing import Any

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import TCP, Levels
from runner.data.metric import Metric, bit_rate
from runner.data.remarks import Remark
from runner.data.trials import Position
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring, whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import costs, impossible, machines, memory, of_slice, snapshot
from runner.instruments.tools.factors import CONGESTION, STREAMS
from runner.instruments.tools.fragments import fitting
from runner.instruments.tools.iperf import THREADS_SINCE, iperf3, version_of
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.tools.visits import WARM_S, visits
from runner.lab import probes
from runner.lab.node import Process
from runner.lab.readings.wire import outer
from runner.lab.shape import congestion
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

FEED = "/run/vpneval/payload"
TEXT = f"{FEED}.txt"
# The thesis' files (§3.5.1, parameter 3): a zip of 37.9 MB, which cannot be compressed, and 136 MB of zeros.
FILE_BYTES = {"random": 37_900_000, "zeros": 136_000_000}
EXPECTED_BPS = 200e6
LONGEST_FILE_S = 300  # that a file may take: 136 MB at 3.6 Mbit/s
TEST_RTTS = 20  # of a whole test, at least: half of them are slow start
FILE_ENDS_S = 0.1  # iperf3 sees the end of its file when it reports an interval, of which this is the shortest
FILE_EXACT = 0.02  # share of a transfer's time below which that does not count
WIRE_SLICES = 3  # that are counted on the WAN, too: each count costs two commands


def tcp(
    lab: Lab,
    address: str,
    duration_s: int,
    streams: int,
    direction: str,
    payload: str,
    around: AbstractContextManager[Piece] | None = None,
    file_bytes: int = 0,
    control: str = "",
) -> Measured:
    """TCP throughput and its cost (see cost.py) of one iperf3 test of ``duration_s`` whole seconds, or TEST_RTTS; with
    ``file_bytes`` of one that ends when so many bytes of the payload are sent.

    ``direction``: ``forward`` host1 to host2, ``reverse`` host2 to host1, ``both`` at once, added. ``payload``:
    ``random`` is iperf3's own buffer (128 KiB of random bytes again and again: longer than any VPN's compression
    window), ``zeros`` is /dev/zero, ``text`` an endless text that deflate shrinks to a quarter. ``around``: what
    watches the transfer. ``control``: the streams' congestion control, "" for the host's.
    """
    options = ["--parallel", str(streams)] if streams > 1 else []
    options += {"reverse": ["--reverse"], "both": ["--bidir"]}.get(direction, [])
    options += ["--congestion", control] if control else []
    duration_s = max(duration_s, ceil(TEST_RTTS * lab.rtt_s))
    feeder = None
    if payload == "zeros":
        options += ["--file", "/dev/zero"]
    elif payload == "text":
        feeder = start_feeder(lab)
        options += ["--file", FEED]
    options += ["--bytes", str(file_bytes), "--interval", f"{FILE_ENDS_S:g}"] if file_bytes else []
    wire_before = wan_bytes(lab)
    with around or nullcontext(Piece(0)) as piece:  # outside of the snapshots: the reading costs CPU time, too
        before, started = snapshot(lab), time.monotonic()
        report = iperf3(lab, address, LONGEST_FILE_S if file_bytes else duration_s, *options)
        elapsed, after = time.monotonic() - started, snapshot(lab)
        carried = of_ways(report["end"], "sum_received", "bytes")
        piece.carried_bytes = round(carried)
    wire_bytes = wan_bytes(lab) - wire_before
    if feeder is not None:
        check_feeder(feeder)
    received = report["end"]["sum_received"]
    if not carried:
        raise MeasurementError("iperf3 sent, and nothing was received")
    check_file(report, file_bytes) if file_bytes else check_duration(report, duration_s)
    samples = [of_ways(interval, "sum", "bits_per_second") for interval in report["intervals"]]
    sent = report["end"]["sum_sent"]
    measured = Measured(measuring_s=elapsed)
    measured.measurements.append(
        measurement(
            "tcp_throughput",
            of_ways(report["end"], "sum_received", "bits_per_second"),
            samples,
            retransmits=sent.get("retransmits"),
            congestion_control=report["end"].get("sender_tcp_congestion"),
            **_file_end(received["seconds"]) if file_bytes else {},
        )
    )
    ratio = measurement("wire_bytes_per_payload_byte", wire_bytes / carried, wan_ip_bytes=wire_bytes)
    measured.measurements.append(ratio)
    measured.measurements += costs(lab, before, after, round(carried))
    measured.remarks += _no_cost(impossible(before.spent, after.spent))
    measured.warnings += _one_thread(report["start"]["version"]) if streams > 1 else []
    return measured


def of_ways(report: dict[str, Any], part: str, what: str) -> float:
    """This number of a part of iperf3's report, of both ways where it sent both at once."""
    return float(report[part][what] + report.get(f"{part}_bidir_reverse", {what: 0})[what])


def _file_end(seconds: float) -> dict[str, Any]:
    """What is known of the end of a file that took so long by iperf3: a short one was through before, and its
    throughput is a lower bound."""
    known = {"resolution_ms": 1e3 * FILE_ENDS_S}
    return known | ({"at_least": True} if FILE_EXACT * seconds < FILE_ENDS_S else {})


def _one_thread(iperf3_says: str) -> list[str]:
    """What is to be known of several streams of an iperf3 without threads."""
    if (version := version_of(iperf3_says)) >= THREADS_SINCE:
        return []
    have, need = (".".join(map(str, number)) for number in (version, THREADS_SINCE))
    return [f"iperf3 {have} sends all streams from one thread; it has threads since {need}"]


def _no_cost(why: str) -> list[Remark]:
    """The remark that there is no CPU cost; none where there is no reason."""
    return [Remark(kind="no value", subject="CPU cost", why=why)] if why else []


def slices(bench: Bench, params: Mapping[str, str], slice_s: float) -> Measuring:
    """TCP throughput and its cost, in slices of ``slice_s`` seconds, until told to end. Raises MeasurementError."""
    retransmits, refused, limits = 0, "", Limits()
    payload, direction, go, taken = params["payload"], params["direction"], Go.ON, 0
    while go is Go.ON:
        if payload == "text":
            bench.get_shared(f"text {direction}", partial(_text, bench.lab, direction))
        sent = TEXT if payload == "text" else payload
        via = visits(bench)
        wire = wan_bytes(bench.lab) if taken < WIRE_SLICES else None
        with limits.slice(bench) as piece:  # outside of the counters: the reading costs CPU time, too
            before = machines(bench.lab)
            with fitting(bench):
                streams, control = int(params["streams"]), params.get("congestion", "")
                transfer = via.tcp(slice_s, direction=direction, streams=streams, payload=sent, control=control)
            after, carried = machines(bench.lab), transfer["carried_bytes"]
            refused = refused or impossible(before, after)
            piece.carried_bytes = carried
        values = {"tcp_throughput": transfer["bytes"] * 8 / transfer["seconds"]} | of_slice(before, after, carried)
        if wire is not None:
            values["wire_bytes_per_payload_byte"] = (wan_bytes(bench.lab) - wire) / carried
        retransmits += transfer["retransmits"]
        taken += 1
        go = yield values
    measured = Measured([memory(snapshot(bench.lab))])
    measured.remarks += _no_cost(refused)
    detail = {"retransmits": retransmits, "congestion_control": transfer["congestion_control"]}
    measured.measurements.append(measurement("tcp_throughput", 0.0, **detail))
    return limits.add_loads(bench, measured)


@contextmanager
def _text(lab: Lab, direction: str) -> Iterator[None]:
    """The text payload on each host that sends it."""
    senders = {"forward": [lab.host1], "reverse": [lab.host2]}.get(direction, [lab.host1, lab.host2])
    for sender in senders:
        sender.write(TEXT, text_payload(), mode=0o644)
    yield


def pilot_bps(bench: Bench) -> float:
    """The TCP throughput of a second, bit/s."""
    return tcp(bench.lab, bench.address, 1, 1, "forward", "random").measurements[0].value


def wan_bytes(lab: Lab) -> int:
    """Bytes of IP that have gone over the WAN so far, both directions together."""
    return sum(outer(lab, direction).ip_bytes for direction in ("forward", "reverse"))


def check_duration(report: dict[str, Any], duration_s: float) -> None:
    """Refuse a test whose payload ended early: iperf3 then divides by the whole time all the same."""
    seconds = report["end"]["sum_sent"]["seconds"]
    empty = [interval["sum"]["start"] for interval in report["intervals"] if not interval["sum"]["bytes"]]
    if seconds < 0.9 * duration_s:
        raise MeasurementError(f"the payload ran out, or the test ended too early, after {seconds:.1f} s")
    if len(empty) > len(report["intervals"]) / 2:
        raise MeasurementError(f"nothing was sent from {empty[0]:.1f} s on: the payload ran out, or the tunnel hung")


def check_file(report: dict[str, Any], file_bytes: int) -> None:
    """Refuse a test that ended before all of its file was sent. What is then on its way is not received any more."""
    sent_bytes = report["end"]["sum_sent"]["bytes"]
    if sent_bytes < file_bytes:
        raise MeasurementError(f"the test ended after {sent_bytes / 1e6:.1f} of {file_bytes / 1e6:.1f} MB")


def start_feeder(lab: Lab) -> Process:
    """An endless text through a FIFO on host1."""
    lab.host1.write(TEXT, text_payload(), mode=0o644)
    lab.host1.write(f"{probes.FOLDER}/feed.py", probes.source("feed"), mode=0o644)
    lab.host1.run("rm", "-f", FEED)
    lab.host1.run("mkfifo", FEED)
    return lab.host1.spawn("python3", "-IS", f"{probes.FOLDER}/feed.py", TEXT, FEED, log="feeder")


def check_feeder(feeder: Process) -> None:
    """Refuse the test unless the payload outlasted it: the feeder must end because its reader went away."""
    try:
        code = feeder.wait(5)
    except TimeoutError:
        feeder.stop()
        raise MeasurementError("iperf3 never read the payload to the end of the test") from None
    if code != 0:
        raise MeasurementError(f"the payload ran out: its source ended first (exit {code})")


@cache
def text_payload() -> str:
    """2 MB of text-like payload, always the same: words of Zipf's frequencies; deflate shrinks it to a quarter."""
    rng = random.Random(1)
    syllables = ["ba", "con", "de", "er", "fi", "gra", "ing", "ka", "lo", "men", "ne", "ou", "per", "ri", "st", "ter"]
    words = ["".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3)))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return " ".join(rng.choices(words, weights, k=380_000))[:2_000_000]


class Tcp(Instrument):
    """One TCP transfer: in slices, or one test by iperf3, as long as the profile says."""

    name = "tcp"
    factors = {
        "payload": Levels(("random", "zeros", "text"), default="random", told=str, usual="random"),
        "streams": STREAMS,
        "direction": Levels(("forward", "reverse", "both"), default="forward", told=str, usual="forward"),
        "congestion": CONGESTION,
        "transfer": Levels(("file",), told="of a {}".format),  # absent: it ends after a time
    }
    metrics = (
        bit_rate(
            name="tcp_throughput",
            title="TCP throughput",
            short="TCP",
            definition="Payload bits per second at the receiver. iperf3 takes the mean of a whole test. Where VPNs "
            "take turns, each slice of a transfer is measured between two marks, and the value is the mean of the "
            "middle half of the slices. Both directions at once are added. With the factor transfer, one whole test "
            "ends with the thesis' file: 37.9 MB of random bytes, or 136 MB of zeros; iperf3 sees its end within 0.1 "
            "s, so the value of a short test is a lower bound.",
            source="RFC 6349 §2.3 (TCP throughput); thesis §3.4; §3.5.1, parameter 3 (the files)",
            limited=True,
        ),
        Metric(
            name="cpu_per_gigabyte",
            title="CPU cost",
            short="CPU",
            unit="s/GB",
            better="lower",
            definition="CPU seconds (user, system, interrupt, softirq) of all machines of the lab per 10^9 payload "
            "bytes received, during the TCP test. Of machines of their own, what they spent before without a test is "
            "taken off.",
            source="proc_stat(5); includes the hosts' generators where the lab's nodes share one kernel",
            secondary=True,
        ),
        bit_rate(
            name="throughput_per_core",
            title="Throughput per busy core",
            definition="Payload bits received per CPU second during the TCP test: the rate that one fully busy core "
            "carries.",
            source="proc_stat(5); the inverse of cpu_per_gigabyte, so that a ranking should count one of the two",
            secondary=True,
        ),
        Metric(
            name="context_switches_per_packet",
            title="Context switches per packet",
            unit="/packet",
            better="lower",
            definition="Context switches of all machines of the lab per 1448 payload bytes received (one full-size "
            "packet), during the TCP test. The detail has those of the VPN's daemons alone.",
            source="proc_stat(5), ctxt; the thesis explains its ranking by them",
            secondary=True,
        ),
        Metric(
            name="memory_bytes",
            title="Memory of the daemons",
            unit="B",
            better="lower",
            definition="Proportional set size of the VPN's daemons on both gateways, after the TCP test. The kernel's "
            "own memory is not counted, so that a tunnel in the kernel without a daemon has 0.",
            source="proc_pid_smaps(5), smaps_rollup, Pss",
            aside="memory depends on what else runs",  # of a shared page, its part (PSS)
            secondary=True,
        ),
        Metric(
            name="wire_bytes_per_payload_byte",
            title="WAN bytes per payload byte",
            unit="byte/byte",
            better="lower",
            definition="Bytes of IP on the WAN in both directions, for each payload byte that the receiver of the TCP "
            "test gets. It includes headers, encapsulation, acknowledgements and retransmissions. Compression makes "
            "it smaller.",
            source="RFC 2647 §3.17 (goodput) against the WAN port's counters, tc(8) -statistics",
            secondary=True,
        ),
    )
    inner_ipv6 = True
    full_load = True

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0 and "transfer" not in params

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if "transfer" in params and params["payload"] not in FILE_BYTES:
            return Unsupported(f"the thesis has no file of {params['payload']}, only of {' and '.join(FILE_BYTES)}")
        no = (
            congestion.control_refusal((lab.host1, lab.host2), params["congestion"]) if "congestion" in params else None
        )
        return no or super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        if "transfer" in params:
            return 8 * FILE_BYTES.get(params["payload"], 0) / EXPECTED_BPS
        return WARM_S + profile.slice_s + 0.07 if profile.rounds else profile.duration_s + 0.05

    def again(self, params: Mapping[str, str]) -> tuple[Position, ...]:
        return ("between", "last") if params.items() >= TCP.items() else ()

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        params = asked.params
        if self.takes_turns(params, asked.profile):
            return (yield from slices(bench, params, asked.profile.slice_s))
        how, limits = (int(params["streams"]), params["direction"], params["payload"]), Limits()
        file_bytes = FILE_BYTES[params["payload"]] if "transfer" in params else 0
        rest = limits.watch(bench), file_bytes, params.get("congestion", "")
        with fitting(bench):
            measured = tcp(bench.lab, bench.address, asked.profile.duration_s, *how, *rest)
        return (yield from whole(limits.add_loads(bench, measured)))
