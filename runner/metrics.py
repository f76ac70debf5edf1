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
    transport: Literal["tcp", "udp", "idle", "loaded", "download", "packets", "overhead", "mtu"]


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
        Metric(
            "throughput_per_core",
            "Throughput per busy core",
            "bit/s",
            "higher",
            "Payload bits received per CPU second, during the TCP test: what one core, wholly busy with it, carries.",
            "proc_stat(5); the inverse of cpu_per_gigabyte, so that a ranking should count one of the two",
            "tcp",
        ),
        Metric(
            "context_switches_per_packet",
            "Context switches per packet",
            "/packet",
            "lower",
            "Context switches of all machines of the lab per 1448 payload bytes received (a full-size packet), "
            "during the TCP test; those of the VPN's daemons alone are in the detail.",
            "proc_stat(5), ctxt; the thesis explains its ranking by them",
            "tcp",
        ),
        Metric(
            "memory_bytes",
            "Memory of the daemons",
            "B",
            "lower",
            "Proportional set size of the VPN's daemons on both gateways, after the TCP test. A tunnel in the "
            "kernel without a daemon has 0; the kernel's own memory is not counted.",
            "proc_pid_smaps(5), smaps_rollup, Pss",
            "tcp",
        ),
        Metric(
            "udp_goodput",
            "UDP goodput",
            "bit/s",
            "higher",
            "UDP payload bits per second that came through the tunnel at the UDP throughput: what was received in "
            "the passing trial of the search that offered a rate nearest to it.",
            "RFC 2647 §3.17 (goodput), within RFC 2544 §26.1",
            "udp",
        ),
        Metric(
            "rtt_loaded",
            "Round-trip time under load",
            "ms",
            "lower",
            "Median time of the same exchange as for the round-trip time, while a TCP stream from the near host "
            "to the far one fills the tunnel, or half of it (factor load).",
            "RFC 2681 under working conditions, after draft-ietf-ippm-responsiveness",
            "loaded",
        ),
        Metric(
            "udp_rtt",
            "UDP round-trip time",
            "ms",
            "lower",
            "Median round-trip time of a datagram every 5 ms on the otherwise idle tunnel, by irtt; its delay "
            "variation and loss are in the detail. A second instrument beside the TCP exchange.",
            "RFC 2681 (round-trip delay), RFC 3393 (variation, of round trips); irtt-client(1)",
            "loaded",
        ),
        Metric(
            "syscalls_per_packet",
            "System calls per packet",
            "/packet",
            "lower",
            "System calls of the VPN's daemons on both gateways per 1448 bytes that arrive at the far host, while a "
            "TCP stream fills the tunnel. A tunnel in the kernel without a daemon has 0.",
            "perf-stat(1), tracepoint raw_syscalls:sys_enter; the thesis explains its ranking by them",
            "loaded",
        ),
        Metric(
            "download_time",
            "Download time",
            "s",
            "lower",
            "Time from the start of curl on the near host to the last byte of an incompressible file that nginx on "
            "the far host serves by HTTP, connection set-up included.",
            "curl(1) --write-out, time_total; RFC 9110 §9.3.1 (GET)",
            "download",
        ),
        Metric(
            "packet_rate",
            "Packet rate",
            "packet/s",
            "higher",
            "Highest offered rate of inner packets of one length whose mean loss ratio stays below 1 %, counted at the "
            "far host's interface, so that no program limits it. What comes late, out of a queue, is not counted.",
            "RFC 2544 §26.1 with the thesis' loss bound; RFC 2285 §3.6.1 (forwarding rate)",
            "packets",
        ),
        Metric(
            "packets_per_cpu_second",
            "Packets per CPU second",
            "packet/s",
            "higher",
            "Inner packets received per CPU second (user, system, interrupt, softirq) of the gateways, in the fastest "
            "trial of the search that passed; of the whole lab, generator and all, where its nodes share a kernel.",
            "proc_stat(5)",
            "packets",
        ),
        Metric(
            "overhead_bytes",
            "Overhead",
            "byte/packet",
            "lower",
            "How much longer an inner packet of one length is on the WAN: bytes of the outer IP packets, less those of "
            "the idle tunnel and of the inner packet. Near to far; Ethernet headers are on neither side.",
            "RFC 4303 §2, whitepaper of WireGuard §5.4.6, RFC 4253 §6 (see runner/closed_form.py)",
            "overhead",
        ),
        Metric(
            "path_mtu",
            "Path MTU",
            "byte",
            "higher",
            "Longest IPv4 packet with DF set that the far host answers through the tunnel.",
            "RFC 1191 §3 (path MTU), by ICMP echo",
            "mtu",
        ),
        Metric(
            "wire_bytes_per_payload_byte",
            "WAN bytes per payload byte",
            "byte/byte",
            "lower",
            "Bytes of IP on the WAN, both directions, per payload byte that the receiver of the TCP test got: headers, "
            "encapsulation, acknowledgements and retransmissions, less what compression saves.",
            "RFC 2647 §3.17 (goodput) against the WAN port's counters, tc(8) -statistics",
            "tcp",
        ),
    ]
}
