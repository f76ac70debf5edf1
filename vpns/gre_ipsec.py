"""GRE in IPsec transport mode: GRE (RFC 2784) carries the LANs, ESP protects GRE (IP protocol 47)."""

from collections.abc import Sequence

from runner import closed_form
from runner.node import Node
from runner.plugin import Params, Site, Unsupported
from vpns.ipsec import Ipsec


class GreIpsec(Ipsec):
    title = "GRE in IPsec (strongSwan, kernel)"
    data_path = "kernel: GRE in ESP"
    mode = "TRANSPORT"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        ends = ("local", "192.0.2.1", "remote", "192.0.2.2")
        probe = node.run("ip", "link", "add", "probe0", "type", "gre", *ends, check=False)
        if probe.code != 0:
            return Unsupported(f"the kernel has no GRE: {probe.stderr.strip()}")
        node.run("ip", "link", "del", "probe0")
        return None

    def overhead(self, params: Params, inner_bytes: int) -> int | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], gre=True)

    def selectors(self, me: Site, peer: Site) -> str:
        return "mode = transport\n                local_ts = dynamic[gre]\n                remote_ts = dynamic[gre]"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        # Bare GRE never leaves: a policy of our own, below charon's, that stays when charon goes.
        bare = ("src", "0.0.0.0/0", "dst", "0.0.0.0/0", "proto", "gre", "dir", "out")
        node.run("ip", "xfrm", "policy", "add", *bare, "priority", "4000000000", "action", "block")
        node.defer("ip", "xfrm", "policy", "del", *bare)
        for peer in peers:
            tunnel = f"gre{peer.number}"
            ends = ("local", me.wan_address, "remote", peer.wan_address)
            # 1400 leaves room for GRE and for ESP with any cipher of the sweep within 1500.
            node.run("ip", "link", "add", tunnel, "mtu", "1400", "type", "gre", *ends, "ttl", "64")
            node.defer("ip", "link", "del", tunnel)
            # An IPv6 router solicitation would spring the trap before the peer is ready.
            node.run("sysctl", "-qw", f"net.ipv6.conf.{tunnel}.disable_ipv6=1", check=False)
        super().start(node, me, peers, params)
        for peer in peers:
            node.run("ip", "link", "set", f"gre{peer.number}", "up")
            node.run("ip", "route", "add", peer.lan, "dev", f"gre{peer.number}", "src", me.lan_address)
