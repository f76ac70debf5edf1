"""IPsec with strongSwan: IKEv2 with certificates, ESP in tunnel mode, in the kernel.

Debian: charon-systemd (13) or strongswan-charon (12), strongswan-swanctl. Sources: swanctl.conf(5),
strongswan.conf(5), RFC 7296 (IKEv2), RFC 4303 (ESP), RFC 3173 (IPComp).
"""

import re
from collections.abc import Sequence
from functools import partial
from itertools import product

from runner.data.errors import CommandError, ProofError, Unsupported
from runner.data.levels import AEAD, AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import PATIENCE, Node, wait_until
from runner.lab.shape.site import Site, higher_numbered, is_address
from runner.vpn import closed_form
from runner.vpn.declared import SWEET32, Abilities, Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Version, Vpn, moves
from runner.vpn.sign import Sign
from vpns._certificates import certificates
from vpns._esp import (
    CHARON,
    CIPHERS,
    IKE,
    IKE_PROPOSAL,
    INTEGRITIES,
    LIST_SAS,
    NEGOTIATED,
    SAS,
    TABLE,
    WITH_ML_KEM,
    daemon_esp,
    no_ml_kem,
    parse_child_sa,
    renew,
    run_charon,
)
from vpns._ha import STANDBY
from vpns._xfrm import forget_afterwards

ON_ITS_WAY_S = 3.0
DEAD_PEER = "dpd_delay = 10s"
# An IKE message is sent four times, and nobody is there after 14 s: strongSwan's own settings for its clients. With the
# defaults it is 165 s. See decision 0019.
STRONGSWAN_CONF = """\
charon {
    retransmit_tries = 3
    retransmit_timeout = 2.0
    retransmit_base = 1.4
    filelog {
        stderr {
            default = 1
            flush_line = yes
        }
    }
}
"""
ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
TIMERS = (
    Timer(DEAD_PEER, "swanctl.conf(5)"),
    Timer("retransmit_tries = 3; retransmit_timeout = 2.0; retransmit_base = 1.4", "strongswan.conf(5)"),
)


