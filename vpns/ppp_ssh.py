"""PPP over SSH: pppd on both gateways, the one that dials speaks through ssh to the other's pppd.

A classic of the magazine's comparison (VPN HOWTO). TCP on the WAN, so that TCP inside it is stacked on TCP.
Sources: pppd(8) pty and notty, sshd(8) AUTHORIZED_KEYS FILE FORMAT.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, higher_numbered, lower_numbered
from runner.vpn.declared import Declared
from runner.vpn.plugin import Secrets
from runner.vpn.sign import Sign
from vpns import _ppp
from vpns.ssh_forward import HOME, SshForward


class PppSsh(SshForward):
    title = "PPP over SSH"
    sign = Sign(("pppd", "ssh", "sshd"), link="ppp", marks=("^program pppd$", "^program ssh"))
    modules = "ppp_generic"
    devices = _ppp.DEVICE
    carries = "ip"
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"
    software = replace(SshForward.software, tools={**SshForward.software.tools, "pppd": "ppp"})

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or _ppp.kernel_ppp(node)

    def rights_of(self, me: Site, peer: Site) -> str:
        return f'command="/usr/sbin/pppd file {options(peer)}"'

    def server_options(self) -> str:
        return "PermitTTY no\n"

    def client_options(self, me: Site, peer: Site) -> str:
        return "RequestTTY no\n"

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = {**super().render(me, peers, params, secrets), **_ppp.routes(me, peers)}
        # Compression is SSH's.
        common = _ppp.plain(peers) + _ppp.TERMINAL + _ppp.PROTECTED_BELOW + _ppp.COMPRESSION["off"]
        for peer in lower_numbered(me, peers):
            files[options(peer)] = f"notty\n{_ppp.address(me)}:{_ppp.address(peer)}\n{common}{_ppp.LOGGED}"
        for peer in higher_numbered(me, peers):
            files[f"/etc/ppp/peers/{peer.name}"] = (
                f'pty "ssh -F {HOME}/ssh_config {peer.name}"\n{_ppp.address(me)}:{_ppp.address(peer)}\n{common}'
            )
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        _ppp.prepare(node)
        super().start(node, me, [peer for peer in peers if peer.number < me.number], params)
        for peer in higher_numbered(me, peers):
            node.spawn("pppd", "call", peer.name, log=f"ssh-{peer.name}")  # and what ssh says

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return _ppp.is_up(node, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        _ppp.check_path(node, peers)
        evidence = super().evidence(node, me, peers, params)
        if not evidence.version:
            return evidence
        facts = {"ppp": _ppp.version(node)}
        return evidence.model_copy(update={"data_path": "userspace: pppd, ssh and sshd", "facts": facts})


def options(peer: Site) -> str:
    """The options of the pppd that ``peer`` gets when it dials."""
    return f"/etc/ppp/options.{peer.name}"


PppSsh.declared = Declared(
    replace(SshForward.declared.security, specification="SSH (RFC 4251 to 4254), PPP (RFC 1661)"),
    replace(
        SshForward.declared.abilities,
        inner=("IPv4", "IPv6", "multicast"),
        routes="configuration",
        mesh=True,
        mesh_how="an SSH connection for each peer",
        modes=("tunnel",),
    ),
)
