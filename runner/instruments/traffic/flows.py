"""Many TCP streams at once: what they reach together, and how fairly they share it (Jain's index)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from runner.data.errors import MeasurementError
from runner.data.metric import bit_rate, share
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.factors import STREAMS
from runner.instruments.tools.fragments import fitting
from runner.instruments.tools.iperf import iperf3
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.traffic.tcp import check_duration
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench


def flows(
    lab: Lab, address: str, duration_s: int, streams: int, around: AbstractContextManager[Piece] | None = None
) -> Measured:
    """Throughput of ``streams`` parallel TCP streams from host1 to host2, together, and their fairness.

    ``duration_s``: whole seconds. ``around``: what watches the transfer. A stream that got nothing counts as
    unfairness. Raises MeasurementError where nothing arrived, or iperf3 did not start as many streams.
    """
    with around or nullcontext(Piece(0)) as piece:
        report = iperf3(lab, address, duration_s, *(("--parallel", str(streams)) if streams > 1 else ()))
        piece.carried_bytes = report["end"]["sum_received"]["bytes"]
    check_duration(report, duration_s)
    rates = [stream["receiver"]["bits_per_second"] for stream in report["end"]["streams"]]
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
    )


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index: (sum of rates)² over n times the sum of their squares; 1/n to 1."""
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))


class Flows(Whole):
    """Parallel TCP streams, and how they share the tunnel."""

    name = "flows"
    factors = {"streams": STREAMS}
    metrics = (
        bit_rate(
            name="flows_throughput",
            title="Throughput of parallel flows",
            definition="Payload bits per second that the receiver gets from all parallel TCP streams together.",
            source="RFC 6349 §2.3; thesis §6.2 (loading the gateways with multiple requests)",
            limited=True,
        ),
        share(
            name="fairness",
            title="Fairness between flows",
            better="higher",
            definition="Jain's fairness index of the parallel streams' rates. It is 1 if all streams have the same "
            "rate, and 1/n if one of n streams has everything.",
            source="Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301 (1984)",
        ),
    )

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 0.3 + profile.duration_s

    def once(self, bench: Bench, asked: Asked) -> Measured:
        limits, streams = Limits(), int(asked.params["streams"])
        with fitting(bench):
            measured = flows(bench.lab, bench.address, asked.profile.duration_s, streams, limits.watch(bench))
        return limits.add_loads(bench, measured)
