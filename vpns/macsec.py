"""MACsec (IEEE 802.1AE) between gateways on one Ethernet: the kernel encrypts frames, keys are static.

The LANs are routed through it. Keys go to ip(8) in a file, never as arguments. Source: ip-macsec(8).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.declared import WITH_LINUX, Abilities, Declared, Security
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns._links import PROBE

SUITE = "MACsec has the cipher suites GCM-AES-128 and GCM-AES-256 (IEEE 802.1AE-2018 clause 14)"
KEYS = "/etc/vpneval/macsec.batch"


class MacSec(Vpn):
    title = "MACsec (kernel, static keys)"
    sign = Sign(link="macsec", asks=(("ip", "macsec", "show", "{device}"),), tells=("cipher", "protect"))
    dataplane = "kernel"
    modules = "macsec"
    transport = "ethernet"
    note = "the gateways must share an Ethernet segment: MACsec crosses no router"
    software = Software({"openssl": "openssl"})
    offers = Offers(
        ciphers={"aes-128-gcm": "gcm-aes-128", "aes-256-gcm": "gcm-aes-256"},
        integrities={},
        limits={"cipher": SUITE, "integrity": SUITE, "compression": "MACsec does not compress"},
    )
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        cipher = self.offers.ciphers[params["cipher"]]
        # On a veth of its own: lo is no Ethernet, and the gateway's ports are in use.
        node.defer("ip", "link", "del", PROBE)
        node.run("ip", "link", "add", PROBE, "type", "veth", "peer", "name", f"{PROBE}1", check=False)
        probe = node.run(
            "ip", "link", "add", "link", PROBE, f"{PROBE}2", "type", "macsec", "cipher", cipher, check=False
        )
        node.run("ip", "link", "del", PROBE, check=False)
        return Unsupported.kernel(f"MACsec: {probe.stderr.strip()}") if probe.code != 0 else None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        # One key for all, as MKA would hand out: a frame's nonce has its sender's identifier in it.
        key = ca.run("openssl", "rand", "-hex", "32").stdout.strip()
        return {f"{site.name}.key": key for site in sites}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        key = secrets[f"{me.name}.key"][: 64 if params["cipher"] == "aes-256-gcm" else 32]
        lines = f"macsec add macsec0 tx sa 0 pn 1 on key 01 {key}\n"
        for peer in peers:
            channel = f"macsec0 rx sci {peer.number:#x}"
            lines += f"# {peer.name}, {peer.wan_address}\nmacsec add {channel}\n"
            lines += f"macsec add {channel} sa 0 pn 1 on key 01 {key}\n"
        return {KEYS: lines}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.defer("ip", "link", "del", "macsec0")
        # The gateway's number as its secure channel identifier, so that the peers need not know its MAC address.
        node.run(
            *("ip", "link", "add", "link", me.wan_interface, "macsec0", "type", "macsec", "sci", f"{me.number:#x}"),
            *("cipher", self.offers.ciphers[params["cipher"]], "send_sci", "on", "encrypt", "on", "protect", "on"),
            # Within a window the kernel keeps no list of what has come: each copy is taken (drivers/net/macsec.c,
            # macsec_post_decrypt; all of eight were, with 32). 0 is the kernel's own, and wants the frames in order.
            *("validate", "strict", "replay", "on", "window", "0"),
        )
        node.run("ip", "-batch", KEYS)
        node.run("ip", "addr", "add", f"10.9.0.{me.number}/24", "dev", "macsec0")
        node.run("ip", "link", "set", "macsec0", "up")
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "via", f"10.9.0.{peer.number}", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True  # static keys have no state: a gateway cannot know whether the other end is there

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        shown = node.run("ip", "-d", "link", "show", "macsec0").stdout  # `ip macsec show` has key identifiers only
        for what in (self.offers.ciphers[params["cipher"]].upper(), "encrypt on", "validate strict"):
            if what.lower() not in shown.lower():
                raise ProofError(f"asked for MACsec with {what}; the kernel shows: {shown.strip()}")
        return Evidence(
            cipher=self.offers.ciphers[params["cipher"]].upper(),
            compression="off",
            data_path="kernel: MACsec",
            version=node.run("uname", "-r").stdout.strip(),
        )


MacSec.declared = Declared(
    Security(
        protocol="standard",
        specification="MACsec (IEEE 802.1AE-2018); keys by hand, without MKA (IEEE 802.1X)",
        authentication=("pre-shared key",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=True,  # symmetric keys only
        maintained=WITH_LINUX,
        sources=(
            "S. Dubroca, macsec: introduce IEEE 802.1AE driver (Linux commit c09440f7dcb3, March 2016)",
            "ip-macsec(8)",
        ),
        as_of="2026-11-21",
        unchecked=("IEEE 802.1AE-2018 and 802.1X were not read",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        outer=(),
        nat=False,
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="one interface, with a channel for each sender and one key for all",
    ),
)
