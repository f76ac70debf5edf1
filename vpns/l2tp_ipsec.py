"""L2TP in IPsec transport mode (RFC 3193): L2TP as in l2tp.py, ESP protects its UDP port 1701, IKEv1 with certificates.

Sources: RFC 3193, swanctl.conf(5), xl2tpd.conf(5).
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn import closed_form
from runner.vpn.declared import Declared
from runner.vpn.lifecycle import Lifecycle
from runner.vpn.plugin import Secrets
from vpns import _ppp, l2tp
from vpns._keys import pair_keys
from vpns._xfrm import only_protected
from vpns.ipsec import Ipsec
from vpns.ipsec_ikev1 import IpsecIkev1

PORT = "1701"


class L2tpIpsec(Ipsec):
    title = "L2TP in IPsec (xl2tpd, strongSwan)"
    versions = {}
    sign = replace(Ipsec.sign, programs=("xl2tpd",), link="ppp", esp="esp transport")
    speaks = ""
    modules = "esp4 l2tp_ppp"
    devices = _ppp.DEVICE
    note = "IKEv1, which RFC 3193 asks for, is historic (RFC 9395)"
    software = replace(Ipsec.software, tools={**Ipsec.software.tools, **l2tp.L2tp.software.tools})
    offers = IpsecIkev1.offers  # its compression is IPComp (RFC 3173) between L2TP and ESP, not PPP's
    ike_version = 1
    data_path = "kernel: PPP in L2TP in ESP"
    mode = "TRANSPORT"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or _ppp.kernel_ppp(node) or l2tp.kernel_l2tp(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], l2tp=True)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return {**super().secrets(ca, sites), **pair_keys(ca, sites)}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        return {**super().render(me, peers, params, secrets), **l2tp.files(me, peers, secrets)}

    def selectors(self, me: Site, peer: Site, params: Params) -> str:
        port = f"dynamic[udp/{PORT}]"
        return f"mode = transport\n                local_ts = {port}\n                remote_ts = {port}"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        only_protected(node, "proto", "udp", "dport", PORT)
        super().start(node, me, peers, params)
        l2tp.run(node)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return super().is_up(node, me, peers) and _ppp.is_up(node, peers)

    def check_path(self, node: Node, peers: Sequence[Site]) -> None:
        super().check_path(node, peers)
        l2tp.check_path(node, peers)

    def lifecycle(self) -> Lifecycle:
        lifecycle = super().lifecycle()
        return replace(lifecycle, timers=(*lifecycle.timers, *l2tp.TIMERS))


L2tpIpsec.declared = Declared(
    replace(
        IpsecIkev1.declared.security,
        specification="IKEv1 (RFC 2409), ESP transport mode (RFC 4303), L2TP (RFC 2661), PPP with CHAP (RFC 1994)",
        authentication=("certificate", "pre-shared key", "password"),
        handshake="IKEv1",
        sources=(*IpsecIkev1.declared.security.sources, *l2tp.L2tp.declared.security.sources),
        unchecked=(
            *IpsecIkev1.declared.security.unchecked,
            *l2tp.L2tp.declared.security.unchecked,
            "RFC 3193 was not read again",
        ),
    ),
    replace(l2tp.L2tp.declared.abilities, modes=("transport",)),
)
