"""PPP over TLS: stunnel between the gateways, and on each a pppd on a terminal of stunnel's.

TCP on the WAN, so that TCP inside it is stacked on TCP. Debian: stunnel4, ppp. Sources: stunnel(8), pppd(8).
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, higher_numbered, pair_number
from runner.vpn.declared import Declared
from runner.vpn.plugin import Secrets
from runner.vpn.sign import Sign
from vpns import _ppp
from vpns.stunnel_forward import HOME, StunnelForward

PORT = 4430


class PppStunnel(StunnelForward):
    title = "PPP over TLS (stunnel)"
    sign = Sign(("pppd", "stunnel4"), link="ppp", marks=("^program pppd$", "^program stunnel4"))
    ports = "tcp/4430"
    modules = "ppp_generic"
    devices = _ppp.DEVICE
    carries = "ip"
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"
    software = replace(StunnelForward.software, tools={**StunnelForward.software.tools, "pppd": "ppp"})
    offers = replace(
        StunnelForward.offers,
        compressions={"off": "off", "on": "on"},  # PPP's deflate (RFC 1979); Debian's OpenSSL has no zlib
        limits={factor: StunnelForward.offers.limits[factor] for factor in ("cipher", "integrity", "key_exchange")},
    )

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or _ppp.kernel_ppp(node)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = {**super().render(me, [], params, secrets), **_ppp.routes(me, peers)}
        for peer in peers:
            port, options = PORT + pair_number(me, peer), f"/etc/ppp/options.{peer.name}"
            if me.number < peer.number:
                # With exec and connect, stunnel starts pppd and dials at once (stunnel(8), retry).
                ends = f"client = yes\nconnect = {peer.wan_address}:{port}\nretry = yes\n"
            else:
                ends = f"accept = {me.wan_address}:{port}\n"
            files[f"{HOME}/stunnel.conf"] += (
                f"[{peer.name}]\n{ends}checkHost = {peer.name}\n"
                f"exec = /usr/sbin/pppd\nexecArgs = pppd file {options}\npty = yes\n"
            )
            files[options] = (
                f"{_ppp.address(me)}:{_ppp.address(peer)}\n{_ppp.plain(peers)}{_ppp.TERMINAL}{_ppp.PROTECTED_BELOW}"
                f"{_ppp.COMPRESSION[params['compression']]}{_ppp.LOGGED}"
            )
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        _ppp.prepare(node)
        node.spawn("stunnel4", f"{HOME}/stunnel.conf", log="stunnel")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return _ppp.is_up(node, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        _ppp.check_path(node, peers)
        deflate = _ppp.pppd_log(node).count("Deflate (15) compression enabled") >= len(peers)
        if deflate != (params["compression"] == "on"):
            raise ProofError(f"asked for compression {params['compression']}, PPP has it {'on' if deflate else 'off'}")
        if not higher_numbered(me, peers):
            return Evidence()  # the dialing side's log has the rest
        evidence = super().evidence(node, me, peers, params)
        facts = {**evidence.facts, "ppp": _ppp.version(node)}
        compression = "deflate" if deflate else "off"
        path = "userspace: pppd and stunnel"
        return evidence.model_copy(update={"compression": compression, "data_path": path, "facts": facts})


PppStunnel.declared = Declared(
    replace(StunnelForward.declared.security, specification="TLS 1.3 (RFC 8446) or 1.2 (RFC 5246), PPP (RFC 1661)"),
    replace(
        StunnelForward.declared.abilities,
        inner=("IPv4", "IPv6", "multicast"),
        routes="configuration",
        mesh=True,
        mesh_how="a TLS connection for each peer",
        modes=("tunnel",),
    ),
)
