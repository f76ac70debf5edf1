"""OpenConnect: the AnyConnect protocol, free. ocserv on the higher-numbered gateway, openconnect dials from the other.

TLS carries the set-up, DTLS the packets; both ends have certificates of a common CA. Debian: ocserv, openconnect.
Sources: ocserv(8), openconnect(8), draft-mavrogiannopoulos-openconnect-04; cipher names as in GnuTLS.
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, higher_numbered, lower_numbered
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, log_mark
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign
from vpns._certificates import certificates

HOME = "/etc/ocserv/vpneval"
MACS = {"hmac-sha1": "SHA1", "hmac-sha256": "SHA256", "aead": "AEAD"}
GNUTLS = {
    ("aes-128-cbc", "hmac-sha1"): "AES-128-CBC:+SHA1",
    ("aes-128-cbc", "hmac-sha256"): "AES-128-CBC:+SHA256",
    ("aes-256-cbc", "hmac-sha1"): "AES-256-CBC:+SHA1",
    ("aes-128-gcm", "aead"): "AES-128-GCM:+AEAD",
    ("aes-256-gcm", "aead"): "AES-256-GCM:+AEAD",
    ("chacha20-poly1305", "aead"): "CHACHA20-POLY1305:+AEAD",
}


CONFIG = dict.fromkeys(("config", "c"), ("{}",))
TOLD = (
    "tcp-port",
    "udp-port",
    "mtu",
    "no-dtls",
    "dtls-ciphers",
    "tls-priorities",
    "compression",
    "device",
    "ipv4-network",
    *("interface", "base-mtu", "gnutls-priority", "dtls12-ciphers", "deflate", "no-deflate"),  # of the end that dials
)


class OpenConnect(Vpn):
    title = "OpenConnect (DTLS)"
    sign = Sign(("openconnect", "ocserv", "ocserv-worker", "ocserv-main"), tells=TOLD, config=CONFIG)
    family = "OpenConnect"
    dataplane = "userspace"
    transport = "udp"
    roams = "dialing"
    devices = "oc*"
    ports = "tcp/443 udp/443"
    outer_ipv6 = inner_ipv6 = several_networks = True
    modules = "tun"
    software = Software({"openconnect": "openconnect", "ocserv": "ocserv", "openssl": "openssl"})
    offers = Offers(
        ciphers={cipher: words.partition(":")[0] for (cipher, _), words in GNUTLS.items()},
        integrities={integrity: MACS[integrity] for _, integrity in GNUTLS if integrity != "aead"},
        limits={
            "cipher": "GnuTLS has no Blowfish and no AES with 192 bits, and by default no 3DES any more",
            "compression": "this plugin leaves the protocol's LZ4 and LZS off, as ocserv does by default",
            "key_exchange": "DTLS takes its keys from TLS 1.2 here, and ML-KEM is for TLS 1.3",
        },
        key_exchanges={"X25519": "ECDHE-X25519"},
    )
    comparable = AES_CBC
    recommended = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}  # what both choose by themselves
    dtls = True
    copies_marks = True  # --passtos, of the end that dials
    connected = "Established DTLS connection"  # said after each rekey, too

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        if (params["cipher"], params["integrity"]) not in GNUTLS:
            return Unsupported(f"TLS has no suite with {params['cipher']} and {params['integrity']} for this")
        return no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def priorities(self, params: Params) -> str:
        """GnuTLS's priority string that leaves one cipher, and TLS 1.2, which DTLS's keys are taken from."""
        words = GNUTLS[params["cipher"], params["integrity"]]
        groups = f":-GROUP-ALL:+GROUP-{params['key_exchange']}" if "key_exchange" in params else ""
        return f"NORMAL:-VERS-ALL:+VERS-TLS1.2:+VERS-DTLS1.2:-CIPHER-ALL:-MAC-ALL:+{words}{groups}"

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = {
            f"{HOME}/ca.crt": secrets["ca.crt"],
            f"{HOME}/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"{HOME}/{me.name}.key": secrets[f"{me.name}.key"],
        }
        if dialers := lower_numbered(me, peers):
            udp = "udp-port = 443\n" if self.dtls else ""
            files[f"{HOME}/ocserv.conf"] = f"""\
