"""Whether one build of a VPN is slower than another, or costs more CPU time for the same traffic."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="builds",
    question="Is one build of a VPN slower than another, or does it cost more CPU time at the same rate?",
    method="All builds use the same configuration and take turns. One TCP stream runs as fast as it goes, and then one "
    "at 100 Mbit/s, or at the rate of the factor paced_bps, while the CPU time is counted.",
    source="RFC 6349 §2.3 (TCP throughput); RFC 8219 §5 (fixed loads); cgroups(7)",
    metrics=("tcp_throughput", "paced_cpu"),
    traffic=(measuring("tcp"), measuring("paced")),
    base="recommended",
)
