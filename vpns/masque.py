"""MASQUE: IP packets in HTTP/3 (CONNECT-IP), so that a tunnel looks as a web site does. QUIC datagrams, one TUN.

No program of it is packaged: the layer vagrant/layers/masque.sh builds a small gateway (masque.go) around quic-go's
module connect-ip-go (`vpneval image --layer masque`).
Sources: RFC 9484 (§8.2: site to site), RFC 9221, RFC 9001; github.com/quic-go/connect-ip-go.
"""

import json
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._certificates import certificates
from vpns._links import exists

HOME = "/etc/masque/vpneval"
STATUS = "/run/masque-vpneval"
DEVICE = "masque0"
MTU = "1280"  # the least of IPv6 (RFC 8200 §5), as connect-ip-go tells who sends longer ones (conn.go)


class Masque(Vpn):
    title = "MASQUE CONNECT-IP"
    sign = Sign(("masque",))
    dataplane = "userspace"
    transport = "udp"
    ports = "udp/443"
    devices = DEVICE
    outer_ipv6 = inner_ipv6 = True
    inner_mtu = int(MTU)
    modules = "tun"
    software = Software({"masque": "masque"}, layer="masque")
    note = "MASQUE's gateway is a small program of vpneval's, around quic-go's module"
    offers = Offers(
        ciphers={"aes-128-gcm": "TLS_AES_128_GCM_SHA256"},
        integrities={},
        limits={
            "cipher": "Go's TLS 1.3 takes AES-128-GCM where both CPUs have AES instructions, and lets nobody choose",
            "compression": "QUIC does not compress",
        },
    )
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params) or no_tun(node):
            return no
        if node.run("grep", "-qw", "aes", "/proc/cpuinfo", check=False).code == 0:
            return None
        return Unsupported("masque: this CPU has no AES instructions, without which Go's TLS takes ChaCha20-Poly1305")

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        mine = ("[::]" if me.path_version == 6 else "0.0.0.0") if moves(params, me) else ""
        configuration = {
            "Device": DEVICE,
            "Listen": f"{mine or bracket_address(me.wan_address)}:443",
            "Certificate": f"{HOME}/{me.name}.crt",
            "Key": f"{HOME}/{me.name}.key",
            "Authority": f"{HOME}/ca.crt",
            "Name": me.name,
            "Status": STATUS,
            "Networks": [*me.networks(ipv6="inner" in params)],
            "Peers": [
                {
                    "Name": peer.name,
                    "Networks": [*peer.networks(ipv6="inner" in params)],
                    "Dial": f"{bracket_address(peer.wan_address)}:443" if peer.number > me.number else "",
                }
                for peer in peers
            ],
        }
        own = {f"{HOME}/{name}": secrets[name] for name in ("ca.crt", f"{me.name}.crt", f"{me.name}.key")}
        return {f"{HOME}/gateway.json": json.dumps(configuration, indent=1) + "\n"} | own

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.spawn("masque", f"{HOME}/gateway.json", log="masque")
        wait_until(lambda: exists(node, DEVICE), f"{DEVICE} there")
        node.run("ip", "link", "set", DEVICE, "mtu", MTU, "up")
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "dev", DEVICE, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return all(node.run("test", "-s", f"{STATUS}/{peer.name}", check=False).code == 0 for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        agreed = json.loads(node.run("cat", f"{STATUS}/{peers[0].name}").stdout)
        if agreed["cipher"] != self.offers.ciphers[params["cipher"]]:
            raise ProofError(f"asked for {self.offers.ciphers[params['cipher']]}, MASQUE uses {agreed['cipher']}")
        return Evidence(
            cipher=agreed["cipher"],
            integrity="aead",
            compression="off",
            key_exchange=agreed["exchange"],
            data_path="userspace: masque on TUN",
            version=node.run("masque", "-version").stdout.partition("\n")[0],
        )


Masque.declared = Declared(
    Security(
        protocol="standard",
        specification="RFC 9484 in HTTP/3 (RFC 9114) and QUIC (RFC 9000, 9001, 9221)",
        authentication=("certificate",),
        key_exchange="TLS 1.3: X25519MLKEM768 where both ends have it, as Go's do",
        forward_secrecy=True,
        post_quantum=True,
        maintained=Upkeep("its makers", "connect-ip-go v0.7.0", "2026"),
        sources=("github.com/quic-go/connect-ip-go v0.7.0 (README.md, client.go, conn.go, proxy.go, request.go)",),
        as_of="2026-11-28",
        unchecked=("RFC 9484 §8.2 and §12", "whether quic-go's key update follows the limits of AES-GCM (RFC 9001 §6)"),
        handshake="TLS",
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,
        roaming=True,  # tried: it follows the end that dialled
        routes="operator",
        mesh=True,
        mesh_how="one daemon, with a connection to each peer",
    ),
)
