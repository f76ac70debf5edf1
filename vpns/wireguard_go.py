"""WireGuard in userspace: wireguard-go on a TUN, configured by the same `wg` as in wireguard.py.

Debian: wireguard-go. Version 2026 is that of Debian sid, by the layer vagrant/layers/wireguard-go-2026.sh.
"""

import re
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.lab.node import Node, wait_until
from runner.vpn.declared import Declared, Upkeep
from runner.vpn.plugin import Version, level_refusal, no_tun
from vpns.wireguard import WireGuard


class WireGuardGo(WireGuard):
    title = "WireGuard (wireguard-go)"
    sign = replace(WireGuard.sign, link="", programs=("wireguard-go",))
    dataplane = "userspace"
    modules = "tun"
    software = replace(WireGuard.software, tools={"wg": "wireguard-tools", "wireguard-go": "wireguard-go"})
    daemon, kind = "wireguard-go", "tun"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return level_refusal(self, params) or no_tun(node)

    def create(self, node: Node) -> None:
        node.defer("rm", "-f", "/run/wireguard/wg0.sock")
        node.spawn("wireguard-go", "--foreground", "wg0", log="wireguard-go")
        wait_until(
            lambda: node.run("test", "-S", "/run/wireguard/wg0.sock", check=False).code == 0,
            "wireguard-go's socket",
        )

    def data_path(self) -> str:
        return "userspace: wireguard-go on TUN"

    def version(self, node: Node) -> str:
        match = re.search(r"wireguard-go \S+", node.run("wireguard-go", "--version", check=False).stdout)
        return match[0] if match else "wireguard-go"


WireGuardGo.declared = Declared(
    replace(
        WireGuard.declared.security,
        maintained=Upkeep("its makers", "the last", "2026-05", "Debian 13 has that of December 2023"),
        sources=(
            *WireGuard.declared.security.sources,
            "the Go module golang.zx2c4.com/wireguard (v0.0.0-20260522210424)",
            "Debian's changelog of wireguard-go 0.0.20231211-1 (2024-08-26)",
        ),
    ),
    WireGuard.declared.abilities,
)
NEWER = replace(WireGuardGo.declared.security, maintained=Upkeep("its makers", "the last", "2026-05"))
WireGuardGo.versions = {
    "2026": Version("wireguard-go-2026", {"declared": Declared(NEWER, WireGuardGo.declared.abilities)})
}