class Ipsec(Vpn):
    title = "IPsec (strongSwan, kernel ESP)"
    sign = Sign(CHARON, esp="esp tunnel", tells=SAS, asks=(LIST_SAS,))
    family = "IPsec"
    dataplane = "kernel"
    speaks = "ikev2-esp"
    transport = "esp"
    ports = "udp/500 udp/4500"
    modules = "esp4"
    offers = Offers(
        ciphers=CIPHERS,
        integrities=INTEGRITIES,
        compressions={"off": "no", "on": "yes"},
        limits={"integrity": "ESP must authenticate what it encrypts (RFC 8221 §4)"},
        ike=tuple(IKE),
    )
    software = Software(
        {"swanctl": "strongswan-swanctl", "openssl": "openssl"},
        daemons=("charon-systemd", "strongswan-charon"),
        dials={"swanctl --initiate": "swanctl --list-sas --raw | grep -q state=INSTALLED"},
    )
    versions = {"6.1": Version("strongswan-6.1")}  # with ML-KEM
    comparable = AES_CBC
    recommended = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}  # RFC 8221 §5
    start_action = "trap"  # a policy is there before the SA is and after it went: down means closed
    data_path = "kernel: ESP"
    ike_version = 2
    protocol = "ESP"
    mode = "TUNNEL"
    libipsec = "no"  # whether the userspace ESP is loaded instead of the kernel's

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_ml_kem(node, params) or daemon_esp(node, params, kernel=True)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        layers = closed_form.esp(inner_bytes, params["cipher"], params["integrity"], udp=self.transport == "udp")
        return layers if params["compression"] == "off" else None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        proposal = params.get("ike", IKE_PROPOSAL)
        connections = "".join(
            f"""\
    {peer.name} {{
        version = {self.ike_version}
        mobike = {"yes" if params.get("roaming") else "no"}
        keyingtries = 0
        {DEAD_PEER}
        local_addrs = {"%any" if moves(params, me) else me.wan_address}
        remote_addrs = {", ".join(filter(None, (peer.wan_address, ANYWHERE[me.path_version] * moves(params, peer))))}
        proposals = {WITH_ML_KEM.get(proposal, proposal)}
        local {{
            auth = pubkey
            certs = {me.name}.crt
            id = {me.name}
        }}
        remote {{
            auth = pubkey
            id = {peer.name}
        }}
        children {{
            to-{peer.name} {{
                {self.selectors(me, peer, params)}
                {self.proposal(params)}
                ipcomp = {self.offers.compressions[params["compression"]]}
                start_action = {self.start_action}
                {self.when_gone(me, peer)}
            }}
{self.separate_child(me, peer, params)}\
        }}
    }}
"""
            for peer in peers
        )
        plugins = "dhcp { load = no }\n"  # it would listen to everybody at udp/68
        if params.get("driver") == "generic":
            plugins += "aesni { load = no }\n"  # instead of the CPU's AES: OpenSSL's
        return {
            "/etc/strongswan.d/charon/kernel-libipsec.conf": f"kernel-libipsec {{ load = {self.libipsec} }}\n{plugins}",
            "/etc/strongswan.d/vpneval.conf": strongswan_conf(me.keepalive_s),
            "/etc/swanctl/conf.d/vpneval.conf": f"connections {{\n{connections}}}\n",
            "/etc/swanctl/x509ca/ca.crt": secrets["ca.crt"],
            f"/etc/swanctl/x509/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"/etc/swanctl/private/{me.name}.key": secrets[f"{me.name}.key"],
        }

    def proposal(self, params: Params) -> str:
        """What the child SAs are to be protected with, the only one offered; its key exchange is fresh, too."""
        cipher = self.offers.ciphers[params["cipher"]]
        if params["cipher"] in AEAD:
            return f"esp_proposals = {cipher}-ecp256"
        return f"esp_proposals = {cipher}-{self.offers.integrities[params['integrity']]}-ecp256"

    def selectors(self, me: Site, peer: Site, params: Params) -> str:
        """What a child SA protects: the traffic between the two LANs, in tunnel mode."""
        mine, theirs = (", ".join(site.networks(ipv6="inner" in params)) for site in (me, peer))
        return f"mode = tunnel\n                local_ts = {mine}\n                remote_ts = {theirs}"

    def separate_child(self, me: Site, peer: Site, params: Params) -> str:
        """One more child SA, where one is asked for: integrity alone, for a port of the higher-numbered site."""
        if "apart" not in params:
            return ""
        port, ours = f"[tcp/{params['apart']}]", me.number > peer.number
        return f"""\
            apart-{peer.name} {{
                mode = tunnel
                local_ts = {me.lan}{port if ours else "[tcp]"}
                remote_ts = {peer.lan}{"[tcp]" if ours else port}
                {self.proposal({"cipher": "null", "integrity": "hmac-sha256"})}
                start_action = {self.start_action}
            }}
"""

    def when_gone(self, me: Site, peer: Site) -> str:
        """What happens when the peer is found dead, or says goodbye: the dialing gateway dials again, for ever."""
        dead, closed = ("restart", "start") if me.number < peer.number else ("clear", "none")
        return f"dpd_action = {dead}\n                close_action = {closed}"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.run("rm", "-f", "/run/charon.pid", "/run/charon.vici")  # of a daemon that was killed
        for peer in peers:
            fixed = is_address(peer.wan_address) and not moves(params, me)
            forget_afterwards(node, *product(me.lans, peer.lans), *[(me.wan_address, peer.wan_address)] * fixed)
            for lan in peer.lans:
                node.defer("ip", "route", "flush", "table", TABLE, "exact", lan)
        run_charon(node)
        node.run("swanctl", "--load-all", "--noprompt")
        for peer in higher_numbered(me, peers):
            # A first packet may have sprung the trap: the child is there then, and charon refuses a second.
            # On a slow machine it may still be on its way when this one is refused, or has waited for long enough.
            argv = ("swanctl", "--initiate", "--child", f"to-{peer.name}", "--timeout", f"{10 * PATIENCE:.0f}")
            done = node.run(*argv, check=False)
            if done.code == 0:
                continue
            try:
                wait_until(partial(self.is_up, node, me, peers), "the child SA", ON_ITS_WAY_S, 0.2)
            except TimeoutError:
                raise CommandError(node.name, argv, done.code, done.stderr or done.stdout) from None

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return node.run("swanctl", "--list-sas", "--raw").stdout.count("state=INSTALLED") >= len(peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        agreed = parse_child_sa(node.run("swanctl", "--list-sas", "--raw").stdout)
        wanted = {
            "ike": IKE[params.get("ike", IKE_PROPOSAL)],
            **{f: NEGOTIATED[params[f]] for f in ("cipher", "integrity")},
        }
        wanted |= {"compression": params["compression"], "mode": self.mode, "protocol": self.protocol}
        for what, asked in wanted.items():
            if agreed[what] != asked:
                raise ProofError(f"asked for {what} {asked or 'none'}, negotiated {agreed[what] or 'none'}")
        self.check_path(node, peers)
        return Evidence(
            cipher=agreed["cipher"] or "none",
            integrity=agreed["integrity"],
            compression=agreed["compression"],
            key_exchange=agreed["key_exchange"],
            data_path=self.data_path,
            version=node.run("swanctl", "--version", check=False).stdout.strip(),
            facts={"encapsulation": agreed["encapsulation"], "mode": agreed["mode"], "ike": agreed["ike"]},
        )

    def check_path(self, node: Node, peers: Sequence[Site]) -> None:
        """Raise ProofError unless ESP is where this plugin says that it is."""
        states = node.run("ip", "xfrm", "state", "count").stdout  # `ip xfrm state` itself prints keys
        if not (count := re.search(r"count (\d+)", states)) or int(count[1]) < 2 * len(peers):
            raise ProofError(f"ESP is not in the kernel: {states.strip()}")

    def lifecycle(self) -> Lifecycle:
        return Lifecycle(Rekeying(("esp", "ike"), renew=rekey), TIMERS, STANDBY)


def strongswan_conf(keepalive_s: int) -> str:
    """``STRONGSWAN_CONF``; with how often charon keeps a NAT's mapping, where not every 20 s (RFC 3948 §4)."""
    keeps = f"    keep_alive = {keepalive_s}s\n" if keepalive_s else ""
    return STRONGSWAN_CONF.replace("charon {\n", f"charon {{\n{keeps}")


def rekey(node: Node, peers: Sequence[Site], what: str) -> None:
    """New keys for the child SAs (``esp``) or IKE SAs (``ike``) with all peers."""
    for peer in peers:
        renew(node, what, f"to-{peer.name}" if what == "esp" else peer.name)


Ipsec.declared = Declared(
    Security(
        protocol="standard",
        specification="IKEv2 (RFC 7296), ESP (RFC 4303)",
        authentication=("certificate", "public key", "pre-shared key", "password"),
        handshake="IKEv2",
        key_exchange="ECDH, NIST P-256, for the IKE SA and again for each child SA",
        forward_secrecy=True,
        post_quantum=False,  # version 6.1 has ML-KEM beside it (RFC 9370), at a level of ike; not by default
        maintained=Upkeep("Debian", "the last update", "2026-09", "that of 5.9.8 is of November 2026"),
        sources=(
            "https://docs.strongswan.org/docs/6.0/plugins/eap-radius.html",
            "Debian's changelogs of strongswan 6.0.1-6+deb13u7 (2026-09-01) and 5.9.8-5+deb12u6 (2026-11-02)",
            "CVE-2025-62291, CVE-2026-25075 (cve.org); swanctl.conf(5) of 6.0.1: MOBIKE, but no TCP",
            SWEET32,
        ),
        as_of="2026-11-21",
        breaks_with={"64-bit blocks": SWEET32},
        flaws=("some 20 CVEs of 2025 and 2026 in EAP, certificates, IKE messages: crashes, leaks; fixed by Debian",),
        unchecked=("RFC 7296, RFC 4303 and RFC 8221 were not read again", "that strongSwan 6.0 has RFC 9370"),
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,  # ESP in UDP, RFC 3948
        tcp_443=False,  # RFC 9329 is not in strongSwan
        roaming=True,  # MOBIKE, RFC 4555; off here
        routes="daemon",
        mesh=True,
        mesh_how="one daemon, with a connection for each peer",
        modes=("tunnel", "transport"),
        users=("password", "RADIUS"),
    ),
)
