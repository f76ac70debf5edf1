"""What a gateway pays for a gigabyte at a rate that every VPN carries: CPU time during a paced TCP transfer.

At full load on shared cores the cost of a byte is only the inverse of the throughput. At one rate for all VPNs, well
below the slowest one's, cost and speed are measured apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.data.slices import middle_mean
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import machines
from runner.instruments.tools.visits import WARM_S, visits
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

SLICE_S = 0.2
REACHED = 0.9  # of the rate: who carries less does not carry it
COST_RATE, LOWEST_BPS, USUAL_BPS = "cost_rate_bps", 100_000, 20_000_000
WHOLE_S = 2.0  # of a transfer that is not cut into slices


class Paced(Instrument):
    """A paced TCP transfer, and the CPU time of the gateways meanwhile."""

    name = "paced"
    factors = {COST_RATE: Levels(("5000000", f"{USUAL_BPS}", "100000000"), (LOWEST_BPS, 10**11), f"{USUAL_BPS}")}
    metrics = (
        Metric(
            name="gateway_cpu_per_gigabyte",
            title="CPU cost of the gateways",
            unit="s/GB",
            better="lower",
            definition="One TCP stream runs at a fixed rate that every VPN carries (factor cost_rate_bps). The value "
            "is the CPU time of both gateways per 10^9 payload bytes. Gateways that share a kernel: the CPU time of "
            "their processes, from their control groups. The kernel charges its work on a packet to the process that "
            "sends it. So a VPN in the kernel is charged with the whole lab. Gateways that are machines of their own: "
            "all CPU time of both machines.",
            source="cgroups(7), cpuacct.usage; proc_stat(5); after RFC 8219 §5 (fixed load)",
        ),
    )

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.shared_kernel and lab.host1.cpu_s() is None:
            return Unsupported("this machine has no control groups that count CPU time (cgroups(7))")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return WARM_S + (SLICE_S if profile.rounds else WHOLE_S) + 0.05

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        rate_bps, started, go = float(asked.params[COST_RATE]), time.monotonic(), Go.ON
        in_kernel = asked.vpn.dataplane == "kernel"
        slice_s = SLICE_S if asked.profile.rounds else WHOLE_S
        costs, hosts = list[float](), list[float]()
        while go is Go.ON:
            via = visits(bench)
            before = spent_s(bench.lab, in_kernel)
            transfer = via.tcp(slice_s, rate_bps=rate_bps)
            after = spent_s(bench.lab, in_kernel)
            reached_bps = transfer["bytes"] * 8 / transfer["seconds"]
            if reached_bps < REACHED * rate_bps:
                raise MeasurementError(
                    f"it carried {reached_bps / 1e6:.3g} of {rate_bps / 1e6:.3g} Mbit/s. Give a --cost-rate that every "
                    "VPN carries: a tenth of the slowest one's TCP throughput"
                )
            gigabytes = transfer["carried_bytes"] / 1e9
            spent = [(now - then) / gigabytes for now, then in zip(after, before, strict=True)]
            costs, hosts = [*costs, spent[0]], [*hosts, spent[1]]
            go = yield {"gateway_cpu_per_gigabyte": spent[0], "hosts_cpu_per_gigabyte": spent[1]}
            go = go if asked.profile.rounds else Go.END
        of = "gateways" if not (in_kernel and bench.lab.shared_kernel) else "the whole lab"
        cost, of_hosts = middle_mean(costs), middle_mean(hosts)
        result = measurement("gateway_cpu_per_gigabyte", cost, of=of, rate_bps=rate_bps, hosts=of_hosts)
        return Measured([result], time.monotonic() - started)


def spent_s(lab: Lab, in_kernel: bool) -> tuple[float, float]:
    """CPU seconds so far: what the VPN is charged with, and what the hosts have spent. Raises MeasurementError."""
    if not lab.shared_kernel:
        return sum(machines(lab)[0].values()), 0.0
    by_node = {name: node.cpu_s() for name, node in lab.nodes.items()}
    known = {name: seconds for name, seconds in by_node.items() if seconds is not None}
    if len(known) < len(by_node):
        raise MeasurementError("a node's control group is gone: CPU time cannot be counted")
    gateways = {site.name for site in lab.sites}
    hosts = sum(seconds for name, seconds in known.items() if name.startswith("host"))
    return sum(s for name, s in known.items() if in_kernel or name in gateways), hosts
