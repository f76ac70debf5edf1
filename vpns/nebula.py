"""Nebula, Slack's mesh: certificates of a CA of its own, Noise handshakes, packets in UDP, a TUN.

Here without a lighthouse: every gateway knows the others' addresses. A LAN behind a gateway is an "unsafe route"; the
gateway's certificate must name it. A tunnel is made when the first packet needs it. Debian: nebula. Version 1.10, which
the layer vagrant/layers/nebula-1.10.sh builds, has certificates of version 2, and so IPv6 inside.
Sources: https://nebula.defined.net/docs/config/; the example configuration; the Noise Protocol Framework.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address, is_address
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Version, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._certificates import ca_days_of, days_of, has_ca, seconds_of

HOME = "/etc/nebula/vpneval"
ANY = "    - port: any\n      proto: any\n      host: any\n"  # a rule of the firewall


class Nebula(Vpn):
    title = "Nebula"
    sign = Sign(
        ("nebula",),
        tells=(
            "cipher",
            "mtu",
            "dev",
            "routines",
            "tx_queue",
            "read_buffer",
            "write_buffer",
            "am_relay",
            "use_relays",
            "tun_disabled",
        ),
        config={"config": ("{}", "{}/*.yml", "{}/*.yaml")},
    )
    dataplane = "userspace"
    transport = "udp"
    roams = "both"
    devices = "nebula0"
    ports = "udp/4242"
    outer_ipv6 = several_networks = True
    modules = "tun"
    software = Software({"nebula": "nebula", "nebula-cert": "nebula"})
    offers = Offers(
        ciphers={"aes-256-gcm": "aes", "chacha20-poly1305": "chachapoly"},
        integrities={},
        limits={"cipher": "Nebula has AES-256-GCM and ChaCha20-Poly1305", "compression": "Nebula does not compress"},
    )
    comparable = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}  # the default as well
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        here = "/root/vpneval-ca/"
        ca.run("mkdir", "-pm", "700", here)
        lasts = ("-duration", f"{24 * ca_days_of(ca)}h") if ca_days_of(ca) else ()
        crt, key = ("-ca-crt", here + "ca.crt"), ("-ca-key", here + "ca.key")
        if not has_ca(ca):
            ca.run("nebula-cert", "ca", "-name", "vpneval", "-out-crt", crt[1], "-out-key", key[1], *lasts)
        lasts_s = seconds_of(ca) or 86400 * days_of(ca)
        lasts = ("-duration", f"{lasts_s}s") if lasts_s else ()
        secrets = {"ca.crt": ca.run("cat", here + "ca.crt").stdout}
        for site in sites:
            out = ("-out-crt", f"{here}{site.name}.crt", "-out-key", f"{here}{site.name}.key")
            ca.run("nebula-cert", "sign", *crt, *key, "-name", site.name, *self.networks(site), *out, *lasts)
            for end in ("crt", "key"):
                secrets[f"{site.name}.{end}"] = ca.run("cat", f"{here}{site.name}.{end}").stdout
        return secrets

    def networks(self, site: Site) -> tuple[str, ...]:
        """What the site's certificate says that it may send: by certificates of version 1 only one network of IPv4."""
        own, behind = f"10.57.0.{site.number}/24", ",".join(site.networks(ipv6=self.inner_ipv6))
        if not self.inner_ipv6:
            return ("-ip", own, "-subnets", behind)
        return ("-networks", f"{own},fd57::{site.number}/64", "-unsafe-networks", behind)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        hosts = "".join(
            f'  "10.57.0.{peer.number}": ["{bracket_address(peer.wan_address)}:4242"]\n'
            for peer in peers
            if peer.wan_address
        )
        # Nebula looks up IPv4 addresses of names, unless it is told otherwise.
        names = not all(is_address(peer.wan_address) for peer in peers if peer.wan_address)
        family = "static_map:\n  network: ip6\n" if names and me.path_version == 6 else ""
        # A NAT forgets a mapping that is idle; a packet every 10 s keeps it, or as often as Nebula looks at a tunnel.
        punchy = "punchy:\n  punch: true\n" if me.public_address or me.keepalive_s else ""
        punchy += f"timers:\n  connection_alive_interval: {me.keepalive_s}\n" if me.keepalive_s else ""
        routes = "".join(
            f"    - route: {lan}\n      via: 10.57.0.{peer.number}\n" for peer in peers for lan in lans(peer, params)
        )
        # A rule without local_cidr is for the gateway's own address, and to earlier versions than 1.10 for any.
        for_lans = "".join(f"{ANY}      local_cidr: {lan}\n" for lan in lans(me, params)) + ANY
        everywhere = "::" if me.path_version == 6 else "0.0.0.0"
        config = f"""\
pki:
  ca: {HOME}/ca.crt
  cert: {HOME}/{me.name}.crt
  key: {HOME}/{me.name}.key
static_host_map:
{hosts}{family}lighthouse:
  am_lighthouse: false
  hosts: []
listen:
  host: "{everywhere if moves(params, me) else me.wan_address}"
  port: 4242
{punchy}cipher: {self.offers.ciphers[params["cipher"]]}
tun:
  dev: nebula0
  mtu: 1400
  unsafe_routes:
{routes}logging:
  level: info
firewall:
  outbound:
{for_lans}  inbound:
{for_lans}"""
        return {
            f"{HOME}/config.yml": config,
            f"{HOME}/ca.crt": secrets["ca.crt"],
            f"{HOME}/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"{HOME}/{me.name}.key": secrets[f"{me.name}.key"],
        }

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.spawn("nebula", "-config", f"{HOME}/config.yml", log="nebula")
        wait_until(lambda: node.run("test", "-d", "/sys/class/net/nebula0", check=False).code == 0, "nebula0 there")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return set(handshakes(node.read_log("nebula"))) >= {peer.name for peer in peers}

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        # The name of the cipher goes into the hash of the handshake (Noise §8): with another one at either end there
        # is no session at all, and nebula tells neither. So: what it was configured with, and that it has a session.
        configured = node.run("grep", "^cipher:", f"{HOME}/config.yml").stdout.split()[1]
        if configured != self.offers.ciphers[params["cipher"]]:
            raise ProofError(
                f"asked for {self.offers.ciphers[params['cipher']]}, nebula is configured with {configured}"
            )
        if peers[0].name not in handshakes(node.read_log("nebula")):
            raise ProofError(f"nebula has had no handshake with {peers[0].name}")
        return Evidence(
            cipher=configured,
            integrity="aead",
            compression="off",
            key_exchange="Curve25519",  # of certificates that nebula-cert makes unless told otherwise
            data_path="userspace: nebula on TUN",
            version="nebula " + node.run("nebula", "-version").stdout.partition(": ")[2].strip(),
        )


