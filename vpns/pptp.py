"""PPTP (RFC 2637): PPP with MPPE (RFC 3078) in GRE; pptpd listens, pptp-linux dials. Broken since 2012: see `security`.

The kernel encrypts, in PPP; pptp(8) and pptpctrl(8) put each packet into GRE in userspace. Debian: pptpd, pptp-linux,
ppp. Sources: pptpd.conf(5), pptp(8), pppd(8).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, higher_numbered, lower_numbered
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn
from runner.vpn.sign import Sign
from vpns import _ppp
from vpns._keys import pair_keys

CONFIG = "/etc/vpneval/pptpd.conf"
OPTIONS = "/etc/ppp/options.vpneval"
SOCKETS = "/run/pptp"  # of pptp's call managers; each makes it, and one that finds it made meanwhile ends at once
MPPE = "MPPE 128-bit stateless compression enabled"


class Pptp(Vpn):
    title = "PPTP (pptpd, pptp-linux)"
    sign = Sign(("pppd", "pptp", "pptpctrl", "pptpd"), link="ppp", marks=("^program pptp",))
    dataplane = "userspace"
    transport = "gre"
    ports = "tcp/1723"
    modules = "ppp_mppe"
    devices = _ppp.DEVICE
    note = (
        "broken: an attacker who records a handshake can find its keys by one search of DES (Marlinspike, Hulton, 2012)"
    )
    software = Software({"pptpd": "pptpd", "pptp": "pptp-linux", "pppd": "ppp", "openssl": "openssl"})
    offers = Offers(
        ciphers={"rc4-128": "require-mppe-128"},
        integrities={"none": "none"},
        limits={
            "cipher": "MPPE has RC4 only (RFC 3078 §1)",
            "integrity": "MPPE does not authenticate packets (RFC 3078)",
            "compression": "PPP has one compressor at a time, and MPPE is it; Linux has no MPPC",
        },
    )
    comparable = {"cipher": "rc4-128", "integrity": "none", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params) or _ppp.kernel_ppp(node):
            return no
        probe = node.run("modprobe", "ppp_mppe", check=False)
        return Unsupported.kernel(f"MPPE: {probe.stderr.strip()}") if probe.code != 0 else None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return pair_keys(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        mppe = self.offers.ciphers[params["cipher"]]
        common = (
            f"name {me.name}\nrefuse-pap\nrefuse-chap\nrefuse-mschap\nrefuse-eap\n{mppe}\n"
            f"nomppe-stateful\nmtu 1400\nmru 1400\n"
            f"{_ppp.plain(peers)}{_ppp.TERMINAL}{_ppp.COMPRESSION['off']}{_ppp.LOGGED}"
        )
        files = {**_ppp.chap_secrets(me, peers, secrets), **_ppp.routes(me, peers)}
        if lower_numbered(me, peers):
            files[CONFIG] = f"ppp /usr/sbin/pppd\noption {OPTIONS}\nlisten {me.wan_address}\ndelegate\n"
            files[OPTIONS] = f"auth\nrequire-mschap-v2\n{_ppp.address(me)}:\n{common}"
        for peer in higher_numbered(me, peers):
            files[f"/etc/ppp/peers/{peer.name}"] = (
                f'pty "pptp {peer.wan_address} --nolaunchpppd --nohostroute"\nnoauth\nremotename {peer.name}\n'
                f"{_ppp.address(me)}:{_ppp.address(peer)}\n{common}"
            )
        return files

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        _ppp.prepare(node)
        if lower_numbered(me, peers):
            node.spawn("pptpd", "--fg", "--conf", CONFIG, "--pidfile", "/run/pptpd.pid", log="pptpd")
            wait_until(lambda: bool(node.run("ss", "-Hltn", "sport = :1723").stdout), "pptpd listening")
        if higher_numbered(me, peers):
            node.run("mkdir", "-p", "-m", "700", SOCKETS)
        for peer in higher_numbered(me, peers):
            node.defer("pkill", "-x", "pptp")  # its call manager is in a session of its own, pptp(8)
            node.spawn("pppd", "call", peer.name, log=f"pppd-{peer.name}")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return _ppp.is_up(node, peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        _ppp.check_path(node, peers)
        if _ppp.pppd_log(node).count(MPPE) < len(peers):
            raise ProofError(f"asked for MPPE of 128 bits, and pppd's log does not have: {MPPE}")
        return Evidence(
            cipher="MPPE-128 (RC4)",
            integrity="none",
            compression="off",
            data_path="userspace: pptp and pptpctrl; MPPE in the kernel's PPP",
            version=f"{node.run('pptpd', '--version', check=False).stdout.strip()}, {_ppp.version(node)}",
        )


Pptp.declared = Declared(
    Security(
        protocol="standard",
        specification="PPTP (RFC 2637, informational), MPPE (RFC 3078), MS-CHAP v2 (RFC 2759)",
        authentication=("password",),
        key_exchange="",  # the keys are made from the password and the challenges, RFC 3079
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", "pptpd 1.5.0", "2024-05", "the protocol is given up"),
        sources=(
            "pppd-radius(8): pppd asks a RADIUS server",
            "http://reedmurphy.net/post/divide-and-conquer-cracking-ms-chapv2-with-a-100-success-rate/ (2012)",
            "B. Schneier, Mudge, D. Wagner, Cryptanalysis of Microsoft's PPTP Authentication Extensions, 1999",
            "https://openwrt.org/docs/guide-user/services/vpn/pptp/start",
            "https://rfc-editor.org/info/rfc7465 (2015)",
            "Debian's changelog of pptpd 1.5.0-1 (2024-05-18)",
        ),
        as_of="2026-11-21",
        known_breaks=(
            "one search of DES, 2^56, gives the keys of a recorded MS-CHAP v2 handshake (Marlinspike, Hulton, DEF CON "
            "20, 2012; before: Schneier, Mudge, Wagner, MS-CHAPv2, 1999)",
            "MPPE has no integrity, so that bits can be flipped (Schneier, Mudge, 1998)",
            "RC4 is biased (RFC 7465, 2015, forbids it in TLS)",
        ),
        unchecked=("RFC 2637, 3078 and 2759, and Schneier and Mudge of 1998, were not read again",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "multicast"),
        outer=("IPv4",),
        nat=False,  # its GRE wants one that knows PPTP; behind another it did not come up
        tcp_443=False,
        roaming=False,
        routes="configuration",
        mesh=True,
        mesh_how="one server, with a session for each peer",
        users=("password", "RADIUS"),
    ),
)
