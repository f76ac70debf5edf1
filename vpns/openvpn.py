"""OpenVPN over UDP: one TLS point-to-point tunnel to each peer, certificates of a common CA, TUN.

Debian: openvpn; version 2.7 is that of its backports. Source: openvpn(8) 2.6. TLS mode carries every cipher of the
thesis, so that no static key is needed; the ciphers that OpenSSL 3 calls legacy need its legacy provider.
"""

import re
from collections.abc import Sequence
from ipaddress import ip_network

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AEAD, AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, lower_numbered, pair_number
from runner.vpn import closed_form
from runner.vpn.declared import SWEET32, Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, Standby, Timer, log_mark
from runner.vpn.plugin import Offers, Secrets, Software, Version, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._certificates import certificates
from vpns._openssl import GROUPS, no_group
from vpns._openvpn_hub import DEVICE, hub_files

CONFIG = {"config": ("{}",), "": ("{}",)}
TOLD = (
    *(
        "proto",
        "dev",
        "dev-type",
        "port",
        "lport",
        "rport",
        "remote",
        "local",
        "cipher",
        "data-ciphers",
        "auth",
        "mode",
    ),
    *("data-ciphers-fallback", "ncp-ciphers", "compress", "comp-lzo", "tun-mtu", "link-mtu", "fragment", "mssfix"),
    *("sndbuf", "rcvbuf", "txqueuelen", "fast-io", "disable-dco", "keepalive", "reneg-sec", "float", "topology"),
    *("server", "ifconfig", "route", "tls-client", "tls-server", "client", "shaper", "multihome", "nice"),
)
LEGACY = ("blowfish-128-cbc",)


