"""tinc 1.0: a mesh that routes by itself. One daemon a gateway, RSA keys, packets in UDP, TUN in router mode.

A site has the host files of the next sites alone, and dials one: tincd learns the others, and passes on their session
keys. Then two sites talk directly. In 1.0, the sites between them could read those keys; 1.1 hides them (SPTPS).
Debian: tinc. Sources: tinc.conf(5), tincd(8), the tinc manual's chapters "Configuration", "Technical information".
Encrypted packets have no IV of their own: each begins with a sequence number, and the key's IV stays (manual 6.3).
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, higher_numbered, lower_numbered
from runner.vpn import closed_form
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, Timer, log_mark
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._links import exists
from vpns._openssl import LEGACY_PROVIDER

HOME = "/etc/tinc/vpneval"
# OpenSSL's numbers (obj_mac.h), by which tincd names algorithms in its dump of nodes.
NUMBERS = {
    "aes-128-cbc": "419",
    "aes-192-cbc": "423",
    "aes-256-cbc": "427",
    "3des-cbc": "44",
    "blowfish-128-cbc": "91",
    "null": "0",
    "none": "0",
    "hmac-md5": "4",
    "hmac-sha1": "64",
    "hmac-sha256": "672",
}
HAS_KEY = 0x2  # of a node's status: validkey (node.h)
# tincd runs these two: when it has its interface, and when it learns whose network a site has, its own included.
# An MTU of 1400 fits into 1500 with every cipher, digest and compressor.
TINC_UP = """\
#!/bin/sh
ip link set "$INTERFACE" mtu 1400 up
"""
SUBNET_UP = """\
#!/bin/sh
case "$SUBNET" in *:*) own= ;; *) own="src {me.lan_address}" ;; esac
[ "$NODE" = {me.name} ] || ip route replace "$SUBNET" dev "$INTERFACE" $own
"""
DIGEST_BYTES = {"none": 0, "hmac-md5": 16, "hmac-sha1": 20, "hmac-sha256": 32}


class Tinc(Vpn):
    title = "tinc 1.0"
    sign = Sign(
        ("tincd",),
        tells=(
            "Mode",
            "ConnectTo",
            "Cipher",
            "Digest",
            "MACLength",
            "Compression",
            "PMTU",
            "PMTUDiscovery",
            "TCPOnly",
            "Address",
            "Subnet",
            "ClampMSS",
            "ReplayWindow",
            "Port",
        ),
        config={
            **dict.fromkeys(("net", "n"), ("/etc/tinc/{}/tinc.conf", "/etc/tinc/{}/hosts/*")),
            **dict.fromkeys(("config", "c"), ("{}/tinc.conf", "{}/hosts/*")),
        },
    )
    dataplane = "userspace"
    transport = "udp"
    roams = "both"
    ports = "tcp/655 udp/655"
    outer_ipv6 = inner_ipv6 = several_networks = True
    copies_marks = True  # PriorityInheritance
    modules = "tun"
    software = Software({"tincd": "tinc"}, openssl=True)
    offers = Offers(
        ciphers={
            "aes-128-cbc": "aes-128-cbc",
            "aes-192-cbc": "aes-192-cbc",
            "aes-256-cbc": "aes-256-cbc",
            "3des-cbc": "des-ede3-cbc",
            "blowfish-128-cbc": "bf-cbc",
            "null": "none",
        },
        integrities={"hmac-md5": "md5", "hmac-sha1": "sha1", "hmac-sha256": "sha256", "none": "none"},
        compressions={"off": "0", "on": "6"},  # zlib 1-9, lzo 10 and 11
        limits={"cipher": "tinc 1.0 has no AEAD, only ciphers in CBC mode with a digest"},
    )
    comparable = AES_CBC
    recommended = {"cipher": "aes-256-cbc", "integrity": "hmac-sha256", "compression": "off"}  # the defaults

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        if params["compression"] != "off":
            return None
        return closed_form.tinc(inner_bytes, params["cipher"], params["integrity"])

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets = {}
        for site in sites:
            home = f"/root/vpneval-ca/{site.name}"
            ca.run("mkdir", "-pm", "700", home)
            ca.run("tincd", "--config", home, "--generate-keys=2048")
            secrets[f"{site.name}.key"] = ca.run("cat", f"{home}/rsa_key.priv").stdout
            secrets[f"{site.name}.pub"] = ca.run("cat", f"{home}/rsa_key.pub").stdout
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        config = f"Name = {me.name}\nMode = router\nInterface = tinc0\n"
        config += f"AddressFamily = ipv{me.path_version}\n{ping(me.keepalive_s)}\n"
        known = next_to(me, peers)
        config += "".join(f"ConnectTo = {peer.name}\n" for peer in higher_numbered(me, known))
        if "rekey_every_s" in params:
            config += f"KeyExpire = {params['rekey_every_s']}\n"
        cipher, digest = self.offers.ciphers[params["cipher"]], self.offers.integrities[params["integrity"]]
        if "marks" in params:
            config += "PriorityInheritance = yes\n"
        files = {
            f"{HOME}/tinc.conf": config,
            f"{HOME}/rsa_key.priv": secrets[f"{me.name}.key"],
            f"{HOME}/openssl.cnf": LEGACY_PROVIDER,
            f"{HOME}/tinc-up": TINC_UP,
            f"{HOME}/subnet-up": SUBNET_UP.format(me=me),
        }
        for site in (me, *known):
            # Cipher and digest count in one's own file only: each end says what it wants to receive.
            # The whole digest: the default is 4 bytes of it. No path MTU discovery: until that ends, after seconds,
            # tincd sends long packets over TCP, and the interface's MTU is chosen to fit.
            there = site.wan_address and not (site is me and moves(params, me))
            address = f"Address = {site.wan_address}\n" if there else ""
            files[f"{HOME}/hosts/{site.name}"] = (
                f"{address}{subnets(site, params)}"
                f"Cipher = {cipher}\nDigest = {digest}\n"
                f"MACLength = {DIGEST_BYTES[params['integrity']]}\nPMTUDiscovery = no\n"
                f"Compression = {self.offers.compressions[params['compression']]}\n"
                f"{secrets[f'{site.name}.pub'].strip()}\n"
            )
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        legacy = ("env", f"OPENSSL_CONF={HOME}/openssl.cnf") if params["cipher"] == "blowfish-128-cbc" else ()
        node.run("chmod", "700", f"{HOME}/tinc-up", f"{HOME}/subnet-up")
        node.defer("rm", "-f", "/run/tinc.vpneval.pid")
        node.spawn(*legacy, "tincd", "--net=vpneval", "--no-detach", "--debug=3", log="tincd")
        wait_until(lambda: exists(node, "tinc0"), "tincd's interface")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        """Have the keys of the next sites come? tincd asks for those of farther ones when it has a packet for them."""
        by_node = nodes(self.dump(node))
        return all(int(by_node.get(peer.name, {}).get("status", "0"), 16) & HAS_KEY for peer in next_to(me, peers))

    def dump(self, node: Node) -> str:
        """tincd's log, after it was asked to dump its nodes, edges and subnets there (tincd(8), SIGUSR2)."""
        node.run("tincd", "--net=vpneval", "--kill=USR2", check=False)
        return node.read_log("tincd")

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        numbers = nodes(self.dump(node))[peers[0].name]
        wanted = {factor: NUMBERS[params[factor]] for factor in ("cipher", "integrity")}
        wanted["compression"] = self.offers.compressions[params["compression"]]
        for factor, number in wanted.items():
            if numbers[factor] != number:
                raise ProofError(f"asked for {factor} {params[factor]} ({number}), tincd has number {numbers[factor]}")
        digest = self.offers.integrities[params["integrity"]]
        return Evidence(
            cipher=self.offers.ciphers[params["cipher"]],
            integrity=digest if digest == "none" else f"{digest}, {numbers['mac_bytes']} bytes",
            compression="off" if params["compression"] == "off" else f"zlib {numbers['compression']}",
            key_exchange="RSA-2048",  # the protocol has no other; keys as long as the plugin makes them
            data_path="userspace: tincd on TUN",
            version=" ".join(node.run("tincd", "--version").stdout.split()[:3:2]),
        )

    def lifecycle(self) -> Lifecycle:
        rekeying = Rekeying(("clock",), mark=log_mark("tincd", "Expiring symmetric keys"))
        return Lifecycle(rekeying, (Timer(ping(), "tinc.conf(5)"),))


