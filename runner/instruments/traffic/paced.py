"""What a gateway pays for a gigabyte at a rate that every VPN carries: CPU time during a paced TCP transfer.

At full load on shared cores the cost of a byte is the throughput turned over: who is fast has less time to spend. At
one rate for all, well below the slowest, cost and speed are two things.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.traffic.cost import machines
from runner.instruments.traffic.visits import WARM_S, visits
from runner.lab.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

SLICE_S = 0.2
REACHED = 0.9  # of the rate: who carries less does not carry it
WHOLE_S = 2.0  # of a transfer that is not cut into slices


class Paced(Instrument):
    """A paced TCP transfer, and the CPU time of the gateways meanwhile."""

    name = "paced"
    factors = {"cost_rate_bps": Levels(("5000000", "20000000", "100000000"), (100_000, 10**11), "20000000")}
    metrics = (
        Metric(
            name="gateway_cpu_per_gigabyte",
            title="CPU cost of the gateways",
            unit="s/GB",
            better="lower",
            definition="CPU seconds of both gateways per 10^9 payload bytes, during one TCP stream that is paced at a "
            "rate which every VPN carries (factor cost_rate_bps). Gateways that share a kernel: of their processes, by "
            "their control groups; what the kernel does for a packet is charged to whoever sends it, so that a VPN in "
            "the kernel is charged with the whole lab. Gateways of their own: all CPU time of both machines.",
            source="cgroups(7), cpuacct.usage; proc_stat(5); after RFC 8219 §5 (fixed load)",
        ),
    )

    def takes_turns(self, profile: Profile) -> bool:
        return profile.rounds > 0

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if lab.shared_kernel and lab.host1.cpu_s() is None:
            return Unsupported("this machine has no control groups that count CPU time (cgroups(7))")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return WARM_S + (SLICE_S if profile.rounds else WHOLE_S) + 0.05

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        rate_bps, started, go = float(asked.params["cost_rate_bps"]), time.monotonic(), Go.ON
        in_kernel = asked.vpn.dataplane == "kernel"
        slice_s = SLICE_S if asked.profile.rounds else WHOLE_S
        cost = hosts = 0.0
        while go is Go.ON:
            via = visits(bench)
            before = spent_s(bench.lab, in_kernel)
            found = via.tcp(slice_s, rate_bps=rate_bps)
            after = spent_s(bench.lab, in_kernel)
            reached_bps = found["bytes"] * 8 / found["seconds"]
            if reached_bps < REACHED * rate_bps:
                raise MeasurementError(f"it carried {reached_bps / 1e6:.3g} of {rate_bps / 1e6:.3g} Mbit/s")
            gigabytes = found["carried_bytes"] / 1e9
            cost, hosts = ((now - then) / gigabytes for now, then in zip(after, before, strict=True))
            go = yield {"gateway_cpu_per_gigabyte": cost, "hosts_cpu_per_gigabyte": hosts}
            go = go if asked.profile.rounds else Go.END
        of = "gateways" if not (in_kernel and bench.lab.shared_kernel) else "the whole lab"
        result = measurement("gateway_cpu_per_gigabyte", cost, of=of, rate_bps=rate_bps, hosts=hosts)
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
