"""Does the packet generator find the same UDP throughput as iperf3 by the thesis' search?"""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="udp_engines",
    question="Do the short trials of the packet generator find the UDP throughput that iperf3 finds?",
    method="The generator's trials of the profile, in turns; beside them one loss-bounded binary search by iperf3, "
    "with three trials of a second at each rate. Both through the same kind of tunnel, with the same payload.",
    source="thesis §3.5.1 (iperf, ten trials at each rate); docs/search.md",
    metrics=("udp_throughput",),
    traffic=(measuring("udp"), measuring("udp", search="iperf3")),
    keep=("search",),
)
