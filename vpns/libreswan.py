"""IPsec with Libreswan's pluto, which began as FreeS/WAN's: IKEv2, ESP in tunnel mode, in the kernel.

Debian lets it stand beside no strongSwan, so that it is a layer (vagrant/layers/libreswan.sh). Sources: ipsec.conf(5),
ipsec.secrets(5), ipsec-whack(8), RFC 7296 (IKEv2), RFC 4303 (ESP).
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AEAD, AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, higher_numbered
from runner.vpn import closed_form
from runner.vpn.declared import SWEET32, Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns._keys import pair_keys, shared_key_name
from vpns._xfrm import forget_afterwards, kernel_esp, never_bare

PLUTO = "/usr/libexec/ipsec/pluto"
DEAD_PEER = ("dpddelay=10", "retransmit-timeout=15")
# What pluto's status calls what was negotiated: with the key's length, which its log leaves out where there is but one.
NEGOTIATED = {
    ("aes-128-cbc", "hmac-sha1"): "AES_CBC_128-HMAC_SHA1_96",
    ("aes-128-cbc", "hmac-sha256"): "AES_CBC_128-HMAC_SHA2_256_128",
    ("aes-192-cbc", "hmac-sha1"): "AES_CBC_192-HMAC_SHA1_96",
    ("aes-192-cbc", "hmac-sha256"): "AES_CBC_192-HMAC_SHA2_256_128",
    ("aes-256-cbc", "hmac-sha1"): "AES_CBC_256-HMAC_SHA1_96",
    ("aes-256-cbc", "hmac-sha256"): "AES_CBC_256-HMAC_SHA2_256_128",
    ("3des-cbc", "hmac-sha1"): "3DES_CBC_192-HMAC_SHA1_96",
    ("3des-cbc", "hmac-sha256"): "3DES_CBC_192-HMAC_SHA2_256_128",
    ("null", "hmac-sha1"): "NULL_000-HMAC_SHA1_96",
    ("null", "hmac-sha256"): "NULL_000-HMAC_SHA2_256_128",
    ("aes-128-gcm", "aead"): "AES_GCM_16_128-NONE",
    ("aes-256-gcm", "aead"): "AES_GCM_16_256-NONE",
    ("chacha20-poly1305", "aead"): "CHACHA20_POLY1305_256-NONE",
}


class Libreswan(Vpn):
    title = "IPsec (Libreswan, kernel ESP)"
    sign = Sign(("pluto",), esp="esp tunnel", asks=(("ipsec", "trafficstatus"),), tells=("006",))
    family = "IPsec"
    dataplane = "kernel"
    speaks = "ikev2-esp"
    transport = "esp"
    ports = "udp/500 udp/4500"
    modules = "esp4"
    software = Software({PLUTO: "libreswan", "ipsec": "libreswan", "openssl": "openssl"}, layer="libreswan")
    offers = Offers(
        ciphers={
            "aes-128-cbc": "aes128",
            "aes-192-cbc": "aes192",
            "aes-256-cbc": "aes256",
            "3des-cbc": "3des",
            "aes-128-gcm": "aes_gcm128",
            "aes-256-gcm": "aes_gcm256",
            "chacha20-poly1305": "chacha20_poly1305",
            "null": "null",
        },
        integrities={"hmac-sha1": "sha1", "hmac-sha256": "sha2_256"},
        compressions={"off": "no", "on": "yes"},
        limits={"cipher": "Libreswan has removed Blowfish (see its CHANGES), and this plugin offers no other ciphers"},
    )
    comparable = AES_CBC
    recommended = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}  # the first of its defaults

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_esp(node, params)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"])

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return pair_keys(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        proposal = self.offers.ciphers[params["cipher"]]
        if params["cipher"] not in AEAD:
            proposal += "-" + self.offers.integrities[params["integrity"]]
        config = "config setup\n    uniqueids=no\n" + (f"    keep-alive={me.keepalive_s}\n" if me.keepalive_s else "")
        keys = ""
        for peer in peers:
            config += f"""
conn {peer.name}
    keyexchange=ikev2
    type=tunnel
    authby=secret
    left={me.wan_address}
    leftid=@{me.name}
    leftsubnet={me.lan}
    right={peer.wan_address}
    rightid=@{peer.name}
    rightsubnet={peer.lan}
    ike=aes128-sha2_256-dh19
    esp={proposal}
    compress={self.offers.compressions[params["compression"]]}
    mobike=no
    {DEAD_PEER[0]}
    {DEAD_PEER[1]}
