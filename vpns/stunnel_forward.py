"""stunnel: gw1 listens for the site's hosts and forwards each connection in a TLS connection of its own to host2.

It carries TCP only, to named ports, as SSH port forwarding does. Debian: stunnel4. Source: stunnel(8); RFC 8446.
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import TCP_PORTS, Site, higher_numbered, pair_number
from runner.vpn.declared import Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software
from runner.vpn.sign import Sign
from vpns._certificates import certificates
from vpns._forward import ABILITIES, Forward, local_port

HOME = "/etc/stunnel/vpneval"
# Cipher and integrity -> OpenSSL's cipher suite (openssl-ciphers(1)): those with CBC end with TLS 1.2.
SUITES = {
    ("aes-128-cbc", "hmac-sha256"): "ECDHE-ECDSA-AES128-SHA256",
    ("aes-128-cbc", "hmac-sha1"): "ECDHE-ECDSA-AES128-SHA",
    ("aes-128-gcm", "aead"): "TLS_AES_128_GCM_SHA256",
    ("aes-256-gcm", "aead"): "TLS_AES_256_GCM_SHA384",
    ("chacha20-poly1305", "aead"): "TLS_CHACHA20_POLY1305_SHA256",
}


TOLD = ("accept", "connect", "client", "ciphers", "ciphersuites", "sslVersion", "sslVersionMin", "compression")


class StunnelForward(Forward):
    title = "stunnel (TLS port forwarding)"
    sign = Sign(("stunnel4", "stunnel"), marks=("^connect",), tells=TOLD, config={"": ("{}",)})
    family = "TLS"
    own_connections = True
    ports = "tcp/52010 tcp/52020 tcp/52030"
    software = Software({"stunnel4": "stunnel4", "openssl": "openssl"})
    offers = Offers(
        ciphers={cipher: cipher for cipher, _ in SUITES},
        integrities={integrity: integrity for _, integrity in SUITES if integrity != "aead"},
        limits={
            "cipher": "TLS has no suite with ECDSA certificates and this cipher "
            "(aes-256-cbc goes with SHA-1 or SHA-384)",
            "integrity": "no TLS suite in OpenSSL 3 has MD5, nor is any without integrity",
            "compression": "TLS 1.3 has no compression (RFC 8446 §4.1.2), and Debian's OpenSSL has no zlib",
            "key_exchange": "stunnel 5.74 agrees on X25519MLKEM768 and then resets each connection (its log: "
            "OBJ_nid2obj: unknown nid)",
        },
        key_exchanges={"X25519": "X25519"},
    )
    comparable = AES_CBC
    # The first suite that stunnel(8) lists as the default of "ciphersuites".
    recommended = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        suite = SUITES.get((params["cipher"], params["integrity"]))
        if suite is None:
            return Unsupported(f"TLS has no ECDSA suite with {params['cipher']} and {params['integrity']}")
        flag = ("-tls1_3", "-ciphersuites", suite) if suite.startswith("TLS_") else (suite,)
        known = node.run("openssl", "ciphers", "-s", *flag, check=False)
        return Unsupported.tool(f"openssl ciphers: {known.stderr.strip()}") if suite not in known.stdout else None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        suite = SUITES[params["cipher"], params["integrity"]]
        tls = f"ciphersuites = {suite}\n" if suite.startswith("TLS_") else f"sslVersion = TLSv1.2\nciphers = {suite}\n"
        if "key_exchange" in params:
            tls += f"curves = {params['key_exchange']}\n"
        config = (
            f"foreground = yes\npid =\ndebug = info\nsyslog = no\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
            f"CAfile = {HOME}/ca.crt\ncert = {HOME}/{me.name}.crt\nkey = {HOME}/{me.name}.key\nverifyChain = yes\n{tls}"
        )
        for peer in peers:
            for port in TCP_PORTS:
                outside = 10 * port + pair_number(me, peer)  # on the WAN, one for each pair and inner port
                if me.number < peer.number:
                    config += (
                        f"[{peer.name}.{port}]\nclient = yes\naccept = {me.lan_address}:{local_port(me, peer, port)}\n"
                        f"connect = {peer.wan_address}:{outside}\ncheckHost = {peer.name}\n"
                    )
                else:
                    config += (
                        f"[{peer.name}.{port}]\naccept = {me.wan_address}:{outside}\n"
                        f"connect = {me.host_address}:{port}\ncheckHost = {peer.name}\n"
                    )
        return {
            f"{HOME}/stunnel.conf": config,
            f"{HOME}/ca.crt": secrets["ca.crt"],
            f"{HOME}/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"{HOME}/{me.name}.key": secrets[f"{me.name}.key"],
        }

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.spawn("stunnel4", f"{HOME}/stunnel.conf", log="stunnel")
        wait_until(lambda: node.run("ss", "-Hltn", "sport >= :5201").stdout != "", "stunnel listening")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        """stunnel listens; it dials for each connection that it forwards."""
        return "Configuration successful" in node.read_log("stunnel")

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        if not higher_numbered(me, peers):
            return Evidence()  # the dialing side's log has it all
        spoken = set(re.findall(r"(TLSv\S+) ciphersuite: (\S+)", node.read_log("stunnel")))
        suites = {name for _, name in spoken}
        suite = SUITES[params["cipher"], params["integrity"]]
        if suites != {suite}:
            raise ProofError(f"asked for {suite}, stunnel negotiated {', '.join(sorted(suites)) or 'nothing'}")
        exchanges = re.findall(r"Peer temporary key: ([^,\s]+)", node.read_log("stunnel"))
        version = re.search(r"stunnel \d\S*", node.read_log("stunnel"))
        return Evidence(
            cipher=suite,
            integrity=params["integrity"],
            compression="off",
            key_exchange=exchanges[-1] if exchanges else "",
            data_path="userspace: stunnel",
            version=version[0] if version else "",
            facts={"protocol": spoken.pop()[0]},
        )


StunnelForward.declared = Declared(
    Security(
        protocol="standard",
        specification="TLS 1.3 (RFC 8446), TLS 1.2 (RFC 5246) for suites with CBC",
        authentication=("certificate", "pre-shared key"),
        handshake="TLS",
        key_exchange="ECDHE: X25519, the first of stunnel's own list of curves",
        forward_secrecy=True,
        post_quantum=False,  # stunnel names its curves itself, so that OpenSSL's hybrid default does not count
        maintained=Upkeep("its makers", "5.74", "2024-12"),
        sources=(
            "stunnel(8) 5.74: curves, ciphersuites; its log in this lab",
            "stunnel's NEWS (5.74: 2024-12-13)",
            "OpenSSL's CHANGES: CVE-2013-0169, 1.0.1e",
            "https://github.com/advisories/GHSA-pg96-42c4-p633 (Lucky Thirteen)",
        ),
        as_of="2026-11-21",
        flaws=(
            "TLS 1.2 with CBC: Lucky Thirteen, a timing attack (AlFardan and Paterson, IEEE S&P 2013; CVE-2013-0169), "
            "fixed in OpenSSL 1.0.1e",
        ),
        unchecked=("RFC 8446 and RFC 5246 were not read again",),
    ),
    ABILITIES,
)
