"""fastd: a small daemon of the German community networks. Key pairs, packets in UDP, one TUN for each peer.

Debian: fastd. Sources: fastd(1); https://fastd.readthedocs.io/ (Configuration, Crypto methods, Protocol).
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address, is_address
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._links import exists

HOME = "/etc/fastd/vpneval"
STATUS = "/run/fastd-vpneval.status"


class Fastd(Vpn):
    title = "fastd"
    sign = Sign(
        ("fastd",),
        tells=("mode", "mtu", "bind", "method", "peer", "remote", "float", "interface", "offload"),
        config=dict.fromkeys(("config", "c"), ("{}",)),
    )
    dataplane = "userspace"
    transport = "udp"
    ports = "udp/10000"
    outer_ipv6 = inner_ipv6 = several_networks = True
    roams = "both"
    # Two handshakes that cross make a session each, and each end keeps the one that it began: nothing passes until the
    # next handshake, some 20 s later (src/protocols/ec25519_fhmqvc/handshake.c, establish_handshake_timeout).
    one_end_first = True
    modules = "tun"
    software = Software({"fastd": "fastd", "socat": "socat"})
    offers = Offers(
        ciphers={"aes-128-gcm": "aes128-gcm", "salsa2012-umac": "salsa2012+umac", "null": "null+salsa2012+umac"},
        # "null" is authenticated all the same, by the UMAC of its method.
        integrities={"hmac-sha256": "umac"},
        limits={
            "cipher": "fastd has stream ciphers only: AES-128 in counter mode, Salsa20, Salsa20/12",
            "compression": "fastd does not compress",
        },
    )
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    # The method of fastd's own example configuration (documentation, "Example configuration").
    recommended = {"cipher": "salsa2012-umac", "integrity": "aead", "compression": "off"}

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params) or no_tun(node):
            return no
        method = self.offers.ciphers[params["cipher"]]
        known = node.run("fastd", "--config", "-", "--verify-config", input=f'method "{method}";\n', check=False)
        if "not supported" in known.stderr:
            return Unsupported.tool(f"fastd: {known.stderr.strip()}")
        return None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets = {}
        for site in sites:
            secret = ca.run("fastd", "--generate-key", "--machine-readable").stdout.strip()
            show = ("fastd", "--config", "-", "--show-key", "--machine-readable")
            secrets[f"{site.name}.key"] = secret
            secrets[f"{site.name}.pub"] = ca.run(*show, input=f'secret "{secret}";\n').stdout.strip()
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        method = self.offers.ciphers[params["cipher"]]
        mine = "any" if moves(params, me) else bracket_address(me.wan_address)
        config = (
            f'mode tun;\nmtu 1400;\nbind {mine}:10000;\nmethod "{method}";\n'
            f'secret "{secrets[f"{me.name}.key"]}";\nstatus socket "{STATUS}";\npersist interface yes;\n'
        )
        for peer in peers:
            # A NAT may give the peer another port: if it has seen a packet of ours to this one, it does.
            floats = "    float yes;\n" if moves(params, peer) or peer.public_address else ""
            to = (
                bracket_address(peer.wan_address)
                if is_address(peer.wan_address)
                else f'ipv{me.path_version} "{peer.wan_address}"'
            )
            remote = f"    remote {to}:10000;\n" if peer.wan_address else ""
            config += (
                f'peer "{peer.name}" {{\n{floats}    key "{secrets[f"{peer.name}.pub"]}";\n'
                f'{remote}    interface "fastd{peer.number}";\n}}\n'
            )
        return {f"{HOME}/fastd.conf": config}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.run("rm", "-f", STATUS)  # of a daemon that was killed: fastd takes it for one that lives
        node.spawn("fastd", "--config", f"{HOME}/fastd.conf", log="fastd")
        for peer in peers:
            device = f"fastd{peer.number}"
            wait_until(partial(exists, node, device), f"{device} there")
            node.run("ip", "link", "set", device, "up")
            for lan in peer.lans:
                node.run("ip", "route", "add", lan, "dev", device, "src", me.lan_address)

    def status(self, node: Node) -> dict[str, Any]:
        """Peer's name -> its connection, from the status socket; {} for one that is not established."""
        answer_json = node.run("socat", "-", f"UNIX-CONNECT:{STATUS}", check=False).stdout
        peers = json.loads(answer_json)["peers"].values() if answer_json else []
        return {peer["name"]: peer["connection"] or {} for peer in peers}

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        connections = self.status(node)
        return all(connections.get(peer.name) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        method = self.status(node)[peers[0].name]["method"]
        if method != self.offers.ciphers[params["cipher"]]:
            raise ProofError(f"asked for {self.offers.ciphers[params['cipher']]}, fastd uses {method}")
        return Evidence(
            cipher=method,
            integrity="UMAC" if "umac" in method else "GMAC",
            compression="off",
            key_exchange="FHMQV-C-Ed25519",  # the protocol has no other
            data_path="userspace: fastd on TUN",
            version=node.run("fastd", "--version").stdout.strip(),
        )


Fastd.declared = Declared(
    Security(
        protocol="own",
        specification="fastd's documentation, ec25519-fhmqvc protocol",
        authentication=("public key",),
        key_exchange="FHMQV-C on the curve of Ed25519; its proof of security was found faulty, without an attack",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("its makers", "v23", "2025-01"),
        sources=(
            "fastd's documentation, crypto/fhmqvc.rst (github.com/neocturne/fastd)",
            "CVE-2020-27638, CVE-2025-24356 (cve.org)",
            "Debian's changelog of fastd 23-2 (2025-03-01)",
        ),
        as_of="2026-11-21",
        flaws=(
            "CVE-2020-27638: one packet stops it; fixed in v21",
            "CVE-2025-24356: spoofed packets are answered 12-fold, with handshakes; fixed in v23, and Debian 12 has 22",
        ),
        unchecked=("https://eprint.iacr.org/2009/408, where FHMQV-C is from",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        otherwise=("Ethernet",),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,
        roaming=True,  # with `float yes` at the peer; tried: 15 s
        routes="operator",
        mesh=True,
        mesh_how="one daemon, with an interface for each peer",
    ),
)
