"""Plain IP: two routes and no tunnel. The baseline that every VPN is compared with."""

from collections.abc import Sequence

from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, hop
from runner.vpn import closed_form
from runner.vpn.plugin import Offers, Vpn


class PlainIp(Vpn):
    title = "plain IP"
    dataplane = "kernel"
    transport = "ip"
    devices = "*"
    reference = True
    outer_ipv6 = inner_ipv6 = True
    offers = Offers(limits={"cipher": "plain IP does not encrypt", "compression": "plain IP does not compress"})
    comparable = NO_CIPHER
    recommended = NO_CIPHER

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.plain(inner_bytes)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            node.defer("ip", "route", "del", peer.lan)
            node.run("ip", "route", "add", peer.lan, "via", *hop(peer.wan_address))

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence(cipher="none", integrity="none", compression="off", data_path="kernel: IP forwarding")
