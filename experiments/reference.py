"""Plain IP and IPIP beside the VPNs: what encapsulation costs, and what encryption adds."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="reference",
    question="What does a VPN cost against plain IP, and how much of that is encapsulation?",
    method="vpneval measures one TCP stream with random payload through each VPN at AES-128-CBC without "
    "compression, or the nearest that it has, and through plain IP and IPIP.",
    source="thesis §4.1, figure 16",
    metrics=("tcp_throughput", "cpu_per_gigabyte"),
    traffic=(measuring("tcp"),),
)
