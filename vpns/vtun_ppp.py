"""PPP over VTun: vtund over TCP with a pppd on each end, in place of vtun.py's TUN. Only Debian 12 has it.

TCP on the WAN, so that TCP inside it is stacked on TCP. Debian 12: vtun, ppp. Sources: vtund.conf(5) (`up`), pppd(8)
(`connect`, `silent`).
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, pair_number
from runner.vpn.declared import Declared
from runner.vpn.plugin import Secrets, level_refusal
from vpns import _ppp
from vpns._openssl import LEGACY_PROVIDER
from vpns.vtun import CONFIG, OPENSSL_CNF, PORT
from vpns.vtun_tcp import VtunTcp


class VtunPpp(VtunTcp):
    title = "PPP over VTun (TCP)"
    sign = replace(VtunTcp.sign, programs=("vtund", "pppd"), link="ppp", marks=("^program vtund$",))
    modules = "ppp_generic"
    devices = _ppp.DEVICE
    transport = "tcp"
    inner_ipv6 = False  # pppd is told noipv6
    note = "no integrity; no longer maintained; TCP inside the tunnel runs over TCP"
    software = replace(VtunTcp.software, tools={**VtunTcp.software.tools, "pppd": "ppp"})
    protocol = "tcp"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return level_refusal(self, params) or _ppp.kernel_ppp(node)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        config = f"options {{\n    port {PORT};\n    timeout 10;\n    ppp /usr/sbin/pppd;\n}}\n"
        files = _ppp.routes(me, peers)
        for peer in peers:
            options = f"/etc/ppp/options.{peer.name}"
            # Until pppd is there a terminal echoes what comes, and the other pppd takes its own words for a loop: who
            # dials says when its terminal is ready, then waits; who answers starts its pppd then, which speaks first.
            dials = me.number < peer.number
            manner = "connect echo\nsilent\n" if dials else ""
            awaits = "" if dials else '        program "read ready" wait;\n'
            config += f"""\
pair{pair_number(me, peer)} {{
    passwd {secrets[f"{me.name}.key"]};
    type tty;
    proto {self.protocol};
    encrypt {self.offers.ciphers[params["cipher"]]};
    compress {self.offers.compressions[params["compression"]]};
    keepalive yes;
    persist yes;
    up {{
{awaits}        ppp "file {options}";
    }};
}}
"""
            files[options] = (
                f"{manner}{_ppp.address(me)}:{_ppp.address(peer)}\n{_ppp.plain(peers)}{_ppp.TERMINAL}{_ppp.PROTECTED_BELOW}"
                f"{_ppp.COMPRESSION['off']}{_ppp.LOGGED}"
            )
        return {CONFIG: config, OPENSSL_CNF: LEGACY_PROVIDER, **files}

    def interfaces(self, node: Node, me: Site, peers: Sequence[Site]) -> None:
        """None beforehand: pppd makes them."""

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        _ppp.prepare(node)
        super().start(node, me, peers, params)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return _ppp.is_up(node, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        _ppp.check_path(node, peers)
        facts = {"ppp": _ppp.version(node)}
        return (
            super()
            .evidence(node, me, [], params)
            .model_copy(update={"data_path": "userspace: pppd and vtund", "facts": facts})
        )


VtunPpp.declared = Declared(
    replace(VtunTcp.declared.security, specification="none but its source; PPP (RFC 1661)"),
    replace(VtunTcp.declared.abilities, inner=("IPv4", "IPv6", "multicast")),
)
