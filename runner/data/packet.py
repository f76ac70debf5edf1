"""What a packet on the WAN is made of: the names of its layers, as trials keep them."""

from __future__ import annotations

# The layers' names; those of no length are left out.
OUTER, HEADER, IV = "outer IPv4", "VPN's header", "IV or packet number"  # beside "UDP" and "TCP"
OUTER_IPV6, LONGER_BYTES = "outer IPv6", 20  # than IPv4's header, without options (RFC 8200 §3, RFC 791 §3.1)
INSIDE = "header within"  # of what is carried in the VPN: GRE, VXLAN, L2TP, Ethernet
INNER, PADDING, TAG = "inner packet", "padding and trailer", "tag or MAC"
Layers = dict[str, int]  # name -> bytes
AGREE_BYTES = 0.5  # a packet: at most a frame that only one of counters and capture has seen


def over_ipv6(layers: Layers) -> Layers:
    """The same packet where the gateways' addresses are of IPv6. What bears no outer header stays as it is."""
    named = {OUTER_IPV6: layers[OUTER] + LONGER_BYTES} if OUTER in layers else {}
    return named | {layer: length for layer, length in layers.items() if layer != OUTER}


def overhead_of(layers: Layers) -> int:
    """How many bytes the outer packets are longer than the inner one."""
    return sum(layers.values()) - layers[INNER]