def lans(site: Site, params: Params) -> list[str]:
    """The networks behind a gateway; those of IPv6 where it has to pass, too."""
    return [*site.networks(ipv6="inner" in params)]


def handshakes(log: str) -> list[str]:
    """The names in the certificates of the peers with which nebula has completed a handshake."""
    return re.findall(r'msg="Handshake message (?:received|sent)" certName=(\w+)', log)


Nebula.declared = Declared(
    Security(
        protocol="own",
        specification="Noise_IX (Noise Protocol Framework, revision 34) with certificates of its own",
        authentication=("certificate",),
        key_exchange="Curve25519",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("its makers", "v1.12.0", "2026-10", "Debian 13 has 1.9.3"),
        sources=(
            "https://github.com/slackhq/nebula (README: Noise, ECDH, AES-256-GCM)",
            "https://nebula.defined.net/docs/guides/upgrade-to-cert-v2-and-ipv6/ (IPv6 inside from 1.10 on)",
            "CVE-2026-25793 (cve.org)",
            "the versions of the Go module github.com/slackhq/nebula",
        ),
        as_of="2026-11-21",
        flaws=("CVE-2026-25793: a blocked P-256 certificate gets in again, 1.7.0 to 1.10.2; Curve25519 is used here",),
        unchecked=("https://noiseprotocol.org/noise.html, and that the handshake is IX",),
    ),
    Abilities(
        inner=("IPv4",),  # IPv6 inside needs Nebula 1.10's certificates
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,
        roaming=True,
        routes="configuration",
        mesh=True,
        mesh_how="one daemon, which knows the others' addresses",
    ),
)
Nebula.versions = {
    "1.10": Version(
        "nebula-1.10",
        {
            "inner_ipv6": True,
            "declared": Declared(
                replace(
                    Nebula.declared.security,
                    maintained=Upkeep("its makers", "v1.12.0", "2026-10", "1.10.3 is measured"),
                ),
                replace(Nebula.declared.abilities, inner=("IPv4", "IPv6")),
            ),
        },
    )
}
