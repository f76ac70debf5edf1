"""OpenVPN with TAP: as openvpn, but the tunnel is an Ethernet between the gateways. It carries any protocol.

The sites stay networks of their own, with routes over that Ethernet; bridging them would need nothing but a bridge.
Each packet is 14 bytes longer than with TUN. Source: openvpn(8) 2.6, --dev.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.declared import Declared
from runner.vpn.plugin import Secrets
from vpns.openvpn import OpenVpn


class OpenVpnTap(OpenVpn):
    title = "OpenVPN (UDP, TAP)"
    sign = replace(OpenVpn.sign, marks=(r"^dev(-type)? tap",))
    speaks = ""
    device = "tap"
    devices = "tap{peer.number}"
    hub_and_spokes = False

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = super().render(me, peers, params, secrets)
        for peer in peers:
            path = f"/etc/openvpn/{peer.name}.conf"
            tunnel = files[path].partition("\nifconfig ")[2].partition("\n")[0]
            mine, theirs = tunnel.split()
            files[path] = (
                files[path]
                .replace("topology p2p\n", "")
                .replace(f"ifconfig {tunnel}\n", f"ifconfig {mine} 255.255.255.0\nroute-gateway {theirs}\n")
            )
        return files

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        evidence = super().evidence(node, me, peers, params)
        return evidence.model_copy(update={"data_path": evidence.data_path.replace("TUN", "TAP")})


OpenVpnTap.declared = Declared(
    OpenVpn.declared.security,
    replace(OpenVpn.declared.abilities, inner=("IPv4", "IPv6", "Ethernet", "multicast")),
)
