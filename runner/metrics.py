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
    transport: Literal[
        "tcp",
        "udp",
        "idle",
        "loaded",
        "download",
        "packets",
        "overhead",
        "mtu",
        "duplex",
        "flows",
        "rekey",
        "device",
        "security",
        "operations",
        "mesh",
        "recovery",
        "reroute",
        "failover",
    ]


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
            "outage_ms",
            "Outage",
            "ms",
            "lower",
            "How long one kind of failure keeps packets from coming through, by a stream of datagrams both ways: those "
            "lost, or too late by 400 ms, over their rate; the worse direction. No recovery in time is a lower bound.",
            "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
            "recovery",
        ),
        Metric(
            "convergence_ms",
            "Convergence time",
            "ms",
            "lower",
            "How long the tunnel's packets are lost when a link dies until routing has moved it to another path: "
            "datagrams lost or late by 400 ms, over their rate; the worse direction. "
            "No recovery in time is a lower bound.",
            "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
            "reroute",
        ),
        Metric(
            "handover_ms",
            "Handover time",
            "ms",
            "lower",
            "From the last tunnel packet that the failing gateway put on the WAN to the first of the one that takes "
            "over, by capture on the WAN; packets of the probe stream's length, "
            "so that negotiating a tunnel does not count.",
            "ClusterIP paper, Fig. 1b and Section VI; draft-ietf-bmwg-ipsec-term (tunnel failover time)",
            "failover",
        ),
        Metric(
            "failover_outage_ms",
            "Outage at failover",
            "ms",
            "lower",
            "How long the hosts' packets do not come through when one of two gateways fails: datagrams lost or late by "
            "400 ms, over their rate; the worse direction. No recovery in time is a lower bound.",
            "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold), RFC 6414 (protection)",
            "failover",
        ),
        Metric(
            "ha_download_s",
            "Download with a second gateway",
            "s",
            "lower",
            "Time for an HTTP download of 50 MB, as fast as it goes, while nothing fails, with or without a second "
            "gateway that stands by. CPU seconds by kind are in the detail.",
            "ClusterIP paper, Section VI (second test); curl(1), time_total; proc_stat(5)",
            "failover",
        ),
        Metric(
            "failover_download_s",
            "Download across a failover",
            "s",
            "lower",
            "Time for an HTTP download of 10 MB, paced at 2 MB/s, during which one of two gateways fails; without a "
            "failure it is 5.2 s. The ClusterIP paper's third test with its limit of 2 MB/s, scaled from 500 MB.",
            "ClusterIP paper, Section VI (third test); curl(1), time_total",
            "failover",
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
        Metric(
            "packet_rate_both_ways",
            "Packet rate, both ways",
            "packet/s",
            "higher",
            "Inner packets of one length per second, both directions at once and together: the highest offered rate "
            "whose mean loss ratio stays below 1 %, by a short search.",
            "the paper on the Quagga and strongSwan router, §VI (figure 6); RFC 2544 §26.1",
            "duplex",
        ),
        Metric(
            "forwarded_share",
            "Share forwarded under overload",
            "1",
            "higher",
            "Packets that arrived of those that were offered, both directions, when more is offered than the tunnel "
            "carries: the line rate of 1 Gbit/s each way, or what the generator can.",
            "the paper on the Quagga and strongSwan router, §VI; RFC 2285 §3.6.2 (rate at maximum offered load)",
            "duplex",
        ),
        Metric(
            "wan_packets_per_packet",
            "WAN packets per packet",
            "packet/packet",
            "lower",
            "Packets on the WAN per inner packet that arrived, at a rate that loses none. Where a packet and its "
            "encapsulation are longer than the WAN's MTU it is fragmented, and this doubles.",
            "the paper on the Quagga and strongSwan router, §VI; RFC 791 §3.2 (fragmentation)",
            "duplex",
        ),
        Metric(
            "flows_throughput",
            "Throughput of parallel flows",
            "bit/s",
            "higher",
            "Payload bits per second that all parallel TCP streams together delivered.",
            "RFC 6349 §2.3; thesis §6.2 (loading the gateways with multiple requests)",
            "flows",
        ),
        Metric(
            "fairness",
            "Fairness between flows",
            "1",
            "higher",
            "Jain's fairness index of the parallel streams' rates: 1 where all are equal, 1/n where one has all.",
            "Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301 (1984)",
            "flows",
        ),
        Metric(
            "rekey_loss",
            "Throughput lost at a rekey",
            "1",
            "lower",
            "One less the payload received in the second from a rekey on over that of the second before it, median of "
            "the trial's rekeys. Below 0 where the noise is larger than the loss.",
            "RFC 7296 §2.8 (rekeying); swanctl(8) --rekey",
            "rekey",
        ),
        Metric(
            "rekey_rtt",
            "Longest round trip at a rekey",
            "ms",
            "lower",
            "Longest of the round trips that began in the second from a rekey on, beside a TCP stream that fills the "
            "tunnel, median of the trial's rekeys. Those of the second before are in the detail.",
            "RFC 2681 (round-trip delay), RFC 7296 §2.8 (rekeying)",
            "rekey",
        ),
        Metric(
            "ssh_rate",
            "100 MB through ssh",
            "bit/s",
            "higher",
            "100 MB of zeros that dd makes on the gateway, through ssh to the near host without any VPN: 800 Mbit over "
            "the seconds elapsed, connection set-up included.",
            "the device page, Hardware performance; ssh_config(5) Ciphers",
            "device",
        ),
        Metric(
            "confidentiality",
            "Confidentiality",
            "1",
            "higher",
            "1 where no part of a random marker that went through the tunnel both ways was in the clear on the WAN, "
            "else 0.",
            "RFC 3552 §3.2.1 (confidentiality violations); OSLV paper, Table 4; docs/security.md",
            "security",
        ),
        Metric(
            "data_integrity",
            "Data integrity",
            "1",
            "higher",
            "1 where nothing altered was delivered when bits of the outer packets were flipped on the way, else 0.",
            "RFC 3552 §3.3.3 (message modification); OSLV paper, Table 4; docs/security.md",
            "security",
        ),
        Metric(
            "anti_replay",
            "Anti-replay",
            "1",
            "higher",
            "1 where every message was delivered once when its packets were sent again, at once and later, else 0.",
            "RFC 3552 §3.3.1 (replay attacks), RFC 4303 §3.4.3; OSLV paper, Table 4; docs/security.md",
            "security",
        ),
        Metric(
            "peer_authentication",
            "Refuses packets of strangers",
            "1",
            "higher",
            "1 where no packet that somebody without a key had made on the WAN was delivered to the far host, else 0.",
            "RFC 3552 §3.3.2 (message insertion); OSLV paper, Table 4; docs/security.md",
            "security",
        ),
        Metric(
            "key_authentication",
            "Refuses peers with other keys",
            "1",
            "higher",
            "1 where no payload came through with a peer that runs the same VPN with private keys of its own, at "
            "either end, else 0.",
            "RFC 3552 §3.3.5 (man-in-the-middle); OSLV paper, Table 4; docs/security.md",
            "security",
        ),
        Metric(
            "fail_closed",
            "Fails closed",
            "1",
            "higher",
            "1 where nothing between the sites was on the WAN in the clear while the peer was cut off, and after the "
            "VPN's processes on the near gateway were killed, else 0. The gateway has a default route to the WAN.",
            "RFC 4301 §5.1 (what matches no policy is discarded); docs/security.md",
            "security",
        ),
        Metric(
            "length_hiding",
            "Hides lengths",
            "1",
            "higher",
            "1 where the lengths of packets on the WAN do not follow those inside (correlation below 0.5), else 0.",
            "RFC 4303 §2.7 (traffic flow confidentiality padding), RFC 3552 §3.2.1; docs/security.md",
            "security",
        ),
        Metric(
            "content_hiding",
            "Lengths do not tell content",
            "1",
            "higher",
            "1 where repetitive content is as long on the WAN as random content (within 5 %), else 0.",
            "RFC 7457 §2.6 (CRIME); docs/security.md",
            "security",
        ),
        Metric(
            "declared_strength",
            "Declared strength",
            "1",
            "higher",
            "Points, 0 to 10, of what the plugin declares of its security at these levels, by the scale of that page; "
            "0 where a probe of confidentiality, integrity, replay or authentication failed.",
            "docs/security.md; runner/declared.py, with its sources",
            "security",
        ),
        Metric(
            "setup_files",
            "Files of a tunnel",
            "1",
            "lower",
            "Files that both gateways of a two-site tunnel need, keys and certificates included.",
            "OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "setup_lines",
            "Lines of a tunnel",
            "1",
            "lower",
            "Lines in those files that are not empty; a key or certificate is one.",
            "OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "setup_commands",
            "Commands of a tunnel",
            "1",
            "lower",
            "Commands on both gateways and where the keys are made, that set up a two-site tunnel; files not counted.",
            "OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "setup_secrets",
            "Secrets of a tunnel",
            "1",
            "lower",
            "Private keys, shared keys and passwords of a two-site tunnel.",
            "OSLV paper, Table 1 (set-up complexity), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "manual_routes",
            "Routes set by hand",
            "1",
            "lower",
            "Commands that set a route in the set-up of a two-site tunnel; a route in a configuration file is none.",
            "OSLV paper, Table 3 (routing), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "cipher_choice",
            "Ciphers by configuration",
            "1",
            "higher",
            "Ciphers of the sweep that other words in a file or a command give, without another program.",
            "OSLV paper, Table 2 (modularity), counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "scaling_effort",
            "Effort for a mesh of ten",
            "1",
            "lower",
            "N times (files touched + routes set + keys carried) when the N-th site joins a full mesh, for N = 10.",
            "OSLV paper, Table 5 (scalability), rendered and counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "scaling_lines",
            "Lines for the tenth site",
            "1",
            "lower",
            "Lines added, changed or removed at all sites when the tenth joins a full mesh.",
            "OSLV paper, Table 5 (scalability), rendered and counted; docs/operations.md",
            "operations",
        ),
        Metric(
            "mesh_time",
            "Time to a mesh of ten",
            "s",
            "lower",
            "From the first command on a gateway until every one of ten gateways has reached every other LAN through "
            "its tunnel; the gateways are started one after the other, keys and files being in place.",
            "OSLV paper, section Scalability; docs/operations.md",
            "mesh",
        ),
        Metric(
            "mesh_memory",
            "Memory per tunnel of a mesh of ten",
            "B",
            "lower",
            "Proportional set size of the VPN's processes on all ten gateways, over the 45 tunnels. The kernel's own "
            "memory is not counted.",
            "OSLV paper, section Scalability (N tunnels take N times the memory); proc_pid_smaps(5)",
            "mesh",
        ),
        Metric(
            "mesh_cpu",
            "CPU per tunnel of a mesh of ten",
            "s",
            "lower",
            "CPU seconds that the VPN's processes on all ten gateways had used when the mesh was up, over the 45 "
            "tunnels.",
            "OSLV paper, section Scalability (processing power); proc_pid_stat(5)",
            "mesh",
        ),
    ]
}
