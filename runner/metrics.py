"""Every metric: its unit, which way is better, its definition, and where the definition comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One quantity that a trial can measure. ``unit`` is SI; ``better`` says which way a VPN wins;
    ``transport`` is the traffic of the trials that measure it."""

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    definition: str
    source: str
    transport: Literal["tcp", "udp", "idle"]


METRICS: dict[str, Metric] = {
    m.name: m
    for m in [
        Metric(
            "tcp_throughput",
            "TCP throughput",
            "bit/s",
            "higher",
            "Payload bits per second that the receiving iperf3 got over the whole test.",
            "RFC 6349 §2.3 (TCP throughput); thesis §3.4",
            "tcp",
        ),
        Metric(
            "udp_throughput",
            "UDP throughput",
            "bit/s",
            "higher",
            "Highest offered rate (UDP payload bits per second) whose mean loss ratio stays below 1 %.",
            "RFC 2544 §26.1 with the thesis' loss bound (§3.5.1)",
            "udp",
        ),
        Metric(
            "rtt",
            "Round-trip time",
            "ms",
            "lower",
            "Median time of a one-byte request and its one-byte answer between the hosts, over one "
            "established TCP connection with TCP_NODELAY, tunnel otherwise idle. The same exchange for "
            "every VPN, so that those which carry TCP only can be compared.",
            "RFC 2681 (round-trip delay), with a TCP exchange as the Type-P",
            "idle",
        ),
        Metric(
            "jitter",
            "Jitter",
            "ms",
            "lower",
            "Smoothed interarrival jitter of a 1 Mbit/s UDP stream, as its receiver computes it.",
            "RFC 3550 §6.4.1",
            "udp",
        ),
        Metric(
            "setup_time",
            "Tunnel set-up time",
            "s",
            "lower",
            "From the first command on a gateway to the first payload delivered at the far host and "
            "answered; both gateways cold, daemons not running, keys and files already in place.",
            "after draft-ietf-bmwg-ipsec-term (tunnel set-up rate), seen by the hosts",
            "idle",
        ),
        Metric(
            "cpu_per_gigabyte",
            "CPU cost",
            "s/GB",
            "lower",
            "CPU seconds (user, system, interrupt, softirq) of all machines of the lab per 10^9 payload "
            "bytes received, during the TCP test.",
            "proc_stat(5); includes the hosts' generators where the lab's nodes share one kernel",
            "tcp",
        ),
    ]
}
