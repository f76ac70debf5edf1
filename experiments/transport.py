"""The thesis' first sweep: TCP against UDP inside the tunnel."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="transport",
    question="Does the transport protocol of the traffic change a VPN's throughput?",
    method="All VPNs use AES-128-CBC without compression, or the nearest that they have. TCP: payload that "
    "arrives, with one and with four streams, in both directions. UDP: the highest offered rate that "
    "loses less than 1 %, in the mean of long trials or in the median of short ones, as the profile says. "
    "Idle tunnel: round-trip time and set-up time.",
    source="thesis §3.5.1, parameter 1; figures 17 and 18",
    metrics=("tcp_throughput", "udp_throughput", "udp_goodput", "rtt", "jitter", "setup_time", "cpu_per_gigabyte"),
    traffic=(
        measuring("tcp"),
        measuring("tcp", direction="reverse"),
        measuring("tcp", streams="4"),
        measuring("udp"),
        measuring("idle"),
    ),
)
