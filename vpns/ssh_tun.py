"""SSH with virtual interfaces: `ssh -w` between the gateways, a TUN on each, and routes through it.

The thesis' "SSH VPN" (§2.2.3.2). TCP on the WAN, so that TCP inside it is stacked on TCP.
Sources: ssh(1) SSH-BASED VIRTUAL PRIVATE NETWORKS, ssh_config(5) Tunnel.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, pair_number
from runner.vpn import closed_form
from runner.vpn.declared import Declared
from runner.vpn.plugin import no_tun
from vpns.ssh_forward import SshForward


class SshTun(SshForward):
    title = "SSH with virtual interfaces"
    sign = replace(SshForward.sign, programs=("ssh", "sshd", "sshd-session"), marks=())
    modules = "tun"
    carries = "ip"
    inner_ipv6 = True
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"
    device, mode = "tun", "point-to-point"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return no_tun(node) or super().supports(node, params)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.ssh_tun(inner_bytes, params["cipher"], params["integrity"])

    def rights_of(self, me: Site, peer: Site) -> str:
        return f'port-forwarding,tunnel="{peer.number}"'

    def server_options(self) -> str:
        return f"PermitTunnel {self.mode}\n"

    def client_options(self, me: Site, peer: Site) -> str:
        return f"Tunnel {self.mode}\nTunnelDevice {peer.number}:{me.number}\n"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            tunnel, number = f"{self.device}{peer.number}", pair_number(me, peer)
            first, second = f"10.9.{number}.1", f"10.9.{number}.2"
            mine, theirs = (first, second) if me.number < peer.number else (second, first)
            # A persistent device: the addresses can be there before ssh and sshd attach to it.
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "tuntap", "add", tunnel, "mode", self.device)
            node.run("ip", "addr", "add", mine, "peer", theirs, "dev", tunnel)
            node.run("ip", "link", "set", tunnel, "up")
            node.run("ip", "route", "add", peer.lan, "via", theirs, "src", me.lan_address)
        super().start(node, me, peers, params)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        links = node.run("ip", "-o", "link", "show", "up").stdout.splitlines()
        carriers = [line for line in links if "LOWER_UP" in line]
        return all(any(f" {self.device}{peer.number}:" in line for line in carriers) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        evidence = super().evidence(node, me, peers, params)
        data_path = f"userspace: ssh and sshd on {self.device.upper()}"
        return evidence.model_copy(update={"data_path": data_path}) if evidence.version else evidence


SshTun.declared = Declared(
    SshForward.declared.security,
    replace(
        SshForward.declared.abilities,
        inner=("IPv4", "IPv6", "multicast"),
        mesh=True,
        mesh_how="an SSH connection for each peer",
        modes=("tunnel",),
    ),
)
