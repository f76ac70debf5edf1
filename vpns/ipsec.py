"""IPsec with strongSwan: IKEv2 with certificates, ESP in tunnel mode, in the kernel.

Debian: charon-systemd (13) or strongswan-charon (12), strongswan-swanctl. Sources: swanctl.conf(5),
strongswan.conf(5), RFC 7296 (IKEv2), RFC 4303 (ESP), RFC 3173 (IPComp).
"""

import re
from collections.abc import Sequence

from runner import closed_form
from runner.declared import Abilities, Security
from runner.errors import CommandError, ProofError
from runner.model import Evidence
from runner.node import Node, wait_until
from runner.plugin import AEAD, AES_CBC, Params, Secrets, Site, Unsupported, Vpn, higher_numbered
from vpns._certificates import certificates
from vpns._esp import CIPHERS, INTEGRITIES, NEGOTIATED, daemon_esp, renew
from vpns._xfrm import forget_afterwards

DAEMONS = ("/usr/sbin/charon-systemd", "/usr/lib/ipsec/charon")  # Debian 13, Debian 12


class Ipsec(Vpn):
    title = "IPsec (strongSwan, kernel ESP)"
    dataplane = "kernel"
    layer = 3
    transport = "esp"
    ciphers = CIPHERS
    integrities = INTEGRITIES
    compressions = {"off": "no", "on": "yes"}
    tools = {"swanctl": "strongswan-swanctl", "openssl": "openssl"}
    comparable = AES_CBC
    recommended = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}  # RFC 8221 §5
    security = Security(
        protocol="standard",
        specification="IKEv2 (RFC 7296), ESP (RFC 4303)",
        authentication=("certificate", "public key", "pre-shared key", "password"),
        key_exchange="ECDH, NIST P-256, for the IKE SA and again for each child SA",
        forward_secrecy=True,
        post_quantum=False,  # strongSwan 6.0 has ML-KEM beside it (RFC 9370); it is not asked for here
        maintained="yes",
        sources=("RFC 7296", "RFC 4303", "RFC 8221", "https://docs.strongswan.org/docs/latest/features/proposals.html"),
        as_of="2026-11-21",
    )
    abilities = Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,  # ESP in UDP, RFC 3948
        tcp_443=False,  # RFC 9329 is not in strongSwan
        roaming=True,  # MOBIKE, RFC 4555; off here
        routes="daemon",
        mesh=True,
        modes=("tunnel", "transport"),
    )
    rekeys = ("esp", "ike")
    start_action = "trap"  # a policy is there before the SA is and after it went: down means closed
    data_path = "kernel: ESP"
    ike = 2
    protocol = "ESP"
    mode = "TUNNEL"
    libipsec = "no"  # whether the userspace ESP is loaded instead of the kernel's

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or daemon_esp(node, params, kernel=True)

    def overhead(self, params: Params, inner_bytes: int) -> int | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], udp=self.transport == "udp")

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        connections = "".join(
            f"""\
    {peer.name} {{
        version = {self.ike}
        mobike = no
        local_addrs = {me.wan_address}
        remote_addrs = {peer.wan_address}
        proposals = aes128-sha256-ecp256
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
                {self.selectors(me, peer)}
                {self.proposal(params)}
                ipcomp = {self.compressions[params["compression"]]}
                start_action = {self.start_action}
            }}
        }}
    }}
"""
            for peer in peers
        )
        return {
            "/etc/strongswan.d/charon/kernel-libipsec.conf": f"kernel-libipsec {{ load = {self.libipsec} }}\n",
            "/etc/strongswan.d/vpneval.conf": "charon { filelog { stderr { default = 1\nflush_line = yes } } }\n",
            "/etc/swanctl/conf.d/vpneval.conf": f"connections {{\n{connections}}}\n",
            "/etc/swanctl/x509ca/ca.crt": secrets["ca.crt"],
            f"/etc/swanctl/x509/{me.name}.crt": secrets[f"{me.name}.crt"],
            f"/etc/swanctl/private/{me.name}.key": secrets[f"{me.name}.key"],
        }

    def proposal(self, params: Params) -> str:
        """What the child SAs are to be protected with, the only one offered; its key exchange is fresh, too."""
        cipher = self.ciphers[params["cipher"]]
        if params["cipher"] in AEAD:
            return f"esp_proposals = {cipher}-ecp256"
        return f"esp_proposals = {cipher}-{self.integrities[params['integrity']]}-ecp256"

    def selectors(self, me: Site, peer: Site) -> str:
        """What a child SA protects: the traffic between the two LANs, in tunnel mode."""
        return f"mode = tunnel\n                local_ts = {me.lan}\n                remote_ts = {peer.lan}"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        daemon = next(path for path in DAEMONS if node.run("test", "-x", path, check=False).code == 0)
        node.run("rm", "-f", "/run/charon.pid", "/run/charon.vici")  # of a daemon that was killed
        for peer in peers:
            forget_afterwards(node, (me.lan, peer.lan), (me.wan_address, peer.wan_address))
        node.defer("ip", "rule", "del", "table", "220")  # charon's own, strongswan.conf(5) charon.routing_table
        node.defer("ip", "route", "flush", "table", "220")
        node.spawn(daemon, log="charon")
        wait_until(lambda: node.run("test", "-S", "/run/charon.vici", check=False).code == 0, "charon's socket")
        node.run("swanctl", "--load-all", "--noprompt")
        for peer in higher_numbered(me, peers):
            # A first packet may have sprung the trap: the child is there then, and charon refuses a second.
            argv = ("swanctl", "--initiate", "--child", f"to-{peer.name}")
            done = node.run(*argv, check=False)
            if done.code != 0 and not self.is_up(node, me, peers):
                raise CommandError(node.name, argv, done.code, done.stderr or done.stdout)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return node.run("swanctl", "--list-sas", "--raw").stdout.count("state=INSTALLED") >= len(peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        found = negotiated(node.run("swanctl", "--list-sas", "--raw").stdout)
        wanted = {factor: NEGOTIATED[params[factor]] for factor in ("cipher", "integrity")}
        wanted |= {"compression": params["compression"], "mode": self.mode, "protocol": self.protocol}
        for what, asked in wanted.items():
            if found[what] != asked:
                raise ProofError(f"asked for {what} {asked or 'none'}, negotiated {found[what] or 'none'}")
        self.check_path(node, peers)
        return Evidence(
            cipher=found["cipher"] or "none",
            integrity=found["integrity"],
            compression=found["compression"],
            data_path=self.data_path,
            version=node.run("swanctl", "--version", check=False).stdout.strip(),
            facts={"encapsulation": found["encapsulation"], "mode": found["mode"]},
        )

    def rekey(self, node: Node, me: Site, peers: Sequence[Site], what: str) -> None:
        for peer in peers:
            renew(node, what, f"to-{peer.name}" if what == "esp" else peer.name)

    def check_path(self, node: Node, peers: Sequence[Site]) -> None:
        """Raise ProofError unless ESP is where this plugin says that it is."""
        states = node.run("ip", "xfrm", "state", "count").stdout  # `ip xfrm state` itself prints keys
        in_kernel = re.search(r"count (\d+)", states)
        if not in_kernel or int(in_kernel[1]) < 2 * len(peers):
            raise ProofError(f"ESP is not in the kernel: {states.strip()}")


def negotiated(raw: str) -> dict[str, str]:
    """What was negotiated for the first child SA in `swanctl --list-sas --raw`; "" for what is not in it."""
    child = raw.partition("child-sas {")[2].partition("}")[0]

    def field(name: str) -> str:
        match = re.search(rf"\b{name}=(\S+)", child)
        return match[1] if match else ""

    cipher, bits = field("encr-alg"), field("encr-keysize")
    return {
        "cipher": f"{cipher}-{bits}" if bits and cipher != "CHACHA20_POLY1305" else cipher,
        "integrity": field("integ-alg"),
        "compression": "on" if field("cpi-in") else "off",
        "mode": field("mode"),
        "protocol": field("protocol"),
        "encapsulation": "UDP" if field("encap") == "yes" else "none",
    }
