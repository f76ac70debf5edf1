"""What a VPN carries in UDP, by how its packets are offered: flows, bursts, a mixture of lengths."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="offered_load",
    question="Does it matter how the packets come: in how many flows, in which bursts, in which lengths, in IPv6, both "
    "ways?",
    method="UDP throughput as in `transport`, by one change at a time: 256 flows (16 source addresses, and ports), for "
    "VPNs and kernels that spread flows over cores; packets one by one, and 64 back to back, instead of at most 16; "
    "the customary mixture of seven packets of 40 bytes, four of 576 and one of the longest; the same payload "
    "in IPv6, through a tunnel that is configured for it, of the VPNs whose plugin can; both ways at once, whose rates "
    "are added. Then two changes: the mixture both ways, and IPv6 both ways. Packets of 1024 bytes go both ways as in "
    "the router paper: a search of 3 s finds their highest rate, both directions added.",
    source="RFC 2544 §26.1; RFC 2889 §5.4.2 (bursts); RFC 6985 (names of mixtures); the router paper §VI (both ways)",
    metrics=("udp_throughput", "udp_goodput", "packet_rate_both_ways", "forwarded_share"),
    traffic=(
        measuring("udp"),
        measuring("udp", flows="256"),
        measuring("udp", burst_packets="1"),
        measuring("udp", burst_packets="64"),
        measuring("udp", lengths="imix"),
        measuring("udp", inner="6"),
        measuring("udp", ways="both"),
        measuring("udp", lengths="imix", ways="both"),
        measuring("udp", inner="6", ways="both"),
        measuring("duplex", packet_bytes="1024"),
    ),
)
