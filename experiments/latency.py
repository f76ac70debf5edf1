"""Latency, idle and under load: what a call or a shell feels while somebody uploads a file."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="latency",
    question="How long does a packet wait in a VPN, in an idle tunnel and while a transfer fills the tunnel?",
    method="All VPNs use AES-128-CBC without compression, or the nearest that they have. vpneval exchanges one "
    "byte over TCP in the idle tunnel, beside a TCP stream at full speed, and beside one at half of that "
    "rate, and reports medians with percentiles. irtt sends datagrams through the idle tunnel of VPNs "
    "that carry them. The daemons' system calls are counted during the load.",
    source="RFC 2681 §4.1 (percentiles of round-trip delay); draft-ietf-ippm-responsiveness §4 (working conditions)",
    metrics=("rtt", "rtt_loaded", "udp_rtt", "syscalls_per_packet", "setup_time"),
    traffic=(measuring("idle"), measuring("loaded")),
    vary_traffic={"load": ("full", "half")},
)
