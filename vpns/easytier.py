"""EasyTier: a mesh of equal daemons in Rust, with one secret for all. Packets in UDP, one TUN for all peers.

Not in Debian: the layer vagrant/layers/easytier.sh takes PyPI's wheel easytier-pyo3 (`vpneval image --layer easytier`).
Sources: the wheel's README (easytier_pyo3-0.1.3.dist-info/METADATA) and its default flags.
"""

import json
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign

CONFIG = "/etc/easytier/vpneval.json"
DEVICE = "easytier0"


class EasyTier(Vpn):
    title = "EasyTier"
    sign = Sign(("easytier-core", "easytier-node"))
    dataplane = "userspace"
    transport = "udp"
    ports = "udp/11010"
    devices = DEVICE
    modules = "tun"
    software = Software({"easytier-node": "easytier"}, layer="easytier")
    offers = Offers(
        ciphers={"aes-128-gcm": "aes-gcm", "aes-256-gcm": "aes-256-gcm", "chacha20-poly1305": "chacha20"},
        integrities={},
        limits={"cipher": "EasyTier has AEADs only", "compression": "compression is off here"},
    )
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    recommended = comparable  # its default

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        key = ca.run("openssl", "rand", "-hex", "32").stdout.strip()
        return {f"{site.name}.key": key for site in sites}  # one for all

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        configuration = {
            "instance_name": me.name,
            "hostname": me.name,
            "ipv4": f"10.144.144.{me.number}/24",
            "network_identity": {"network_name": "vpneval", "network_secret": secrets[f"{me.name}.key"]},
            "listeners": ["udp://0.0.0.0:11010"],
            "peer": [{"uri": f"udp://{peer.wan_address}:11010"} for peer in peers if peer.number > me.number],
            "proxy_network": [{"cidr": me.lan}],
            "stun_servers": [],
            "tcp_stun_servers": [],
            "stun_servers_v6": [],
            "flags": {
                "dev_name": DEVICE,
                "encryption_algorithm": self.offers.ciphers[params["cipher"]],
                "proxy_forward_by_system": True,  # else every packet has its gateway's address as its source
                "bind_device": False,
            },
        }
        return {CONFIG: json.dumps(configuration, indent=1) + "\n"}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.spawn("easytier-node", CONFIG, log="easytier")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        routes = node.run("ip", "route", "show", "dev", DEVICE, check=False).stdout.split()
        return all(peer.lan in routes for peer in peers)  # the daemon sets one where it knows the peer

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        # It names no cipher. One who has another secret, or another algorithm, reads nothing of it: tried.
        carried = {tunnel_of(event) for event in map(json.loads, node.read_log("easytier").splitlines())} - {""}
        if carried != {"udp"}:
            raise ProofError(f"udp was asked for, and EasyTier's peers came by {', '.join(carried) or 'nothing'}")
        return Evidence(
            cipher=self.offers.ciphers[params["cipher"]],
            integrity="aead",
            compression="off",
            key_exchange="none",
            data_path="userspace: easytier on TUN",
            version=node.run("easytier-node", "--version").stdout.strip(),
        )


def tunnel_of(event: dict[str, object]) -> str:
    """What the peer of this event came by; empty for an event of another kind."""
    added = event.get("PeerConnAdded")
    tunnel = added.get("tunnel", {}) if isinstance(added, dict) else {}
    return str(tunnel.get("tunnel_type", ""))


EasyTier.declared = Declared(
    Security(
        protocol="own",
        specification="none but its source",
        authentication=("pre-shared key",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("its makers", "the wheel of 2.6.4", "2026"),
        sources=("the README of easytier-pyo3 0.1.3 on PyPI (network_secret, encryption_algorithm, secure_mode)",),
        as_of="2026-11-28",
        unchecked=(
            "its source: how the key is made of the secret; secure_mode, with keys of each node, is not set up",
        ),
    ),
    Abilities(
        inner=("IPv4",),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=False,  # not tried
        routes="daemon",
        mesh=True,
        mesh_how="one daemon; a peer tells of the others",
    ),
)