"""
            keys += f'@{me.name} @{peer.name} : PSK "{secrets[shared_key_name(me, peer)]}"\n'
        return {"/etc/ipsec.conf": config, "/etc/ipsec.secrets": keys}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.run("rm", "-rf", "/var/lib/ipsec/nss")  # of a daemon that was there before: initnss refuses a second time
        node.run("mkdir", "-p", "/run/pluto", "/var/lib/ipsec/nss")
        node.run("ipsec", "initnss")
        node.run("rm", "-f", "/run/pluto/pluto.pid", "/run/pluto/pluto.ctl")  # of a daemon that was killed
        for peer in peers:
            forget_afterwards(node, (me.lan, peer.lan), (me.wan_address, peer.wan_address))
        node.defer("ip", "xfrm", "policy", "deleteall", "proto", "ipv6-icmp")  # its holes for neighbour discovery
        node.spawn(PLUTO, "--config", "/etc/ipsec.conf", "--nofork", "--stderrlog", log="pluto")
        # It empties the kernel's policies when it starts.
        wait_until(lambda: node.run("ipsec", "whack", "--status", check=False).code == 0, "pluto's socket")
        for peer in peers:
            node.run("ipsec", "add", peer.name)
            node.run("ipsec", "ondemand", peer.name)
            # Nothing to the LAN leaves unprotected: pluto's policies go when it goes, and this route stays.
            never_bare(node, to=peer.lan)
            node.defer("ip", "route", "del", peer.lan)
            node.run("ip", "route", "add", peer.lan, "via", peer.wan_address, "src", me.lan_address)
        for peer in higher_numbered(me, peers):
            node.run("ipsec", "up", peer.name)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return all(algorithms(node, peer) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        asked = NEGOTIATED[params["cipher"], params["integrity"]]
        for peer in peers:
            if (agreed := algorithms(node, peer)) != asked:
                raise ProofError(f"asked for {asked}, pluto negotiated {agreed or 'nothing'}")
        compressing = node.run("ip", "xfrm", "state", "list", "proto", "comp").stdout.count("comp deflate")
        compression = "deflate" if compressing >= 2 * len(peers) else "off"
        if (compression == "off") != (params["compression"] == "off"):
            raise ProofError(f"asked for compression {params['compression']}, the kernel has {compression}")
        states = node.run("ip", "xfrm", "state", "count").stdout  # `ip xfrm state` itself prints keys
        in_kernel = re.search(r"count (\d+)", states)
        if not in_kernel or int(in_kernel[1]) < 2 * len(peers):
            raise ProofError(f"ESP is not in the kernel: {states.strip()}")
        cipher, _, integrity = asked.partition("-")
        return Evidence(
            cipher=cipher,
            integrity=integrity,
            compression=compression,
            data_path="kernel: ESP",
            version=node.run("ipsec", "--version", check=False).stdout.strip(),
        )

    def lifecycle(self) -> Lifecycle:
        timers = (Timer("; ".join(DEAD_PEER), "Libreswan's ipsec.conf(5)"),)
        return Lifecycle(Rekeying(("esp", "ike"), renew=rekey), timers)


def rekey(node: Node, peers: Sequence[Site], what: str) -> None:
    """New keys for the child SAs (``esp``) or IKE SAs (``ike``), by ipsec-whack(8); each has a serial number."""
    before, command = established_sas(node, what), "--rekey-child" if what == "esp" else "--rekey-ike"
    for peer in peers:
        node.run("ipsec", "whack", command, "--name", peer.name, "--asynchronous")
    wait_until(lambda: len(established_sas(node, what) - before) >= len(peers), f"new {what} keys on {node.name}")


def established_sas(node: Node, what: str) -> set[str]:
    """The serial numbers of pluto's child SAs (``esp``) or IKE SAs (``ike``)."""
    kind = "CHILD" if what == "esp" else "IKE"
    states = node.run("ipsec", "whack", "--showstates", check=False).stdout
    return set(re.findall(rf"#(\d+): .*ESTABLISHED_{kind}_SA", states))


def algorithms(node: Node, peer: Site) -> str:
    """What pluto's status says of the newest ESP SA of a connection; "" where there is none."""
    status = node.run("ipsec", "whack", "--status", check=False).stdout
    match = re.search(rf'"{peer.name}":\s+ESP algorithm newest: ([^;\s]+)', status)
    return match[1] if match else ""


Libreswan.declared = Declared(
    Security(
        protocol="standard",
        specification="IKEv2 (RFC 7296), ESP (RFC 4303)",
        authentication=("pre-shared key", "certificate", "public key"),
        handshake="IKEv2",
        key_exchange="ECDH, NIST P-256",
        forward_secrecy=True,
        post_quantum=False,  # pre-shared keys can be mixed in (ppk, ipsec.conf(5)); not asked for here
        maintained=Upkeep("its makers", "the last advisories", "2026-10", "Debian 13 has 5.2 of February 2025"),
        sources=(
            "CVE-2026-77206, CVE-2026-94453 (cve.org); ipsec.conf(5) of 5.2: mobike, enable-tcp, ppk",
            "Debian's changelog of libreswan 5.2-2.2 (2025-05-04), and libreswan's own for 5.2 (2025-02-26)",
            SWEET32,
        ),
        as_of="2026-11-21",
        breaks_with={"64-bit blocks": SWEET32},
        flaws=(
            "CVE-2026-77206: a stranger can stop pluto, in versions from 4.7 on; Debian's 5.2-2.2 is of before the fix",
            "CVE-2026-94453: use after free with IKE over TCP, which is off here",
        ),
        unchecked=("RFC 7296, RFC 4303 and RFC 8221 were not read again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,  # RFC 9329 wants a kernel with INET_ESPINTCP; Debian 13's has none
        roaming=False,  # MOBIKE only for a client that gets its address from the peer (modecfgclient, ipsec.conf(5))
        routes="configuration",
        mesh=True,
        mesh_how="one daemon, with a connection for each peer",
        modes=("tunnel", "transport"),
    ),
)
