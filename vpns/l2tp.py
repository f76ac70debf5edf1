"""L2TP version 2 (RFC 2661): xl2tpd keeps the tunnel, pppd the session, the kernel carries PPP in UDP.

CHAP authenticates who dials; nothing is encrypted: see `l2tp_ipsec`. Debian: xl2tpd, ppp.
Sources: xl2tpd.conf(5), pppd(8).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, higher_numbered, lower_numbered
from runner.vpn import closed_form
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns import _ppp
from vpns._keys import pair_keys

CONFIG = "/etc/xl2tpd/xl2tpd.conf"
OPTIONS = "/etc/ppp/options.xl2tpd"
SESSIONS = "/proc/net/pppol2tp"
# A peer that forgot the tunnel says nothing: xl2tpd's own Hello comes once a minute, and each of two messages about the
# end is then sent for 31 s before it dials again. PPP asks every 5 s, three times; each message has 7 s. Decision 0019.
DEAD_PEER = ("lcp-echo-interval 5", "lcp-echo-failure 3")
RETRIES, REDIAL = "max retries = 3", "redial timeout = 1"
SAID = "xl2tpd.conf(5); a message is sent again after 1 s, 2 s, 4 s and so on; Hello once a minute (fixed)"
TIMERS = (
    Timer(f"{RETRIES}; {REDIAL}", SAID, at="dialing"),
    Timer(RETRIES, SAID, at="answering"),
    Timer("; ".join(DEAD_PEER), "pppd(8)"),
)


class L2tp(Vpn):
    title = "L2TP (xl2tpd)"
    sign = Sign(("xl2tpd",), link="ppp")
    dataplane = "kernel"
    transport = "udp"
    ports = "udp/1701"
    modules = "l2tp_ppp"
    devices = _ppp.DEVICE
    reference = True
    note = "L2TP does not encrypt"
    software = Software({"xl2tpd": "xl2tpd", "pppd": "ppp", "openssl": "openssl"})
    offers = Offers(
        limits={
            "cipher": "L2TP does not encrypt (RFC 2661 §9)",
            "compression": "this plugin does not use PPP's compression",
        },
    )
    comparable = NO_CIPHER
    recommended = NO_CIPHER

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or _ppp.kernel_ppp(node) or kernel_l2tp(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.l2tp(inner_bytes)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return pair_keys(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        return files(me, peers, secrets)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        run(node)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return _ppp.is_up(node, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        check_path(node, peers)
        return Evidence(
            cipher="none",
            integrity="none",
            compression="off",
            data_path="kernel: PPP in L2TP",
            version=node.run("xl2tpd", "--version", check=False).stdout.strip(),
        )

    def lifecycle(self) -> Lifecycle:
        return Lifecycle(timers=TIMERS)


def kernel_l2tp(node: Node) -> Unsupported | None:
    """Ask the kernel for L2TP's data path: without it, xl2tpd would carry the packets itself, and say so in its log."""
    probe = node.run("modprobe", "l2tp_ppp", check=False)
    if node.run("test", "-e", SESSIONS, check=False).code != 0:
        return Unsupported.kernel(f"L2TP for PPP: {probe.stderr.strip()}")
    return None


def files(me: Site, peers: Sequence[Site], secrets: Secrets) -> dict[str, str]:
    """xl2tpd answers to those with lower numbers as an LNS, and dials the others as a LAC."""
    # 1400 leaves room for PPP, L2TP and UDP, and for ESP with any cipher of the sweep within 1500.
    options = f"{_ppp.address(me)}:\nmtu 1400\nmru 1400\n{_ppp.plain(peers)}{_ppp.COMPRESSION['off']}nomppe\n"
    options += "".join(f"{line}\n" for line in DEAD_PEER) + _ppp.LOGGED
    texts = {**_ppp.chap_secrets(me, peers, secrets), **_ppp.routes(me, peers)}
    config = f"[global]\nlisten-addr = {me.wan_address}\nport = 1701\n{RETRIES}\n"
    if lower_numbered(me, peers):
        config += (
            f"\n[lns default]\nname = {me.name}\nassign ip = no\nrequire authentication = yes\nrequire chap = yes\n"
            f"refuse pap = yes\npppoptfile = {OPTIONS}.lns\n"
        )
        texts[f"{OPTIONS}.lns"] = options
    for peer in higher_numbered(me, peers):
        config += (
            f"\n[lac {peer.name}]\nlns = {peer.wan_address}\nname = {me.name}\nrefuse pap = yes\n"
            f"autodial = yes\nredial = yes\n{REDIAL}\npppoptfile = {OPTIONS}.lac\n"
        )
        texts[f"{OPTIONS}.lac"] = f"noauth\n{options}"  # who dials, is authenticated
    return {CONFIG: config, **texts}


def run(node: Node) -> None:
    """Prepare PPP and start xl2tpd(8). Raises CommandError."""
    _ppp.prepare(node)
    node.run("mkdir", "-p", "/run/xl2tpd")
    node.spawn("xl2tpd", "-D", "-c", CONFIG, "-p", "/run/xl2tpd.pid", "-C", "/run/xl2tpd/l2tp-control", log="xl2tpd")


def check_path(node: Node, peers: Sequence[Site]) -> None:
    """Raise ProofError unless the kernel has a PPP interface and an L2TP session for each peer."""
    _ppp.check_path(node, peers)
    shown = node.run("cat", SESSIONS).stdout
    if shown.count("  SESSION '") < len(peers):
        raise ProofError(f"the kernel carries no L2TP session for each peer: {SESSIONS} says {shown.strip()}")


L2tp.declared = Declared(
    Security(
        protocol="standard",
        specification="L2TP (RFC 2661), PPP (RFC 1661), CHAP (RFC 1994)",
        authentication=("password",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", "xl2tpd 1.3.18", "2022-11"),
        sources=(
            "pppd-radius(8): pppd asks a RADIUS server",
            "draft-ietf-pppext-l2tp-sec-04: over IP, L2TP's security mechanism is IPsec",
            "https://www.rfc-editor.org/pdfrfc/rfc2661.txt.pdf (Standards Track, August 1999)",
            "Debian's changelog of xl2tpd 1.3.18-1 (2022-11-01)",
        ),
        as_of="2026-11-21",
        known_breaks=("CHAP's MD5 response lets a weak password be found offline (RFC 1994)",),
        unchecked=("RFC 2661 §9 and RFC 1994 were not read again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        outer=("IPv4",),
        nat=True,
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="one daemon, with a session for each peer",
        users=("password", "RADIUS"),
    ),
)
