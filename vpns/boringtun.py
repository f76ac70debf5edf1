"""WireGuard in userspace by boringtun, Cloudflare's implementation in Rust, configured by the same `wg`.

Not in Debian: the layer vagrant/layers/boringtun.sh builds the crate boringtun-cli (`vpneval image --layer boringtun`).
"""

from dataclasses import replace

from runner.lab.node import Node, wait_until
from runner.vpn.declared import Declared, Upkeep
from vpns.wireguard import WireGuard
from vpns.wireguard_go import WireGuardGo


class BoringTun(WireGuardGo):
    title = "WireGuard (boringtun)"
    sign = replace(WireGuardGo.sign, programs=("boringtun-cli", "boringtun"))
    modules = "tun"
    software = replace(
        WireGuardGo.software, tools={"wg": "wireguard-tools", "boringtun-cli": "boringtun-cli"}, layer="boringtun"
    )

    versions = {}
    daemon = "boringtun-cli"

    def create(self, node: Node) -> None:
        node.defer("rm", "-f", "/run/wireguard/wg0.sock")
        # It drops its privileges by default to those of a log-in user, whom a daemon of a gateway does not have.
        node.spawn("boringtun-cli", "--foreground", "--disable-drop-privileges", "wg0", log="boringtun")
        wait_until(
            lambda: node.run("test", "-S", "/run/wireguard/wg0.sock", check=False).code == 0, "boringtun's socket"
        )

    def data_path(self) -> str:
        return "userspace: boringtun on TUN"

    def version(self, node: Node) -> str:
        return node.run("boringtun-cli", "--version").stdout.strip()


BoringTun.declared = Declared(
    replace(
        WireGuard.declared.security,
        maintained=Upkeep("its makers", "0.7.1", "2026", "0.6.0 is what is built here"),
        sources=(*WireGuard.declared.security.sources, "crates.io's boringtun-cli"),
        unchecked=(*WireGuard.declared.security.unchecked, "whether 0.6.0 lacks fixes of 0.7"),
    ),
    WireGuardGo.declared.abilities,
)
