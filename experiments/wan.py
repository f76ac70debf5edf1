"""TCP through tunnels that are UDP, TCP or bare IP, while the WAN loses packets: the OSLV paper's TCP stacking."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="wan",
    question="What does a WAN with delay and loss do to TCP inside a tunnel, and how bad is TCP in TCP?",
    method="One TCP stream and the idle tunnel are measured at AES-128-CBC, or the nearest that the VPN has, "
    "through a WAN of 20 Mbit/s with a round trip of 50 ms that loses 0 to 3 % of the packets each way. "
    "SSH and OpenVPN over TCP carry TCP in TCP. SSH port forwarding does not: it ends the inner "
    "connection at the gateway. `--set wan=lte` chooses another WAN.",
    source='OSLV paper, "Bandwidth Utilization"; RFC 8229 §12.1 (TCP-in-TCP)',
    metrics=("tcp_throughput", "rtt"),
    traffic=(measuring("tcp"), measuring("idle")),
    underlay={"wan_rate_bps": "20000000", "wan_delay_ms": "25"},
    vary={"wan_loss_ratio": ("0", "0.001", "0.01", "0.03")},
)
