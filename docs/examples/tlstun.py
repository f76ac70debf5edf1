"""IP packets in TLS 1.3 over TCP, by socat and a TUN: a worked example with secrets, not a VPN to use."""

import re
from collections.abc import Sequence
from functools import partial

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, pair_number
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun

HOME = "/etc/tlstun"
SUITE = "TLS_AES_256_GCM_SHA384"
BEST = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}


class TlsTun(Vpn):
    title = "TLS tunnel (socat on TUN)"
    dataplane = "userspace"
    transport = "tcp"
    software = Software({"socat": "socat", "openssl": "openssl"})
    offers = Offers(
        ciphers={"aes-256-gcm": SUITE},
        limits={
            "cipher": "socat takes OpenSSL's first suite of TLS 1.3, and has no option for another",
            "compression": "TLS 1.3 has no compression (RFC 8446 §4.1.2)",
        },
    )
    comparable = BEST
    recommended = BEST

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        new_key = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
        ca.run(*new_key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt")
        made = {"ca.crt": ca.run("cat", "ca.crt").stdout}  # the authority's own key stays on the node, which goes
        for site in sites:
            key, certificate = f"{site.name}.key", f"{site.name}.crt"
            signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-subj", f"/CN={site.name}")
            ca.run(*new_key, *signed, "-keyout", key, "-out", certificate)
            made |= {name: ca.run("cat", name).stdout for name in (key, certificate)}
        return made

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        return {f"{HOME}/{name}": secrets[name] for name in ("ca.crt", f"{me.name}.crt", f"{me.name}.key")}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            device, port = f"tls{peer.number}", 4433 + pair_number(me, peer)
            tls = f"cert={HOME}/{me.name}.crt,key={HOME}/{me.name}.key,cafile={HOME}/ca.crt,verify=1,nodelay"
            tls += f",commonname={peer.name},openssl-min-proto-version=TLS1.3"
            dial = f"OPENSSL:{peer.wan_address}:{port},bind={me.wan_address},retry=600,interval=0.1,{tls}"
            answer = f"OPENSSL-LISTEN:{port},bind={me.wan_address},reuseaddr,{tls}"
            way = dial if me.number < peer.number else answer
            node.spawn("socat", "-d", "-d", "-d", f"TUN,tun-name={device},iff-no-pi", way, log=f"socat-{peer.name}")
            wait_until(partial(exists, node, device), f"{device} there")
            node.run("ip", "link", "set", device, "mtu", "1400", "up")
            node.run("ip", "route", "add", peer.lan, "dev", device, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return all("SSL connection using" in node.read_log(f"socat-{peer.name}") for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        for peer in peers:
            said = node.read_log(f"socat-{peer.name}")
            used = re.findall(r"SSL connection using (\S+)", said)
            if used != [SUITE]:
                raise ProofError(f"asked for {SUITE}, socat used {', '.join(used) or 'nothing'}")
        return Evidence(cipher=SUITE, integrity="aead", compression="off", data_path="userspace: socat, TLS")


def exists(node: Node, device: str) -> bool:
    """Does the gateway have this device?"""
    return node.run("ip", "link", "show", device, check=False).code == 0
