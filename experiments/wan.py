"""TCP through tunnels that are UDP, TCP or bare IP, while the WAN loses packets: the OSLV paper's TCP stacking."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="wan",
    question="What does a WAN with delay and loss do to TCP inside a tunnel, and how bad is TCP in TCP?",
    method="TCP streams, one and eight at once, and the idle tunnel are measured at AES-128-CBC, or the nearest that "
    "the VPN has, through a WAN of 100 Mbit/s with a round trip of 10 and of 100 ms, that loses 0 to 1 % of the "
    "packets each way. A tunnel over TCP carries TCP in TCP. SSH port forwarding does not: it ends the inner "
    "connection at the gateway. `--duration 10` gives CUBIC the time that a loss of 0.01 % needs; `--set wan=lte` "
    "chooses another WAN.",
    source='OSLV paper, "Bandwidth Utilization"; RFC 8229 §12.1 (TCP-in-TCP)',
    metrics=("tcp_throughput", "rtt"),
    traffic=(measuring("tcp"), measuring("tcp", streams="8"), measuring("idle")),
    wan={"wan_rate_bps": "100000000"},
    vary={"wan_delay_ms": ("5", "50"), "wan_loss_ratio": ("0", "0.0001", "0.001", "0.01")},
)
