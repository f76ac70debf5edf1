"""TCP through tunnels that are UDP, TCP or bare IP, while the WAN loses packets: the OSLV paper's TCP stacking."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="wan",
    question="What does a WAN with delay and loss do to TCP inside a tunnel, and is TCP in TCP as bad as is said?",
    method="One TCP stream and the idle tunnel, through a WAN of 20 Mbit/s and 50 ms round trip that loses 0 to 3 % of "
    "the packets each way, at AES-128-CBC or the nearest. SSH and OpenVPN over TCP stack TCP on TCP; SSH port "
    "forwarding does not, it ends the inner connection at the gateway. --set wan=lte and others give other WANs.",
    source='OSLV paper, "Bandwidth Utilization"; RFC 8229 §12.1 (TCP-in-TCP)',
    metrics=("tcp_throughput", "rtt"),
    traffic=(measuring("tcp"), measuring("idle")),
    underlay={"wan_rate_bps": "20000000", "wan_delay_ms": "25"},
    vary={"wan_loss_ratio": ("0", "0.001", "0.01", "0.03")},
)
