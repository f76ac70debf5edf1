"""Latency, idle and under load: what a call or a shell feels while somebody uploads a file."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="latency",
    question="How long does a VPN let a packet wait, idle and while a transfer fills the tunnel?",
    method="AES-128-CBC without compression, or the nearest a VPN has. The same one-byte exchange over TCP on the "
    "idle tunnel, beside one TCP stream as fast as it goes, and beside one at half of that rate; medians, the "
    "percentiles with them. Datagrams on the idle tunnel by irtt, where the VPN carries them. System calls of the "
    "daemons are counted during the load.",
    source="RFC 2681 §4.1 (percentiles of round-trip delay); draft-ietf-ippm-responsiveness §4 (working conditions)",
    metrics=("rtt", "rtt_loaded", "udp_rtt", "syscalls_per_packet", "setup_time"),
    traffic=(measuring("idle"), measuring("loaded")),
    vary_traffic={"load": ("full", "half")},
)
