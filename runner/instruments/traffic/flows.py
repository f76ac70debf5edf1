"""Many TCP streams at once: what they reach together, and how fairly they share it (Jain's index)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runner.data.errors import MeasurementError
from runner.instruments.result import Measured, measurement
from runner.instruments.traffic.iperf import iperf3
from runner.instruments.traffic.tcp import check_duration
from runner.lab.site_to_site import Lab


def flows(lab: Lab, address: str, duration_s: int, streams: int) -> Measured:
    """Throughput of ``streams`` parallel TCP streams from host1 to host2, together, and their fairness.

    ``duration_s``: whole seconds. A stream that got nothing counts as unfairness. Raises MeasurementError where
    nothing arrived, or iperf3 did not start as many streams.
    """
    started = time.monotonic()
    report = iperf3(lab, address, duration_s, *(("--parallel", str(streams)) if streams > 1 else ()))
    check_duration(report, duration_s)
    rates = [one["receiver"]["bits_per_second"] for one in report["end"]["streams"]]
    if len(rates) != streams:
        raise MeasurementError(f"iperf3 reports {len(rates)} streams, not {streams}")
    if not any(rates):
        raise MeasurementError("iperf3 sent, and nothing was received")
    detail = {"slowest_bps": min(rates), "fastest_bps": max(rates), "idle_streams": rates.count(0)}
    return Measured(
        [
            measurement("flows_throughput", report["end"]["sum_received"]["bits_per_second"], **detail),
            measurement("fairness", jain(rates), [float(rate) for rate in rates]),
        ],
        time.monotonic() - started,
    )


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index: (sum of rates)² over n times the sum of their squares; 1/n to 1."""
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))
