"""L2TPv3 (RFC 3931) in the kernel, set up by hand: an Ethernet pseudowire in UDP, without a control connection.

The LANs are routed through it. Nothing is encrypted, and nothing but a cookie could authenticate (RFC 3931 §8).
Source: ip-l2tp(8).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, pair_number
from runner.vpn import closed_form
from runner.vpn.declared import WITH_LINUX, Abilities, Declared, Security
from runner.vpn.plugin import Offers, Vpn
from runner.vpn.sign import Sign


class L2tpv3(Vpn):
    title = "L2TPv3 (kernel, static)"
    sign = Sign(link="l2tpeth")
    dataplane = "kernel"
    transport = "udp"
    ports = "udp/17010"
    modules = "l2tp_eth"
    reference = True
    note = "L2TPv3 does not encrypt"
    offers = Offers(limits={"cipher": "L2TPv3 does not encrypt", "compression": "L2TPv3 does not compress"})
    comparable = NO_CIPHER
    recommended = NO_CIPHER

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        node.run("modprobe", "-q", "l2tp_eth", check=False)  # ip-l2tp(8) asks for no module
        ends = ("encap", "ip", "local", "127.0.0.1", "remote", "127.0.0.2")
        node.defer("ip", "l2tp", "del", "tunnel", "tunnel_id", "99")
        probe = node.run("ip", "l2tp", "add", "tunnel", "tunnel_id", "99", "peer_tunnel_id", "99", *ends, check=False)
        if probe.code != 0:
            return Unsupported.kernel(f"L2TPv3: {probe.stderr.strip() or probe.stdout.strip()}")
        node.run("ip", "l2tp", "del", "tunnel", "tunnel_id", "99")
        return None

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.l2tpv3(inner_bytes)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            number = pair_number(me, peer)
            tunnel, port, name = str(number + 1), str(17010 + number), f"l2tp{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address, "udp_sport", port, "udp_dport", port)
            node.defer("ip", "l2tp", "del", "tunnel", "tunnel_id", tunnel)
            node.run(
                *("ip", "l2tp", "add", "tunnel", "tunnel_id", tunnel, "peer_tunnel_id", tunnel, "encap", "udp", *ends)
            )
            node.run(
                *("ip", "l2tp", "add", "session", "name", name, "tunnel_id", tunnel),
                *("session_id", tunnel, "peer_session_id", tunnel),
            )
            # 1500 - 20 (IPv4) - 8 (UDP) - 12 (L2TPv3) - 14 (Ethernet)
            node.run("ip", "link", "set", name, "mtu", "1446", "up")
            node.run("ip", "addr", "add", f"10.9.{number}.{me.number}/24", "dev", name)
            node.run("ip", "route", "add", peer.lan, "via", f"10.9.{number}.{peer.number}", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True  # a static session has no state: it cannot know whether the other end is there

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        shown = node.run("ip", "l2tp", "show", "session").stdout
        for peer in peers:
            if f"interface name: l2tp{peer.number}" not in shown:
                raise ProofError(f"the kernel has no L2TPv3 session l2tp{peer.number}")
        return Evidence(cipher="none", integrity="none", compression="off", data_path="kernel: L2TPv3")


L2tpv3.declared = Declared(
    Security(
        protocol="standard",
        specification="L2TPv3 (RFC 3931), static sessions",
        authentication=("none",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=WITH_LINUX,
        sources=("https://datatracker.ietf.org/doc/rfc3931 (Proposed Standard, March 2005)", "ip-l2tp(8)"),
        as_of="2026-11-21",
        unchecked=("RFC 3931 §8 was not read again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=False,  # both ends are configured with the other's address and port
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="a tunnel for each peer",
    ),
)