class OpenVpn(Vpn):
    title = "OpenVPN (UDP)"
    sign = Sign(("openvpn",), tells=TOLD, config=CONFIG)
    family = "OpenVPN"
    dataplane = "userspace"
    speaks = "openvpn"
    software = Software({"openvpn": "openvpn", "openssl": "openssl"}, openssl=True)
    versions = {"2.7": Version("openvpn-2.7")}
    transport = "udp"
    devices = "tun{peer.number}"
    ports = "udp/1194"
    outer_ipv6 = inner_ipv6 = several_networks = hub_and_spokes = True
    roams = "both"
    copies_marks = True  # passtos
    modules = "tun"
    offers = Offers(
        ciphers={
            "aes-128-cbc": "AES-128-CBC",
            "aes-192-cbc": "AES-192-CBC",
            "aes-256-cbc": "AES-256-CBC",
            "3des-cbc": "DES-EDE3-CBC",
            "blowfish-128-cbc": "BF-CBC",
            "aes-128-gcm": "AES-128-GCM",
            "aes-256-gcm": "AES-256-GCM",
            "chacha20-poly1305": "CHACHA20-POLY1305",
            "null": "none",  # integrity only
        },
        integrities={"hmac-md5": "MD5", "hmac-sha1": "SHA1", "hmac-sha256": "SHA256", "none": "none"},
        compressions={"off": "", "on": "lzo", "lz4": "lz4", "adaptive": "lzo"},  # the thesis used LZO (§5.4)
        key_exchanges=GROUPS,
    )
    comparable = AES_CBC
    # The first of the default --data-ciphers, openvpn(8).
    recommended = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}
    device = "tun"
    offloaded = False  # whether the data channel has to be in the kernel
    hub = False  # whether one process serves all who dial, in the place of one a tunnel

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params) or no_tun(node) or no_group(node, params):
            return no
        cipher = self.offers.ciphers[params["cipher"]]
        if cipher == "none":
            return None  # no cipher to list
        providers = ("--providers", "legacy", "default") if params["cipher"] in LEGACY else ()
        known = node.run("openvpn", "--show-ciphers", *providers, check=False)
        if cipher not in known.stdout:
            return Unsupported.tool(f"openvpn --show-ciphers does not list {cipher} {known.stderr.strip()}".strip())
        return None

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        levels = params["cipher"], params["integrity"], params["compression"]
        return closed_form.openvpn(inner_bytes, *levels, tcp=self.transport == "tcp", ethernet=self.device == "tap")

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = {
            "/etc/openvpn/ca.crt": secrets["ca.crt"],
            f"/etc/openvpn/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"/etc/openvpn/{me.name}.key": secrets[f"{me.name}.key"],
        }
        if self.hub:
            levels = f"data-ciphers {self.offers.ciphers[params['cipher']]}\n{self.options(params)}"
            return files | hub_files(me, peers, params, levels, keepalive(me.keepalive_s))
        return files | self.pairs(me, peers, params)

    def pairs(self, me: Site, peers: Sequence[Site], params: Params) -> dict[str, str]:
        """The configuration of a process for each peer."""
        files = {}
        for peer in peers:
            number = pair_number(me, peer)
            first, second = (f"10.{8 + number // 256}.{number % 256}.{end}" for end in (1, 2))
            mine, theirs = (first, second) if me.number < peer.number else (second, first)
            role = "tls-client" if me.number < peer.number else "tls-server\ndh none"
            # Without a local address it binds to all; --float accepts a new one, and a NAT may change the port, too.
            behind = self.transport == "udp" and peer.public_address
            floats = "float\n" if moves(params, peer) or behind else ""
            local = "" if moves(params, me) else f"local {me.wan_address}\n"
            remote = f"remote {peer.wan_address}\n" if peer.wan_address else ""
            routes = "".join(f"route {network} {netmask}\n" for network, netmask in peer.lans_netmask)
            config = f"""\
dev {self.device}{peer.number}
dev-type {self.device}
proto udp{me.path_version}
{floats}{local}{remote}\
port {1194 + number}
{role}
remote-cert-tls {"server" if me.number < peer.number else "client"}
verify-x509-name {peer.name} name
ca /etc/openvpn/ca.crt
cert /etc/openvpn/{me.name}.crt
key /etc/openvpn/{me.name}.key
data-ciphers {self.offers.ciphers[params["cipher"]]}
disable-dco
topology p2p
ifconfig {mine} {theirs}
{routes}{keepalive(me.keepalive_s)}
verb 3
"""
            config += self.options(params)
            if "behind" in params:
                network = ip_network(params["behind"])
                config += f"client-nat snat {network.network_address} {network.netmask} {me.lan_netmask[0]}\n"
            if "rekey_every_s" in params and me.number < peer.number:
                config += f"reneg-sec {params['rekey_every_s']}\n"  # the shorter of both ends counts
            files[f"/etc/openvpn/{peer.name}.conf"] = config
        return files

    def options(self, params: Params) -> str:
        """The lines of both ends for the levels but for the cipher."""
        lines = ""
        if params["cipher"] not in AEAD:
            lines += f"auth {self.offers.integrities[params['integrity']]}\n"
        if params["cipher"] in LEGACY:
            lines += "providers legacy default\n"
        if params["compression"] == "adaptive":  # comp-lzo's default in 2.3; its parameters are logged
            lines += "comp-lzo adaptive\nallow-compression yes\nverb 4\n"
        elif algorithm := self.offers.compressions[params["compression"]]:
            lines += f"compress {algorithm}\nallow-compression yes\n"
        if "key_exchange" in params:
            lines += f"tls-groups {params['key_exchange']}\n"
        if "marks" in params:
            lines += "passtos\n"
        return lines

    def as_hub(self) -> Vpn:
        if (self.transport, self.device, self.offloaded) != ("udp", "tun", False):
            return self
        kind = type(self)
        changes = {"__module__": kind.__module__, "hub": True, "devices": DEVICE}
        served: Vpn = type(kind.__name__, (kind,), changes)()
        return served

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        if self.hub and lower_numbered(me, peers):
            node.spawn("openvpn", "--config", "/etc/openvpn/hub.conf", log="openvpn-hub")
            return
        for peer in peers:
            node.spawn("openvpn", "--config", f"/etc/openvpn/{peer.name}.conf", log=f"openvpn-{peer.name}")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return all("Initialization Sequence Completed" in node.read_log(f"openvpn-{peer.name}") for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        agreed = parse_log(node.read_log(f"openvpn-{peers[0].name}"))
        if agreed["cipher"] != self.offers.ciphers[params["cipher"]]:
            raise ProofError(f"asked for {params['cipher']}, the data channel has {agreed['cipher'] or 'none'}")
        if params["integrity"] != "aead" and agreed["integrity"] != self.offers.integrities[params["integrity"]]:
            raise ProofError(f"asked for {params['integrity']}, the data channel has {agreed['integrity'] or 'none'}")
        if agreed["compression"] != self.offers.compressions[params["compression"]]:
            raise ProofError(f"asked for compression {params['compression']}, got {agreed['compression'] or 'off'}")
        if bool(adapts(node.read_log(f"openvpn-{peers[0].name}"))) != (params["compression"] == "adaptive"):
            raise ProofError(f"asked for compression {params['compression']}, and the log does not show that it adapts")
        if "dco" in agreed["data_path"] and not self.offloaded:
            raise ProofError("the data channel is offloaded to the kernel, although disable-dco is set")
        if self.offloaded and "dco" not in agreed["data_path"]:
            raise ProofError("the data channel is not offloaded to the kernel; the log says why")
        return Evidence(**agreed)

    def lifecycle(self) -> Lifecycle:
        rekeying = Rekeying(("clock",), mark=log_mark("openvpn-{}", "Control Channel: TLS"))  # no command asks for it
        timers = (Timer(keepalive(), "openvpn(8)"),)
        if self.transport == "tcp":  # its second gateway is not made
            return Lifecycle(rekeying, timers)
        options = "--config /etc/openvpn/{peer.name}.conf --daemon --log-append /run/openvpn.log"
        standby = Standby(
            active=f"pgrep -x openvpn || openvpn {options}",
            passive="pkill -x openvpn",
            alive="test ! -e {active} || pgrep -x openvpn",
        )
        return Lifecycle(rekeying, timers, standby)


def keepalive(seconds: int = 0) -> str:
    """How often it pings, and after how long without an answer it starts again; 10 s where none are given."""
    return f"keepalive {seconds or 10} {6 * (seconds or 10)}"


def parse_log(log: str) -> dict[str, str]:
    """Key exchange, cipher, integrity, compression, data path and version from an OpenVPN 2.6 log at verb 3."""
    peer_key = re.findall(r"peer temporary key: (?:\d+ bits )?(\S+?),?$", log, re.MULTILINE)
    channel = re.findall(r"Data Channel: cipher '([^'\n]+)'(?:, auth '([^'\n]+)')?(.*)", log)
    cipher, integrity, rest = channel[-1] if channel else ("", "", "")
    compression = re.search(r"compression: '([^'\n]+)'", rest)
    device = re.search(r"(TUN/TAP device \S+ opened|DCO device \S+ opened)", log)
    version = re.search(r"OpenVPN (\d\S+)", log)
    paths = {"TUN/TAP": "userspace: openvpn on TUN", "DCO": "kernel: dco"}
    return {
        "key_exchange": peer_key[-1] if peer_key else "",  # with ML-KEM, the answering end alone says it
        "cipher": "none" if cipher == "[null-cipher]" else cipher,
        "integrity": "none" if integrity == "[null-digest]" else integrity,
        "compression": compression[1] if compression and compression[1] != "stub" else "",
        "data_path": paths[device[1].split()[0]] if device else "",
        "version": f"OpenVPN {version[1]}" if version else "",
    }


def adapts(log: str) -> bool | None:
    """Does LZO sample the data, and leave off where it does not shrink (comp-lzo adaptive)? By the parameters that
    OpenVPN 2.6 logs at verb 4 (the lowest bit of comp.flags, comp.h); None where they are not logged."""
    flags = re.search(r"\bcomp\.flags = (\d+)", log)
    return bool(int(flags[1]) & 1) if flags else None


OpenVpn.declared = Declared(
    Security(
        protocol="own",
        specification="OpenVPN's wire protocol, its control channel TLS 1.2 or 1.3 (RFC 8446)",
        authentication=("certificate", "pre-shared key", "password"),
        handshake="TLS",
        key_exchange="TLS, which keys the data channel: X25519MLKEM768 with OpenSSL 3.5 (Debian 13), ECDHE before",
        forward_secrecy=True,
        post_quantum=True,  # its log: "peer temporary key: 768 bits X25519MLKEM768"; not in Debian 12
        maintained=Upkeep("Debian", "the last update of 2.6.14", "2026-07"),
        sources=(
            "Debian's package openvpn-auth-radius 2.1-8, which asks a RADIUS server",
            "https://openvpn.net/community-resources/openvpn-protocol",
            "openvpn(8) 2.6.14, and its log in this lab",
            "https://postquantum.com/security-pqc/openssl-3-5-pqc-default/ (April 2025)",
            "Debian's changelog of openvpn 2.6.14-1+deb13u3 (2026-07-01)",
            "https://sweet32.info/; CVE-2016-6329 (cve.org)",
            "https://github.com/skepticfx/voracle; OpenVPN's commit a59fd147 (2018)",
        ),
        as_of="2026-11-21",
        breaks_with={"64-bit blocks": SWEET32, "compression": "VORACLE for compression (2018)"},
        flaws=("CVE-2025-13086 and eight or more of 2026: crashes, memory errors; fixed up to 2.6.14-1+deb13u3",),
        unchecked=("https://openvpn.github.io/openvpn-rfc/openvpn-wire-protocol.html",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=False,  # of a server's clients only; between two ends it starts anew after ping-restart, tried
        routes="configuration",
        mesh=True,
        mesh_how="a daemon for each peer",
        users=("password", "RADIUS"),
        translates="client-nat",
    ),
)
