"""GRE (RFC 2784) between the gateways: encapsulation without encryption, the outer half of `gre_ipsec`."""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn import closed_form
from runner.vpn.declared import WITH_LINUX, Abilities, Declared, Security
from runner.vpn.plugin import Offers, Vpn
from runner.vpn.sign import Sign
from vpns._links import kernel_link


class Gre(Vpn):
    title = "GRE"
    sign = Sign(link="gre")
    dataplane = "kernel"
    modules = "ip_gre"
    transport = "gre"
    reference = True
    note = "GRE neither encrypts nor authenticates"
    offers = Offers(limits={"cipher": "GRE does not encrypt", "compression": "GRE does not compress"})
    comparable = NO_CIPHER
    recommended = NO_CIPHER

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_gre(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.gre(inner_bytes)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            tunnel = f"gre{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address)
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "link", "add", tunnel, "type", "gre", *ends, "ttl", "64")
            node.run("ip", "link", "set", tunnel, "up")
            node.run("ip", "route", "add", peer.lan, "dev", tunnel, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True  # GRE has no state: it cannot know whether the other end is there

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        for peer in peers:
            shown = node.run("ip", "-d", "link", "show", f"gre{peer.number}").stdout
            if f"gre remote {peer.wan_address}" not in shown:
                raise ProofError(f"gre{peer.number} is no GRE tunnel to {peer.wan_address}")
        return Evidence(cipher="none", integrity="none", compression="off", data_path="kernel: GRE")


def kernel_gre(node: Node) -> Unsupported | None:
    """Ask the kernel for a GRE tunnel."""
    return kernel_link(node, "GRE", "gre", "local", "192.0.2.1", "remote", "192.0.2.2")


Gre.declared = Declared(
    Security(
        protocol="standard",
        specification="GRE (RFC 2784)",
        authentication=("none",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=WITH_LINUX,
        sources=("RFC 2784, Security Considerations: as secure as plain IPv4",),
        as_of="2026-11-21",
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=False,
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="a tunnel for each peer",
    ),
)
