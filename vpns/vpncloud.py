"""VpnCloud: a mesh of equal daemons in Rust. Key pairs, packets in UDP, one TUN for all peers.

Not in Debian: the layer vagrant/layers/vpncloud.sh builds the crate vpncloud (`vpneval image --layer vpncloud`).
Sources: vpncloud(1); the crate's own documentation of its protocol (src/crypto/init.rs, src/crypto/core.rs).
"""

import re
from collections.abc import Iterable, Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address
from runner.vpn import closed_form
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, moves, no_tun
from runner.vpn.sign import Sign
from vpns._links import exists

CONFIG = "/etc/vpncloud/vpneval.net"
TIMEOUT = "peer-timeout: 300"
TOLD = {"aes-128-gcm": "AES_128_GCM", "aes-256-gcm": "AES_256_GCM", "chacha20-poly1305": "CHACHA20_POLY1305"}
# It asks for its own address by a connection to 8.8.8.8, to which nothing is sent, and panics without a route
# (src/util.rs, get_internal_ip). The table `default` is looked into where no other has one (ip-rule(8)).
ROUTE = ("8.8.8.8/32", "table", "default")


class VpnCloud(Vpn):
    title = "VpnCloud"
    sign = Sign(
        ("vpncloud",),
        tells=("type", "name", "algorithms", "listen", "peer-timeout", "keepalive", "mode", "port-forwarding"),
        config={"config": ("{}",)},
    )
    dataplane = "userspace"
    transport = "udp"
    devices = "vpncloud0"
    ports = "udp/3210"
    outer_ipv6 = inner_ipv6 = True
    modules = "tun"
    software = Software({"vpncloud": "vpncloud"}, layer="vpncloud")
    offers = Offers(
        ciphers={"aes-128-gcm": "AES128", "aes-256-gcm": "AES256", "chacha20-poly1305": "CHACHA20"},
        integrities={},
        limits={"cipher": "VpnCloud has AEADs only", "compression": "VpnCloud does not compress"},
    )
    # The makers allow all three and let the daemons measure which is the fastest, mostly AES-128.
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.vpncloud(inner_bytes)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        secrets, here = {}, "/root/vpneval-ca"
        ca.run("mkdir", "-pm", "700", here)
        for site in sites:
            pair = f"{here}/{site.name}.pair"
            # The text of a key that begins with a zero byte is too short for 2.3.0 to read it again: one pair of 128.
            short = f"""[ "$(grep -cE ' key: .{{43}}$' {pair})" != 2 ]"""
            ca.run("sh", "-c", f"umask 077; while vpncloud genkey > {pair} || exit; {short}; do :; done")
            for end, words in (("key", "Private key"), ("pub", "Public key")):
                secrets[f"{site.name}.{end}"] = ca.run("sed", "-n", f"s/^{words}: //p", pair).stdout.strip()
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        port = "3210" if moves(params, me) else f"{bracket_address(me.wan_address)}:3210"
        claims = [me.lan, *([me.lan_ipv6] if "inner" in params else [])]
        # Peers without the port, which it adds to any address of IPv6. Its own option for an address of the tunnel sets
        # a wrong one; none is needed.
        return {
            CONFIG: f"""\
device:
  type: tun
  name: vpncloud0
crypto:
  private-key: {secrets[f"{me.name}.key"]}
  public-key: {secrets[f"{me.name}.pub"]}
  trusted-keys: {yaml_list(secrets[f"{peer.name}.pub"] for peer in peers)}
  algorithms: {yaml_list([self.offers.ciphers[params["cipher"]]])}
listen: "{port}"
peers: {yaml_list(bracket_address(peer.wan_address) for peer in peers)}
{TIMEOUT}
{f"keepalive: {me.keepalive_s}" if me.keepalive_s else "keepalive: ~"}
mode: router
claims: {yaml_list(claims)}
auto-claim: false
port-forwarding: false
"""
        }

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.defer("ip", "route", "del", *ROUTE)
        node.run("ip", "route", "replace", *ROUTE, "dev", me.wan_interface)
        # Never with --verbose: its log would have the private key.
        node.spawn("vpncloud", "--config", CONFIG, log="vpncloud")
        wait_until(lambda: exists(node, "vpncloud0"), "vpncloud0 there")
        node.run("ip", "link", "set", "vpncloud0", "mtu", "1427", "up")  # 1500 less 53, and 20 more over IPv6
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "dev", "vpncloud0", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        # By their number: a NAT may have given a peer another address and port than its file says.
        return len({*re.findall(r"Added peer (\S+)", node.read_log("vpncloud"))}) >= len(peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        # Each end names the algorithms that its file allows, and takes no peer with whom it has none in common.
        allowed = allowed_in(node.read_log("vpncloud"))
        wanted = TOLD[params["cipher"]]
        if allowed != [wanted]:
            raise ProofError(f"asked for {wanted}, vpncloud allows {', '.join(allowed) or 'nothing'}")
        return Evidence(
            cipher=wanted,
            integrity="aead",
            compression="off",
            key_exchange="X25519",  # the protocol has no other
            data_path="userspace: vpncloud on TUN",
            version=node.run("vpncloud", "--version").stdout.strip(),
        )

    def lifecycle(self) -> Lifecycle:
        return Lifecycle(timers=(Timer(TIMEOUT, "vpncloud(1)"),))


def yaml_list(texts: Iterable[str]) -> str:
    """A list of YAML."""
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def allowed_in(log: str) -> list[str]:
    """The algorithms that a daemon allows, as its log says at its start, with the speed of each."""
    told = re.search(r"Crypto speeds: (.*)", log)
    return re.findall(r"(\w+): [\d.]+ MiB/s", told[1]) if told else []


VpnCloud.declared = Declared(
    Security(
        protocol="own",
        specification="the crate's documentation: src/crypto/init.rs (handshake), core.rs (data), rotate.rs (keys)",
        authentication=("public key", "password"),
        key_exchange="X25519, signed by Ed25519",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("nobody", "2.3.0", "2021-12"),
        sources=(
            "github.com/dswd/vpncloud (src/crypto/init.rs, src/crypto/core.rs)",
            "crates.io's vpncloud 2.3.0",
        ),
        as_of="2026-11-26",
        flaws=(
            "a packet that is sent again within a second or two is taken again (src/crypto/core.rs, nonce pinning)",
            "--verbose writes the private key into the log",
        ),
        unchecked=("https://vpncloud.ddswd.de/docs/security/",),
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=False,
        roaming=False,
        routes="operator",
        mesh=True,
        mesh_how="one daemon, which knows the others' addresses",
    ),
)
