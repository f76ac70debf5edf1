"""IPsec with AH around ESP: ESP in tunnel mode encrypts, AH in transport mode authenticates the whole packet.

No IKE daemon negotiates the two together (decision 0050), so the keys are static: ip(8) reads
them from a file, never as arguments. Sources: ip-xfrm(8), RFC 4302 (AH), RFC 4303 (ESP), RFC 4301 §13.
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn import closed_form
from runner.vpn.declared import SWEET32, WITH_LINUX, Abilities, Declared, Security
from runner.vpn.kernel_crypto import KERNEL
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns._xfrm import ICV_BITS, forget_afterwards, kernel_xfrm

FILE = "/etc/vpneval/xfrm.batch"
CIPHERS = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "3des-cbc", "blowfish-128-cbc")
INTEGRITIES = ("hmac-md5", "hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512")
KEY_BYTES = 64  # as long as any of them takes
ALONE = "AH has the integrity, and ESP a cipher without one"


class IpsecAhEsp(Vpn):
    title = "IPsec with AH around ESP (kernel, static keys)"
    sign = Sign(esp="esp tunnel, ah transport", marks=("^state ",))
    family = "IPsec"
    dataplane = "kernel"
    transport = "ip"
    note = "static keys: no IKE daemon negotiates AH and ESP together"
    modules = "esp4 ah4"
    software = Software({"openssl": "openssl"})
    offers = Offers(
        ciphers={level: KERNEL[level][1] for level in CIPHERS},
        integrities={level: KERNEL[level][1] for level in INTEGRITIES},
        limits={"cipher": ALONE, "integrity": ALONE, "compression": "this plugin does not use IPComp"},
    )
    comparable = AES_CBC
    recommended = AES_CBC

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        no = super().supports(node, params) or kernel_xfrm(node, "esp", [params["cipher"]], "off")
        return no or kernel_xfrm(node, "ah", [params["integrity"]], "off")

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        ways = [f"{a.name}-{b.name}" for a in sites for b in sites if a != b]
        names = [f"{way}.{protocol}" for way in ways for protocol in ("esp", "ah")]
        return {name: ca.run("openssl", "rand", "-hex", str(KEY_BYTES)).stdout.strip() for name in names}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        lines = ""
        for peer in peers:
            lines += f"# {peer.name}\n"
            for a, b in ((me, peer), (peer, me)):
                ends = f"src {a.wan_address} dst {b.wan_address}"
                spi = f"spi {0x1000 + 16 * a.number + b.number:#x}"
                esp, ah = (secrets[f"{a.name}-{b.name}.{protocol}"] for protocol in ("esp", "ah"))
                lines += f"xfrm state add {ends} proto esp {spi} mode tunnel {algorithm(params['cipher'], esp)}\n"
                # A header of a multiple of 4 bytes, as RFC 4302 §3.3.3.2.1 has it with IPv4; the kernel's own is 8.
                lines += f"xfrm state add {ends} proto ah {spi} mode transport flag align4 replay-window 32 "
                lines += f"{algorithm(params['integrity'], ah)}\n"
                # The first template is the inner one.
                templates = f"tmpl {ends} proto esp mode tunnel tmpl {ends} proto ah mode transport"
                for way in ("out",) if a == me else ("in", "fwd"):
                    lines += f"xfrm policy add src {a.lan} dst {b.lan} dir {way} {templates}\n"
        return {FILE: lines}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            forget_afterwards(node, (me.lan, peer.lan), (me.wan_address, peer.wan_address))
        node.run("ip", "-batch", FILE)
        for peer in peers:
            # Any route will do: the policy sends the packet to the peer, and without it nobody on the WAN has the LAN.
            node.defer("ip", "route", "del", peer.lan, "dev", me.wan_interface)
            node.run("ip", "route", "add", peer.lan, "dev", me.wan_interface, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True  # static keys have no state: a gateway cannot know whether the other end is there

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        cipher, integrity = self.offers.ciphers[params["cipher"]], self.offers.integrities[params["integrity"]]
        states = node.run("ip", "xfrm", "state", "list", "nokeys").stdout
        for what in ("proto esp", f"enc {cipher}", "proto ah", f"auth-trunc {integrity}"):
            if states.count(what) < 2 * len(peers):
                raise ProofError(f"asked for {what} each way; the kernel's states are: {' '.join(states.split())}")
        policies = node.run("ip", "xfrm", "policy").stdout
        for proto in ("proto esp", "proto ah"):
            if policies.count(proto) < 3 * len(peers):
                raise ProofError(f"not every policy asks for {proto}: {' '.join(policies.split())}")
        return Evidence(
            cipher=f"{cipher}, {8 * KERNEL[params['cipher']][2]} bits",
            integrity=integrity,
            compression="off",
            data_path="kernel: AH around ESP",
            version=node.run("uname", "-r").stdout.strip(),
        )

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.ah_around_esp(inner_bytes, params["cipher"], params["integrity"])


def algorithm(level: str, key: str) -> str:
    """An algorithm of a state as ip-xfrm(8) takes it, with as much of the ``key`` (in hex) as it needs."""
    kind, name, length = KERNEL[level]
    bits = "" if kind == "enc" else f" {ICV_BITS.get(level, '128')}"
    return f"{kind} {name} 0x{key[: 2 * length]}{bits}"


IpsecAhEsp.declared = Declared(
    Security(
        protocol="standard",
        specification="AH (RFC 4302) around ESP (RFC 4303); keys by hand, without IKE",
        authentication=("pre-shared key",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=True,  # symmetric keys only
        maintained=WITH_LINUX,
        sources=("ip-xfrm(8)", "RFC 4301 §13: nested SAs and bundles are no longer required", SWEET32),
        as_of="2026-11-24",
        breaks_with={"64-bit blocks": SWEET32},
        unchecked=("RFC 4301, RFC 4302 and RFC 4303 were not read again",),
    ),
    Abilities(
        inner=("IPv4",),
        outer=("IPv4",),
        nat=False,  # AH covers the outer addresses, RFC 3715 §2.1
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="states and policies for each peer",
        modes=("tunnel", "transport"),
    ),
)
