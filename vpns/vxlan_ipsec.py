"""VXLAN (RFC 7348) in IPsec transport mode: Ethernet between the gateways, ESP protects its UDP port 4789.

The LANs are routed through it. Source: ip-link(8) VXLAN Type Support.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.lab.node import Node
from runner.lab.shape.site import Site, pair_number
from runner.vpn import closed_form
from runner.vpn.declared import Declared
from vpns._links import kernel_link
from vpns._xfrm import only_protected
from vpns.ipsec import Ipsec

PORT = "4789"


class VxlanIpsec(Ipsec):
    title = "VXLAN in IPsec (strongSwan, kernel)"
    versions = {}
    sign = replace(Ipsec.sign, link="vxlan", esp="esp transport")
    speaks = ""
    modules = "esp4 vxlan"
    data_path = "kernel: VXLAN in ESP"
    mode = "TRANSPORT"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        # The last network identifier there is: the kernel refuses one that a tunnel has already.
        words = ("vxlan", "id", "16777215", "dstport", PORT)
        return super().supports(node, params) or kernel_link(node, "VXLAN", *words)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], vxlan=True)

    def selectors(self, me: Site, peer: Site, params: Params) -> str:
        port = f"dynamic[udp/{PORT}]"
        return f"mode = transport\n                local_ts = {port}\n                remote_ts = {port}"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        only_protected(node, "proto", "udp", "dport", PORT)
        for peer in peers:
            number = pair_number(me, peer)
            tunnel = f"vxlan{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address, "dstport", PORT)
            # One source port, so that one pair of policies has it all; inside ESP no router could hash it anyway.
            ports = ("srcport", PORT, str(int(PORT) + 1))
            # 1400 leaves room for Ethernet, VXLAN, UDP and for ESP with any cipher of the sweep within 1500.
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "link", "add", tunnel, "mtu", "1400", "type", "vxlan", "id", str(number + 1), *ends, *ports)
            # An IPv6 router solicitation would spring the trap before the peer is ready.
            node.run("sysctl", "-qw", f"net.ipv6.conf.{tunnel}.disable_ipv6=1", check=False)
        super().start(node, me, peers, params)
        for peer in peers:
            number = pair_number(me, peer)
            node.run("ip", "addr", "add", f"10.9.{number}.{me.number}/24", "dev", f"vxlan{peer.number}")
            node.run("ip", "link", "set", f"vxlan{peer.number}", "up")
            node.run("ip", "route", "add", peer.lan, "via", f"10.9.{number}.{peer.number}", "src", me.lan_address)


VxlanIpsec.declared = Declared(
    replace(
        Ipsec.declared.security, specification="IKEv2 (RFC 7296), VXLAN (RFC 7348) in ESP transport mode (RFC 4303)"
    ),
    replace(
        Ipsec.declared.abilities,
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        roaming=False,  # VXLAN is between two addresses here, and MOBIKE is for tunnel mode (RFC 4555)
        routes="configuration",
        modes=("transport",),
    ),
)
