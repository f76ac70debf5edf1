"""SSH with virtual Ethernets: as ssh_tun, but with a TAP on each gateway (`ssh -o Tunnel=ethernet`).

Sources: ssh_config(5) Tunnel, sshd_config(5) PermitTunnel.
"""

from dataclasses import replace

from runner.data.levels import Params
from runner.vpn.declared import Declared
from vpns.ssh_tun import SshTun


class SshTap(SshTun):
    title = "SSH with virtual Ethernets"
    sign = replace(SshTun.sign, marks=("(?i)tunnel[ =]ethernet",))
    device, mode = "tap", "ethernet"

    def encapsulation(self, params: Params, inner_bytes: int) -> None:
        return None  # several frames share a segment, and none is padded alike: ssh_tun has the arithmetic for TUN


SshTap.declared = Declared(
    SshTun.declared.security,
    replace(SshTun.declared.abilities, inner=("IPv4", "IPv6", "Ethernet", "multicast")),
)