def next_to(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The one site that dials ``me``, and the one that ``me`` dials, by their numbers."""
    before, after = lower_numbered(me, peers), higher_numbered(me, peers)
    return sorted(before, key=lambda peer: peer.number)[-1:] + sorted(after, key=lambda peer: peer.number)[:1]


def subnets(site: Site, params: Params) -> str:
    """The site's networks, those of IPv6 where it has to pass, too."""
    return "".join(f"Subnet = {network}\n" for network in site.networks(ipv6="inner" in params))


def ping(seconds: int = 0) -> str:
    """How often tinc pings a connection that is idle; 10 s where none are given."""
    return f"PingInterval = {seconds or 10}"


def nodes(log: str) -> dict[str, dict[str, str]]:
    """Node -> what tincd's last dump says of it: the numbers of its algorithms, and its status as hexadecimal bits."""
    line = r" (\w+) at .* cipher (\d+) digest (\d+) maclength (\d+) compression (\d+) options \w+ status (\w+) "
    names = ("cipher", "integrity", "mac_bytes", "compression", "status")
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in re.findall(line, log)}


Tinc.declared = Declared(
    Security(
        protocol="own",
        specification="The tinc manual, chapter 6",
        authentication=("public key",),
        key_exchange="RSA-2048 encrypts the session keys",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", "1.0.36", "2019", "1.1, with a better protocol, never left its previews"),
        sources=(
            "The tinc manual of 1.0.36, 6.3; its README, Security statement",
            "https://www.tinc-vpn.org/security/",
            "CVE-2018-16737, CVE-2018-16758 (cve.org)",
            "Debian's changelog of tinc 1.0.36-2.1 (1.0.36-1: 2019-08-26)",
        ),
        as_of="2026-11-21",
        flaws=(
            "CVE-2018-16737, -16738, -16758: authentication oracle and missing authentication, fixed in 1.0.35",
            "a packet that has come already, sent again from another address, moves the peer there until it sends "
            "again: the address is taken over before the packet's number is looked at "
            "(net_packet.c, handle_incoming_vpn_data; tried on 2026-11-22)",
            "in a mesh, the sites between two others pass on their session keys, and can read them "
            "(protocol_key.c, ans_key_h)",
        ),
        known_breaks=("A counter as IV, and RSA without padding or forward secrecy (manual 6.3; Gutmann 2003)",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        otherwise=("Ethernet",),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=True,
        routes="daemon",
        mesh=True,
        mesh_how="one daemon, which also finds ways through others",
    ),
)
