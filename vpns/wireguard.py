"""WireGuard in the kernel: `ip link` and `wg`. Never wg-quick, which silently runs wireguard-go instead.

Debian: wireguard-tools. Source: wg(8); the protocol: Donenfeld, WireGuard (NDSS 2017).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, bracket_address
from runner.vpn import closed_form
from runner.vpn.declared import WITH_LINUX, Abilities, Declared, Security
from runner.vpn.lifecycle import Lifecycle, Rekeying, Standby, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns._links import kernel_link


def keepalive(seconds: int = 0) -> str:
    """The line of a peer; WireGuard's usual 25 s where none are given."""
    return f"PersistentKeepalive = {seconds or 25}"


SHOW = ("wg", "show", "{device}")  # it hides the keys
TOLD = ("endpoint", "allowed", "latest", "transfer", "persistent", "listening", "peer")
HANDSHAKE = Timer(
    "a new handshake where nothing came back for 15 s, tried again every 5 s (fixed)", "whitepaper of WireGuard §6"
)
TIMERS = (
    Timer(keepalive(), "wg(8)", at="dialing"),
    Timer("no PersistentKeepalive", "wg(8)", at="answering"),
    HANDSHAKE,
)
SUITE = "WireGuard has one cipher suite, ChaCha20-Poly1305, and negotiates none (whitepaper §5.4)"


class WireGuard(Vpn):
    title = "WireGuard (kernel)"
    sign = Sign(link="wireguard", tells=TOLD, asks=(SHOW,))
    family = "WireGuard"
    dataplane = "kernel"
    speaks = "wireguard"
    software = Software({"wg": "wireguard-tools"})
    transport = "udp"
    ports = "udp/51820"
    outer_ipv6 = inner_ipv6 = several_networks = hub_and_spokes = True
    roams = "both"
    modules = "wireguard"
    offers = Offers(
        ciphers={"chacha20-poly1305": "ChaCha20-Poly1305"},
        integrities={},
        limits={"cipher": SUITE, "integrity": SUITE, "compression": "WireGuard does not compress"},
    )
    comparable = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}
    recommended = comparable
    daemon = ""
    key_exchange = "Curve25519"  # the protocol has no other
    kind = "wireguard"  # what `ip -d link` calls the interface

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_link(node, "WireGuard", "wireguard")

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.wireguard(inner_bytes, mtu=1420)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets = {}
        for site in sites:
            private = ca.run("wg", "genkey").stdout
            secrets[f"{site.name}.key"] = private.strip()
            secrets[f"{site.name}.pub"] = ca.run("wg", "pubkey", input=private).stdout.strip()
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        config = f"[Interface]\nPrivateKey = {secrets[f'{me.name}.key']}\nListenPort = 51820\n"
        for peer in peers:
            allowed = ", ".join(peer.networks(ipv6="inner" in params))
            config += f"\n[Peer]\nPublicKey = {secrets[f'{peer.name}.pub']}\nAllowedIPs = {allowed}\n"
            if peer.wan_address:
                config += f"Endpoint = {bracket_address(peer.wan_address)}:51820\n"
            if me.number < peer.number:
                config += f"{keepalive(me.keepalive_s)}\n"  # the dialing side also keeps NAT open
        return {"/etc/wireguard/wg0.conf": config}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        self.create(node)
        node.run("wg", "setconf", "wg0", "/etc/wireguard/wg0.conf")
        node.run("ip", "link", "set", "wg0", "mtu", "1420", "up")
        for peer in peers:
            for lan in peer.lans:
                node.run("ip", "route", "add", lan, "dev", "wg0", "src", me.lan_address)

    def create(self, node: Node) -> None:
        node.defer("ip", "link", "del", "wg0")
        node.run("ip", "link", "add", "wg0", "type", "wireguard")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        shown = node.run("wg", "show", "wg0", "latest-handshakes").stdout.split()
        return len(shown) == 2 * len(peers) and "0" not in shown[1::2]

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        link = node.run("ip", "-d", "link", "show", "wg0").stdout
        if f" {self.kind} " not in link:
            raise ProofError(f"the interface wg0 is not of kind {self.kind}: another WireGuard made it")
        return Evidence(
            cipher="ChaCha20-Poly1305",
            integrity="Poly1305",
            compression="off",
            key_exchange=self.key_exchange,
            data_path=self.data_path(),
            version=self.version(node),
        )

    def data_path(self) -> str:
        return "kernel: wireguard"

    def version(self, node: Node) -> str:
        return "Linux " + node.run("uname", "-r").stdout.strip()

    def lifecycle(self) -> Lifecycle:
        up = "wg setconf wg0 /etc/wireguard/wg0.conf && ip link set wg0 mtu 1420 up"
        standby = Standby(
            active=f"{up} && ip route replace {{peer.lan}} dev wg0",
            # Without its peer: a keepalive from here would take the session away from the active gateway.
            passive="ip link set wg0 down; wg setconf wg0 /dev/null",
            alive=f"pgrep -x {self.daemon}" if self.daemon else "ip link show wg0",
            prepare=self.create,
            daemon=bool(self.daemon),
        )
        # New keys every 120 s, REKEY_AFTER_TIME (whitepaper §6.1).
        return Lifecycle(Rekeying(("protocol",), mark=handshakes), TIMERS, standby)


def handshakes(node: Node, peers: Sequence[Site]) -> str:
    """When each peer's latest handshake was."""
    return node.run("wg", "show", "wg0", "latest-handshakes").stdout


WireGuard.declared = Declared(
    Security(
        protocol="own",
        specification="J. Donenfeld, WireGuard: Next Generation Kernel Network Tunnel (NDSS 2017); Noise_IKpsk2",
        authentication=("public key", "pre-shared key"),
        key_exchange="Curve25519; a pre-shared key may be mixed in",
        forward_secrecy=True,
        post_quantum=False,
        maintained=WITH_LINUX,
        sources=("https://wireguard.com/known-limitations (no TCP; source addresses are not authenticated)",),
        as_of="2026-11-21",
        unchecked=("https://www.wireguard.com/papers/wireguard.pdf was not read again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,
        roaming=True,
        routes="operator",
        mesh=True,
        mesh_how="one interface, with an entry for each peer",
    ),
)
