"""Metrics of packets: how many in a second, how long they may be, and what a tunnel adds to them."""

from runner.data.metrics.metric import Metric

PACKETS = [
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
        "RFC 4303 §2, whitepaper of WireGuard §5.4.6, RFC 4253 §6 (see runner/vpn/closed_form.py)",
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
]
