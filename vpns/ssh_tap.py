"""SSH with virtual Ethernets: as ssh_tun, but with a TAP on each gateway (`ssh -o Tunnel=ethernet`).

Sources: ssh_config(5) Tunnel, sshd_config(5) PermitTunnel.
"""

from collections.abc import Sequence

from runner.declared import Abilities
from runner.model import Evidence
from runner.node import Node
from runner.plugin import Params, Site, pair_number
from vpns.ssh_forward import SshForward
from vpns.ssh_tun import SshTun


class SshTap(SshTun):
    title = "SSH with virtual Ethernets"
    layer = 2
    abilities = Abilities(
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=False,
        routes="operator",
        mesh=False,
    )

    def overhead(self, params: Params, inner_bytes: int) -> int | None:
        return None  # several frames share a segment, and none is padded alike: ssh_tun has the arithmetic for TUN

    def server_options(self) -> str:
        return "PermitTunnel ethernet\n"

    def client_options(self, me: Site, peer: Site) -> str:
        return f"Tunnel ethernet\nTunnelDevice {peer.number}:{me.number}\n"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            tunnel, number = f"tap{peer.number}", pair_number(me, peer)
            first, second = f"10.9.{number}.1", f"10.9.{number}.2"
            mine, theirs = (first, second) if me.number < peer.number else (second, first)
            node.run("ip", "tuntap", "add", tunnel, "mode", "tap")
            node.defer("ip", "link", "del", tunnel)
            node.run("ip", "addr", "add", f"{mine}/24", "dev", tunnel)
            node.run("ip", "link", "set", tunnel, "up")
            node.run("ip", "route", "add", peer.lan, "via", theirs, "src", me.lan_address)
        SshForward.start(self, node, me, peers, params)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        links = node.run("ip", "-o", "link", "show", "up").stdout.splitlines()
        carriers = [line for line in links if "LOWER_UP" in line]
        return all(any(f" tap{peer.number}:" in line for line in carriers) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        found = super().evidence(node, me, peers, params)
        return found.model_copy(update={"data_path": "userspace: ssh and sshd on TAP"}) if found.version else found