auth = "certificate"
listen-host = {me.wan_address}
tcp-port = 443
{udp}run-as-user = nobody
run-as-group = nogroup
socket-file = /run/ocserv-vpneval.socket
isolate-workers = false
server-cert = {HOME}/{me.name}.crt
server-key = {HOME}/{me.name}.key
ca-cert = {HOME}/ca.crt
cert-user-oid = 2.5.4.3
tls-priorities = "{self.priorities(params)}"
dtls-legacy = false
cisco-client-compat = false
device = oc
ipv4-network = 10.55.{me.number}.0
ipv4-netmask = 255.255.255.0
predictable-ips = true
max-clients = 0
max-same-clients = 1
mtu = 1500
dpd = {me.keepalive_s or 30}
keepalive = {me.keepalive_s or 30}
rekey-time = {params.get("rekey_every_s", "172800")}
config-per-user = {HOME}/users/
route-add-cmd = "ip route replace %{{R}} dev %{{D}} src {me.lan_address}"
route-del-cmd = "ip route del %{{R}} dev %{{D}}"
"""
            for peer in dialers:
                iroutes = "".join(f"iroute = {lan}\n" for lan in peer.lans)
                files[f"{HOME}/users/{peer.name}"] = f"{iroutes}explicit-ipv4 = 10.55.{me.number}.{100 + peer.number}\n"
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        if lower_numbered(me, peers):
            node.spawn("ocserv", "--foreground", "--debug=1", "--config", f"{HOME}/ocserv.conf", log="ocserv")
            wait_until(lambda: node.run("ss", "-Hltn", "sport = :443").stdout != "", "ocserv listening")
        for peer in higher_numbered(me, peers):
            device = f"oc{peer.number}"
            node.defer("ip", "link", "del", device)
            node.run("ip", "tuntap", "add", device, "mode", "tun")
            node.run("ip", "addr", "add", f"10.55.{peer.number}.{100 + me.number}", "dev", device)
            node.run("ip", "link", "set", device, "mtu", "1360", "up")
            for lan in peer.lans:
                node.run("ip", "route", "add", lan, "dev", device, "src", me.lan_address)
            node.spawn(
                *("openconnect", f"https://{peer.name}/", f"--resolve={peer.name}:{peer.wan_address}"),
                *(f"--cafile={HOME}/ca.crt", f"--certificate={HOME}/{me.name}.crt", f"--sslkey={HOME}/{me.name}.key"),
                *("--no-system-trust", "--non-inter", "--reconnect-timeout=60", f"--interface={device}"),
                *("--script=true", f"--gnutls-priority={self.priorities(params)}"),
                *(() if self.dtls else ("--no-dtls",)),
                *(("--passtos",) if "marks" in params else ()),
                log=f"openconnect-{peer.name}",
            )

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        dialed = all(self.connected in node.read_log(f"openconnect-{peer.name}") for peer in higher_numbered(me, peers))
        routes = node.run("ip", "route").stdout
        return dialed and all(peer.lan in routes for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        dialed = higher_numbered(me, peers)
        if not dialed:
            return Evidence()  # the dialing side's log has it all
        log = node.read_log(f"openconnect-{dialed[0].name}")
        suites = re.findall(r"(DTLS|HTTPS) .*ciphersuite (\S+)", log, re.IGNORECASE)
        wanted = self.offers.ciphers[params["cipher"]]
        agreed = [suite.rstrip(".") for kind, suite in suites if (kind == "DTLS") is self.dtls]
        if not agreed or wanted not in agreed[-1]:
            raise ProofError(f"asked for {wanted}, openconnect negotiated {agreed or 'nothing'}")
        exchanges = re.findall(r"HTTPS .*ciphersuite \(TLS[\d.]+\)-\(([^)\n]+)\)", log)
        version = re.search(r"OpenConnect version v\S+", node.run("openconnect", "--version").stdout)
        return Evidence(
            cipher=agreed[-1],
            integrity=params["integrity"],
            compression="off",
            key_exchange=exchanges[-1] if exchanges else "",  # DTLS has its keys from TLS
            data_path="userspace: openconnect and ocserv on TUN",
            version=version[0] if version else "",
        )

    def lifecycle(self) -> Lifecycle:
        return Lifecycle(Rekeying(("clock",), mark=log_mark("openconnect-{}", self.connected)))  # ocserv's rekey-time


OpenConnect.declared = Declared(
    Security(
        protocol="own",
        specification="draft-mavrogiannopoulos-openconnect-04 over TLS and DTLS (RFC 8446, RFC 6347)",
        authentication=("certificate", "password"),
        handshake="TLS",
        key_exchange="ECDHE for TLS; DTLS is keyed from it (PSK)",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("Debian", "openconnect 9.12's last update", "2026-01", "its ocserv 1.3.0 is of May 2024"),
        sources=(
            "Debian's ocserv depends on libradcli, by which it asks a RADIUS server",
            "https://www.ietf.org/archive/id/draft-mavrogiannopoulos-openconnect-04.txt (July 2023; it expired)",
            "Debian's changelogs of openconnect 9.12-3+deb13u2 (2026-01-02) and ocserv 1.3.0-2 (2025-05-08)",
            "CVE-2013-1619 (cve.org)",
        ),
        as_of="2026-11-21",
        flaws=("TLS 1.2 with CBC: Lucky Thirteen, a timing attack (CVE-2013-1619), fixed in GnuTLS 3.1.7",),
        unchecked=("that GnuTLS as Debian builds it agrees on no hybrid group",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        # Tried: DTLS within 3 s, TLS alone when DPD has noticed. The new session takes the route from the old one,
        # which ocserv may not have given up yet.
        roaming=True,
        routes="configuration",
        mesh=True,
        mesh_how="a server at each site, and a client for each that has a higher number",
        users=("password", "RADIUS"),
    ),
)
