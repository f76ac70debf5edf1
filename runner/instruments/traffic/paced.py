"""What a byte costs at one rate that the tunnel carries: at full load cost is only the inverse of speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import machines
from runner.instruments.tools.visits import WARM_S, visits
from runner.instruments.traffic.ladder import CARRIED
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

NOT_COUNTED = "this machine does not count the CPU time of a gateway's processes (cgroups(7))"

HIDDEN = (
    "the gateways spent less CPU time than they do without a test, so that the cost cannot be told: measure for "
    "longer (--duration), or at a higher rate (paced_bps)"
)


def visit(bench: Bench, rate_bps: float, slice_s: float) -> dict[str, float]:
    """One slice of TCP at this rate: its cost, and the share of the rate that came through. Raises MeasurementError."""
    via, before_s = visits(bench), gateways_s(bench.lab)
    transfer = via.tcp(slice_s, rate_bps=rate_bps)
    after_s = gateways_s(bench.lab)
    if before_s is None or after_s is None:
        raise MeasurementError(NOT_COUNTED)
    if after_s < before_s:
        raise MeasurementError(HIDDEN)
    return {
        "paced_cpu": (after_s - before_s) / (transfer["carried_bytes"] / 1e9),
        "carried_ratio": 8 * transfer["bytes"] / transfer["seconds"] / rate_bps,
    }


def gateways_s(lab: Lab) -> float | None:
    """CPU seconds of the gateways so far: of their processes where the nodes share a kernel, so that nothing of what
    else runs on the machine counts; else of the machines. None where nobody counts them."""
    if not lab.shared_kernel:
        return sum(machines(lab).cpu_s.values())
    by_node = [lab.gateway(site).cpu_s() for site in lab.sites]
    known = [seconds for seconds in by_node if seconds is not None]
    return sum(known) if len(known) == len(by_node) else None


class Paced(Instrument):
    """TCP at one rate, and its cost."""

    name = "paced"
    factors = {
        "paced_bps": Levels(
            ("100000000",),
            (1_000_000, 10**11),
            default="100000000",
            told=lambda level: f"at {int(level) / 1e6:g} Mbit/s",
        )
    }
    metrics = (
        Metric(
            name="paced_cpu",
            title="CPU cost at a rate",
            short="CPU at a rate",
            unit="s/GB",
            better="lower",
            definition="CPU seconds of both gateways' processes per 10^9 payload bytes, while one TCP stream is paced "
            "at a rate (factor paced_bps, by default 100 Mbit/s). The kernel's work counts as far as a process of a "
            "gateway does it, so that a tunnel in the kernel costs nearly nothing. On machines of their own, all CPU "
            "time of the gateways. The trial warns where less than 95 % of the rate comes through.",
            source="cgroups(7), proc_stat(5); after RFC 8219 §5 (fixed loads)",
        ),
    )

    retired = (
        Metric(
            name="gateway_cpu_per_gigabyte",
            title="CPU cost of the gateways",
            short="CPU",
            unit="s/GB",
            better="lower",
            definition="As paced_cpu, at a rate that every VPN carries (factor cost_rate_bps).",
            source="cgroups(7), proc_stat(5); after RFC 8219 §5 (fixed loads)",
        ),
    )

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return WARM_S + (profile.slice_s if profile.rounds else profile.duration_s) + 0.07

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return Unsupported(NOT_COUNTED) if gateways_s(lab) is None else super().refuses(lab, vpn, params)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        profile, rate_bps = asked.profile, float(asked.params["paced_bps"])
        go, found = Go.ON, list[dict[str, float]]()
        while go is Go.ON:
            found.append(visit(bench, rate_bps, profile.slice_s if profile.rounds else profile.duration_s))
            go = yield found[-1]
            if not profile.rounds:
                break
        cost, carried = (statistics.median(each[name] for each in found) for name in ("paced_cpu", "carried_ratio"))
        measured = Measured([measurement("paced_cpu", cost, carried_ratio=carried)])
        if carried < CARRIED:
            measured.warnings.append(f"only {carried:.0%} of {rate_bps / 1e6:g} Mbit/s came through")
        return measured
