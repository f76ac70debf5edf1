"""GRE in IPsec transport mode: GRE (RFC 2784) carries the LANs, ESP protects GRE (IP protocol 47)."""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn import closed_form
from runner.vpn.declared import Declared
from vpns._xfrm import never_bare
from vpns.gre import kernel_gre
from vpns.ipsec import Ipsec


class GreIpsec(Ipsec):
    title = "GRE in IPsec (strongSwan, kernel)"
    versions = {}
    sign = replace(Ipsec.sign, link="gre", esp="esp transport")
    speaks = ""
    modules = "esp4 ip_gre"
    data_path = "kernel: GRE in ESP"
    mode = "TRANSPORT"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_gre(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], gre=True)

    def selectors(self, me: Site, peer: Site, params: Params) -> str:
        return "mode = transport\n                local_ts = dynamic[gre]\n                remote_ts = dynamic[gre]"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        never_bare(node, "proto", "gre")
        for peer in peers:
            tunnel = f"gre{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address)
            # 1400 leaves room for GRE and for ESP with any cipher of the sweep within 1500.
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "link", "add", tunnel, "mtu", "1400", "type", "gre", *ends, "ttl", "64")
            # An IPv6 router solicitation would spring the trap before the peer is ready.
            node.run("sysctl", "-qw", f"net.ipv6.conf.{tunnel}.disable_ipv6=1", check=False)
        super().start(node, me, peers, params)
        for peer in peers:
            node.run("ip", "link", "set", f"gre{peer.number}", "up")
            node.run("ip", "route", "add", peer.lan, "dev", f"gre{peer.number}", "src", me.lan_address)


GreIpsec.declared = Declared(
    replace(Ipsec.declared.security, specification="IKEv2 (RFC 7296), GRE (RFC 2784) in ESP transport mode (RFC 4303)"),
    replace(
        Ipsec.declared.abilities,
        inner=("IPv4", "IPv6", "multicast"),
        roaming=False,  # GRE is between two addresses, and MOBIKE is for tunnel mode (RFC 4555)
        routes="configuration",
        modes=("transport",),
    ),
)
