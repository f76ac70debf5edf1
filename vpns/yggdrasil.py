"""Yggdrasil: end-to-end encrypted IPv6 between keys, and here VXLAN in it, because it routes no networks of sites.

An address is made of the key (200::/7, and 300::/64 behind it), so a site's own network cannot be one. Gateways are
peered by TLS. Debian: yggdrasil, by the layer vagrant/layers/yggdrasil.sh.
Sources: yggdrasil-network.github.io/configurationref.html; github.com/Arceliar/ironwood (encrypted/); ip-link(8).
"""

import json
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address, higher_numbered, pair_number
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._links import exists, kernel_link

HOME = "/etc/yggdrasil/vpneval"
SOCKET = "/run/yggdrasil-vpneval.sock"
VXLAN_PORT = "4789"


class Yggdrasil(Vpn):
    title = "Yggdrasil with VXLAN"
    sign = Sign(("yggdrasil",), link="vxlan")
    dataplane = "userspace"
    transport = "tcp"
    devices = "ygg0"
    ports = "tcp/443"
    outer_ipv6 = inner_ipv6 = True
    modules = "tun vxlan"
    software = Software({"yggdrasil": "yggdrasil", "yggdrasilctl": "yggdrasil"}, layer="yggdrasil")
    note = "Yggdrasil carries its own addresses only: the sites' packets are in VXLAN inside"
    offers = Offers(
        ciphers={"xsalsa20-poly1305": "box"},
        integrities={},
        limits={
            "cipher": "Yggdrasil's sessions have one cipher, XSalsa20-Poly1305 (NaCl's box)",
            "compression": "Yggdrasil does not compress",
        },
    )
    comparable = {"cipher": "xsalsa20-poly1305", "integrity": "aead", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        # The last network identifier there is: the kernel refuses one that a tunnel has already.
        vxlan = ("vxlan", "id", "16777215", "dstport", VXLAN_PORT)
        return super().supports(node, params) or no_tun(node) or kernel_link(node, "VXLAN", *vxlan)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets, here = {}, "/root/vpneval-ca"
        ca.run("mkdir", "-pm", "700", here)
        for site in sites:
            made = f"{here}/{site.name}.json"
            ca.run("sh", "-c", f"umask 077; yggdrasil -genconf -json > {made}")
            key = ca.run("sed", "-n", 's/.*"PrivateKey": "\\(.*\\)".*/\\1/p', made)
            secrets[f"{site.name}.key"] = key.stdout.strip()
            for name, option in (("pub", "-publickey"), ("address.pub", "-address")):
                secrets[f"{site.name}.{name}"] = ca.run("yggdrasil", "-useconffile", made, option).stdout.strip()
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        mine = ("[::]" if me.path_version == 6 else "0.0.0.0") if moves(params, me) else ""
        config = {
            "PrivateKey": secrets[f"{me.name}.key"],
            "Listen": [f"tls://{mine or bracket_address(me.wan_address)}:443"],
            "Peers": [
                f"tls://{bracket_address(peer.wan_address)}:443?key={secrets[f'{peer.name}.pub']}"
                for peer in higher_numbered(me, peers)
            ],
            "AllowedPublicKeys": [secrets[f"{peer.name}.pub"] for peer in peers],
            "MulticastInterfaces": [],
            "AdminListen": f"unix://{SOCKET}",
            "IfName": "ygg0",
            "IfMTU": 65535,
            "NodeInfoPrivacy": True,
        }
        links = "".join(
            f"link add vxlan{peer.number} mtu 1500 type vxlan id {pair_number(me, peer) + 1} "
            f"local {secrets[f'{me.name}.address.pub']} remote {secrets[f'{peer.name}.address.pub']} "
            f"dstport {VXLAN_PORT} dev ygg0\n"
            for peer in peers
        )
        return {f"{HOME}/yggdrasil.conf": json.dumps(config, indent=1) + "\n", f"{HOME}/links": links}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.defer("rm", "-f", SOCKET)
        node.spawn("yggdrasil", "-useconffile", f"{HOME}/yggdrasil.conf", log="yggdrasil")
        wait_until(lambda: exists(node, "ygg0"), "ygg0 there")
        for peer in peers:
            node.defer("ip", "link", "del", f"vxlan{peer.number}")
        node.run("ip", "-batch", f"{HOME}/links")
        for peer in peers:
            number = pair_number(me, peer)
            node.run("ip", "addr", "add", f"10.60.{number}.{me.number}/24", "dev", f"vxlan{peer.number}")
            node.run("ip", "link", "set", f"vxlan{peer.number}", "up")
            node.run("ip", "route", "add", peer.lan, "via", f"10.60.{number}.{peer.number}", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return len(self.ask_daemon(node, "sessions")) >= len(peers)

    def ask_daemon(self, node: Node, what: str) -> list[dict[str, object]]:
        """What the daemon says of its ``peers`` or ``sessions``."""
        ask = ("yggdrasilctl", "-endpoint", f"unix://{SOCKET}", "-json", f"get{what.capitalize()}")
        answer_json = node.run(*ask, check=False).stdout
        return json.loads(answer_json).get(what) or [] if answer_json.startswith("{") else []

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        carrying = [session for session in self.ask_daemon(node, "sessions") if session.get("bytes_sent")]
        if not carrying:
            raise ProofError("yggdrasil has no session that has carried anything")
        build = node.run("yggdrasil", "-version").stdout
        return Evidence(
            cipher="XSalsa20-Poly1305",  # the protocol has no other, nor another key exchange
            integrity="Poly1305",
            compression="off",
            key_exchange="Curve25519",
            data_path="userspace: yggdrasil on TUN, with VXLAN inside",
            version="yggdrasil " + build.partition("version: ")[2].strip(),
        )


Yggdrasil.declared = Declared(
    Security(
        protocol="own",
        specification="none: github.com/Arceliar/ironwood, encrypted/session.go and crypto.go",
        authentication=("public key",),
        key_exchange="Curve25519 (NaCl's box), signed by Ed25519; between peers TLS 1.3 beside it",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("its makers", "0.5.12", "2024"),
        sources=(
            "https://yggdrasil-network.github.io/configurationref.html",
            "github.com/Arceliar/ironwood (encrypted/crypto.go)",
        ),
        as_of="2026-11-26",
        unchecked=("whether it follows a gateway that moves", "https://yggdrasil-network.github.io/faq.html"),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=False,
        routes="operator",
        mesh=True,
        mesh_how="one daemon, with a VXLAN for each peer",
    ),
)
