"""WireGuard (wireguard-go) with a pre-shared key that Rosenpass agrees on, post-quantum, and renews every two minutes.

Not in Debian: the layer vagrant/layers/rosenpass.sh builds the crate rosenpass (`vpneval image --layer rosenpass`).
WireGuard has no peers until Rosenpass has agreed with them on a key and adds them, so that nothing passes before; its
makers' front end, rp, does it so too. Source: the crate's readme and its src/config.rs, cli.rs and app_server.rs.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import ProofError
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.declared import Declared, Upkeep
from runner.vpn.lifecycle import Lifecycle, Timer
from runner.vpn.plugin import Secrets
from vpns.wireguard import HANDSHAKE, WireGuard
from vpns.wireguard_go import WireGuardGo

HOME = "/etc/rosenpass"
KEYED = 'until [ "$(wg show wg0 peers | wc -l)" -ge "$1" ]; do sleep 0.02; done'
CALLED = "while wg show wg0 latest-handshakes | cut -f 2 | grep -qx 0; do sleep 0.02; done"
KEPT = "for peer in $(wg show wg0 peers); do wg set wg0 peer $peer persistent-keepalive {}; done"
EXCHANGED = re.compile(r"Exchanged key with peer (\S+)")  # by the hash of its public key


class WireGuardRosenpass(WireGuardGo):
    title = "WireGuard (wireguard-go) with Rosenpass"
    sign = replace(WireGuardGo.sign, programs=("wireguard-go", "rosenpass"), marks=("^program rosenpass$",))
    speaks = ""
    outer_ipv6 = inner_ipv6 = several_networks = hub_and_spokes = False
    roams = "none"
    key_exchange = "Curve25519+Classic-McEliece-460896+Kyber-512"
    ports = "udp/51820 udp/9999"
    software = replace(
        WireGuardGo.software, tools={**WireGuardGo.software.tools, "rosenpass": "rosenpass"}, layer="rosenpass"
    )
    versions = {}
    note = "its keys are post-quantum; its data path is that of wireguard_go"

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets = super().secrets(ca, sites)
        ca.run("mkdir", "-pm", "700", HOME)
        for site in sites:
            public, secret = f"{HOME}/{site.name}.pub", f"{HOME}/{site.name}.key"
            ca.run("rosenpass", "gen-keys", "--public-key", public, "--secret-key", secret)
            # Binary files, as text in one line: 700 kB and 18 kB.
            secrets[f"{site.name}.rosenpass.pub"] = ca.run("base64", "-w0", public).stdout
            secrets[f"{site.name}.rosenpass.key"] = ca.run("base64", "-w0", secret).stdout
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        rosenpass = f"""\
public_key = "{HOME}/{me.name}.pub"
secret_key = "{HOME}/{me.name}.key"
listen = ["0.0.0.0:9999"]
verbosity = "Verbose"
"""
        for peer in peers:
            words = ["endpoint", f"{peer.wan_address}:51820", "allowed-ips", peer.lan]  # after `wg set`
            if me.number > peer.number:
                words += ["persistent-keepalive", str(me.keepalive_s or 25)]  # the first goes out at once
            extra = ", ".join(f'"{word}"' for word in words)
            rosenpass += f"""
[[peers]]
public_key = "{HOME}/{peer.name}.pub"
device = "wg0"
peer = "{secrets[f"{peer.name}.pub"]}"
extra_params = [{extra}]
"""
            # One side alone asks: where two exchanges cross, the sides may keep different keys, as protocol.rs warns.
            if me.number < peer.number:
                rosenpass += f'endpoint = "{peer.wan_address}:9999"\n'
        files = {
            "/etc/wireguard/wg0.conf": f"[Interface]\nPrivateKey = {secrets[f'{me.name}.key']}\nListenPort = 51820\n",
            f"{HOME}/rosenpass.toml": rosenpass,
            f"{HOME}/{me.name}.key.base64": secrets[f"{me.name}.rosenpass.key"],
        }
        for site in (me, *peers):
            files[f"{HOME}/{site.name}.pub.base64"] = secrets[f"{site.name}.rosenpass.pub"]
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        self.create(node)
        node.run("wg", "setconf", "wg0", "/etc/wireguard/wg0.conf")
        node.run("ip", "link", "set", "wg0", "mtu", "1420", "up")
        decode = 'umask 077 && cd "$1" && for file in *.base64; do base64 -d "$file" > "${file%.base64}"; done'
        node.run("sh", "-c", decode, "sh", HOME)
        node.spawn("env", "RUST_LOG=info", "rosenpass", "exchange-config", f"{HOME}/rosenpass.toml", log="rosenpass")
        # Both sides have the key within a few milliseconds, and one of them calls (above). Were this one to call just
        # then, too, for payload, each might encrypt for a session that the other has dropped, for 15 s. So it lets
        # none in until it was called; a call that came before it had the key would be repeated after 5 s only.
        if asked := sum(me.number < peer.number for peer in peers):
            node.run("timeout", "5", "sh", "-c", KEYED, "sh", str(asked), check=False)  # or a peer is absent
            node.run("timeout", "0.3", "sh", "-c", CALLED, check=False)
            node.run("sh", "-c", KEPT.format(me.keepalive_s or 25))  # it may be behind a NAT
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "dev", "wg0", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return len(peers_with_key(node)) == len(peers) and super().is_up(node, me, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        if len(peers_with_key(node)) != len(peers):
            raise ProofError(f"Rosenpass has agreed on keys with {len(peers_with_key(node))} of {len(peers)} peers")
        if "(none)" in node.run("wg", "show", "wg0", "preshared-keys").stdout:
            raise ProofError("WireGuard runs without a pre-shared key")
        return super().evidence(node, me, peers, params)

    def version(self, node: Node) -> str:
        return f"{super().version(node)}, {node.run('rosenpass', '--version').stdout.strip()}"

    def lifecycle(self) -> Lifecycle:
        """Its second gateway is not made: Rosenpass would have to agree on keys again there."""
        kept = Timer("persistent-keepalive 25", "wg(8)")
        return replace(super().lifecycle(), timers=(kept, HANDSHAKE), standby=None)


def peers_with_key(node: Node) -> set[str]:
    """The peers that this gateway's Rosenpass says to have agreed on a key with. It says it when it tells WireGuard."""
    return set(EXCHANGED.findall(node.read_log("rosenpass")))


WireGuardRosenpass.declared = Declared(
    replace(
        WireGuard.declared.security,
        specification=f"{WireGuard.declared.security.specification}; the Rosenpass whitepaper",
        authentication=("public key",),
        key_exchange="Curve25519, and Classic McEliece 460896 with Kyber-512 by Rosenpass for the pre-shared key",
        post_quantum=True,
        maintained=Upkeep("its makers", "0.2.3", "2026-06", "0.2.2 is what is built here"),
        sources=(
            *WireGuardGo.declared.security.sources,
            "the crate rosenpass 0.2.2: readme.md and src/ (pqkem.rs has the algorithms, protocol.rs the clocks)",
            "https://github.com/rosenpass/rosenpass/issues/872 (0.2.3), /pull/860 (its upgraded dependencies), and rp",
            "RUSTSEC-2023-0077",
        ),
        flaws=("a datagram of one byte stopped Rosenpass; mended in 0.2.1 (RUSTSEC-2023-0077)",),
        unchecked=(
            *WireGuard.declared.security.unchecked,
            "the Rosenpass whitepaper and its proofs were not read",
            "whether the liboqs of oqs-sys 0.8.0 lacks fixes",
        ),
    ),
    WireGuardGo.declared.abilities,
)
