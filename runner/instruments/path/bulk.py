"""Small packets beside one TCP stream on a slow line with a deep queue: how long they take, by the tunnel's own doing.

Through a tunnel that hands on what it gets, it is the line's queue that they wait in, as they do without a tunnel.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import numpy as np

from runner.data.errors import MeasurementError, Unsupported
from runner.data.metric import time_ms
from runner.instruments.instrument import Asked
from runner.instruments.path.policing import PORT, PROGRAM, RATE_BPS, lacks_tbf, slow_to_far
from runner.instruments.path.verdict import NoControl, PathProbe, PathVerdict
from runner.lab import probes
from runner.lab.node import LabNode
from runner.lab.shape.congestion import CUBIC
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

QUEUE_MS = 200.0
QUEUE_BYTES = int(RATE_BPS / 8 * QUEUE_MS / 1e3)
PER_S, PACKETS, BYTES = 50, 125, 200
FILL_S = 1.5  # until the queue is as long as CUBIC lets it become
LONG_MS = 0.3 * QUEUE_MS  # a queue that is used
LONGER = 1.5  # times as long as without a tunnel


def delays(node: LabNode, address: str) -> list[float]:
    """Round trips (ms) of echoes that are sent at their times, whether the one before was answered or not: the way back
    is free. Raises MeasurementError where less than half of them come back."""
    size = str(BYTES - (48 if ip_version(address) == 6 else 28))
    argv = ("ping", "-n", "-i", f"{1 / PER_S:g}", "-c", str(PACKETS), "-s", size, "-W", "3", address)
    done = node.run(*argv, check=False, timeout=PACKETS / PER_S + 30)
    found = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", done.stdout)]
    if len(found) < PACKETS / 2:
        raise MeasurementError(f"{len(found)} of {PACKETS} echoes came back to {node.name} beside the stream")
    return found


def beside_a_stream(node: LabNode, address: str) -> dict[str, float]:
    """The delays (ms) of small packets to ``address`` beside a stream that goes there: median and 99th percentile."""
    node.write(PROGRAM, probes.source("path"), mode=0o644)
    seconds = FILL_S + PACKETS / PER_S + 2
    stream = node.spawn("python3", "-IS", PROGRAM, "rate", address, f"{seconds:g}", "0", PORT, "send", log="bulk")
    try:
        time.sleep(FILL_S)
        used = node.run("ss", "-Htin", "state", "established", f"dport = :{PORT.partition('/')[2]}").stdout
        if CUBIC not in used.split():
            raise MeasurementError(
                f"the stream's congestion control is not {CUBIC}: {used.strip()[:200] or 'no stream'}"
            )
        found = delays(node, address)
        if not stream.alive():
            raise MeasurementError(f"the stream beside the small packets ended early: {node.read_log('bulk')[-200:]}")
    finally:
        stream.stop()
    p50, p99 = np.percentile(found, (50, 99))
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1), "answered": len(found)}


class Bulk(PathProbe):
    """50 small packets a second beside one CUBIC stream on 20 Mbit/s."""

    name = "bulk"
    metrics = (
        time_ms(
            name="beside_bulk_p50",
            title="Delay beside bulk, median",
            definition=f"The WAN carries {RATE_BPS / 1e6:g} Mbit/s to the far gateway and lets {QUEUE_MS:g} ms of it "
            f"wait. One TCP stream (CUBIC) fills it, and beside it {PER_S} packets a second of {BYTES} bytes are sent "
            "through the tunnel, at their times (open loop). The value is the median of their round trips.",
            source="RFC 7567 §1.2 (queues that are too long), RFC 9438 (CUBIC), RFC 2330 §11.1 (sampling)",
        ),
        time_ms(
            name="beside_bulk_p99",
            title="Delay beside bulk, 99th percentile",
            definition="As beside_bulk_p50, and the value is the 99th percentile.",
            source="RFC 7567 §1.2, RFC 2679 §5 (percentiles of delay)",
        ),
    )
    takes_s = 9.0

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return super().refuses(lab, vpn, params) or lacks_tbf(lab)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        with slow_to_far(bench.lab, QUEUE_BYTES) as (gateway, address):
            bare = beside_a_stream(gateway, address)
            if bare["p50_ms"] < LONG_MS:
                raise NoControl(f"without a tunnel, the stream filled a queue of {bare['p50_ms']:g} ms only")
            found = beside_a_stream(bench.lab.host1, bench.address)
        kinds = {name: "as_plain" if found[name] <= LONGER * bare[name] else "longer" for name in ("p50_ms", "p99_ms")}
        return {f"beside_bulk_{name[:3]}": PathVerdict(kind, found[name], bare, found) for name, kind in kinds.items()}
