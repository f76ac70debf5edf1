"""VTun over UDP, one of the OSLV paper's. One shared password, one session for each pair of gateways, TUN.

Debian 12 only: vtun left Debian afterwards. Sources: vtund(8), vtund.conf(5). Its encryption has no integrity, and its
key is MD5 of the password; the proof decides whether it encrypts at all (docs/systems.md says what was found).
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, higher_numbered, lower_numbered, pair_number
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign
from vpns._openssl import LEGACY_PROVIDER

CONFIG = "/etc/vtund-vpneval.conf"
OPENSSL_CNF = "/etc/vtund-vpneval.openssl.cnf"
PORT = 5000


VTUND = ("type", "proto", "compress", "encrypt", "speed", "keepalive", "port", "multi")


class Vtun(Vpn):
    title = "VTun (UDP)"
    sign = Sign(("vtund",), tells=VTUND, config={"f": ("{}",), "default": ("/etc/vtund.conf",)})
    family = "VTun"
    dataplane = "userspace"
    modules = "tun"
    transport = "udp"
    inner_ipv6 = True
    note = "no integrity; ECB shows equal blocks; no longer maintained"
    software = Software({"vtund": "vtun, which Debian 12 has: --image bookworm", "openssl": "openssl"})
    offers = Offers(
        ciphers={"aes-128-ecb": "aes128ecb", "blowfish-128-ecb": "blowfish128ecb", "null": "no"},
        integrities={"none": "none"},
        compressions={"off": "no", "on": "zlib:6"},
        limits={
            "cipher": "VTun has AES and Blowfish with 128 and 256 bits, and no AEAD; its CBC continues from packet "
            "to packet, so that over UDP the first lost packet ends the session; only ECB remains",
            "integrity": "VTun has no integrity",
        },
    )
    comparable = {"cipher": "aes-128-ecb", "integrity": "none", "compression": "off"}
    recommended = {"cipher": "blowfish-128-ecb", "integrity": "none", "compression": "off"}  # `encrypt yes`
    protocol = "udp"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        password = ca.run("openssl", "rand", "-hex", "24").stdout.strip()
        return {f"{site.name}.key": password for site in sites}  # one for all

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        config = f"options {{\n    port {PORT};\n    timeout 10;\n}}\n"
        for peer in peers:
            config += f"""\
pair{pair_number(me, peer)} {{
    passwd {secrets[f"{me.name}.key"]};
    type tun;
    device vtun{peer.number};
    proto {self.protocol};
    encrypt {self.offers.ciphers[params["cipher"]]};
    compress {self.offers.compressions[params["compression"]]};
    keepalive yes;
    persist yes;
}}
"""
        return {CONFIG: config, OPENSSL_CNF: LEGACY_PROVIDER}

    def interfaces(self, node: Node, me: Site, peers: Sequence[Site]) -> None:
        """TUNs that are up before vtund attaches to them: a packet for one that is not ends the session (EIO)."""
        for peer in peers:
            device, number = f"vtun{peer.number}", pair_number(me, peer)
            first, second = f"10.54.{number}.1", f"10.54.{number}.2"
            mine, theirs = (first, second) if me.number < peer.number else (second, first)
            node.defer("ip", "link", "del", device)
            node.run("ip", "tuntap", "add", device, "mode", "tun")
            node.run("ip", "addr", "add", mine, "peer", theirs, "dev", device)
            node.run("ip", "link", "set", device, "mtu", "1400", "up")
            node.run("ip", "route", "add", peer.lan, "dev", device, "src", me.lan_address)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        self.interfaces(node, me, peers)
        # OpenSSL 3 has Blowfish in its legacy provider only, and vtund waits for ever without it.
        vtund = ("env", f"OPENSSL_CONF={OPENSSL_CNF}", "vtund", "-n", "-f", CONFIG)
        if lower_numbered(me, peers):
            node.spawn(*vtund, "-s", "-L", me.wan_address, log="vtund-server")
            wait_until(lambda: node.run("ss", "-Hltn", f"sport = :{PORT}").stdout != "", "vtund listening")
        for peer in higher_numbered(me, peers):
            node.spawn(*vtund, "-p", f"pair{pair_number(me, peer)}", peer.wan_address, log=f"vtund-{peer.name}")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        links = node.run("ip", "-o", "link", "show", "up").stdout.splitlines()
        carriers = [line for line in links if "LOWER_UP" in line]
        return all(any(f" vtun{peer.number}:" in line for line in carriers) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        for peer in peers:
            if " tun " not in node.run("ip", "-d", "link", "show", f"vtun{peer.number}").stdout:
                raise ProofError(f"vtun{peer.number} is no TUN")
        version = re.search(r"VTun ver \S+ \S+", node.run("vtund", "-h", check=False).stdout)
        return Evidence(
            cipher=self.offers.ciphers[params["cipher"]],
            integrity="none",
            compression=self.offers.compressions[params["compression"]],
            data_path="userspace: vtund on TUN",
            version=version[0] if version else "vtund",
        )


Vtun.declared = Declared(
    Security(
        protocol="own",
        specification="none but its source",
        authentication=("pre-shared key",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", "Debian's last", "2019", "Debian 13 has none"),
        sources=(
            "Debian's README.Encryption of vtun 3.0.4: known to be very insecure; for casual eavesdroppers only",
            "Debian's changelog of vtun 3.0.4-2 (2019-11-10)",
        ),
        as_of="2026-11-21",
        known_breaks=(
            "P. Gutmann, Linux's answer to MS-PPTP (2003): no integrity, password as key, replay",
            "the password itself is the key (MD5, no salt): it can be guessed from a captured log-in",
        ),
        unchecked=("Gutmann's text, to which the README points, and vtun's source were not opened again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        otherwise=("Ethernet",),
        outer=("IPv4",),
        nat=True,
        tcp_443=True,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="a session for each peer, with one password for all",
    ),
)
