"""What a packet on the WAN is made of: the names of its layers, as trials keep them."""

from __future__ import annotations

# The layers' names; those of no length are left out.
OUTER, HEADER, IV = "outer IPv4", "VPN's header", "IV or packet number"  # beside "UDP" and "TCP"
INSIDE = "header within"  # of what is carried in the VPN: GRE, VXLAN, L2TP, Ethernet
INNER, PADDING, TAG = "inner packet", "padding and trailer", "tag or MAC"
Layers = dict[str, int]  # name -> bytes
AGREE_BYTES = 0.5  # a packet: at most a frame that only one of counters and capture has seen


def overhead_of(layers: Layers) -> int:
    """How many bytes the outer packets are longer than the inner one."""
    return sum(layers.values()) - layers[INNER]
