"""Tailscale through its relay, DERP: as tailscale, but nothing passes between the gateways directly. Packets go in TLS
over TCP to the relay's port 443, and from there to the other gateway; they stay encrypted from gateway to gateway.
"""

from dataclasses import replace

from runner.vpn.declared import Declared
from vpns.tailscale import Tailscale


class TailscaleRelayed(Tailscale):
    title = "Tailscale (relayed)"
    sign = replace(Tailscale.sign, marks=(r"^socket tcp .*:443$",))
    transport = "tcp"
    ports = ""
    note = f"{Tailscale.note}; TCP inside the tunnel runs over TCP"
    relayed = True


TailscaleRelayed.declared = Declared(Tailscale.declared.security, Tailscale.declared.abilities)
