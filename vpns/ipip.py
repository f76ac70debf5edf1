"""IP in IP (RFC 2003): encapsulation without encryption, the thesis' second reference (§4.1)."""

from collections.abc import Sequence

from runner.data.errors import Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn import closed_form
from runner.vpn.declared import WITH_LINUX, Abilities, Declared, Security
from runner.vpn.plugin import Offers, Vpn
from runner.vpn.sign import Sign
from vpns._links import kernel_link


class IpIp(Vpn):
    title = "IPIP"
    sign = Sign(link="ipip")
    dataplane = "kernel"
    modules = "ipip"
    transport = "ipip"
    reference = True
    offers = Offers(limits={"cipher": "IPIP does not encrypt", "compression": "IPIP does not compress"})
    comparable = NO_CIPHER
    recommended = NO_CIPHER

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_link(node, "IPIP", "ipip", "remote", "192.0.2.1")

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.ipip(inner_bytes)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            tunnel = f"ipip{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address)
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "link", "add", tunnel, "type", "ipip", *ends, "ttl", "64")
            node.run("ip", "link", "set", tunnel, "up")
            node.run("ip", "route", "add", peer.lan, "dev", tunnel, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence(cipher="none", integrity="none", compression="off", data_path="kernel: ipip")


IpIp.declared = Declared(
    Security(
        protocol="standard",
        specification="RFC 2003",
        authentication=("none",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=WITH_LINUX,
        sources=("https://www.ietf.org/rfc/rfc2003.html (Proposed Standard, October 1996)",),
        as_of="2026-11-21",
        known_breaks=("no protection at all: anybody on the way can read, change and inject packets",),
    ),
    Abilities(
        inner=("IPv4", "multicast"),  # IPv6 in IPv4 is another protocol (sit, RFC 4213)
        outer=("IPv4",),
        nat=False,
        tcp_443=False,
        roaming=False,
        routes="operator",
        mesh=True,
        mesh_how="a tunnel for each peer",
    ),
)
