"""IPsec with strongSwan: IKEv2 with certificates, ESP in tunnel mode, in the kernel.

Debian: charon-systemd (13) or strongswan-charon (12), strongswan-swanctl. Sources: swanctl.conf(5),
strongswan.conf(5), RFC 7296 (IKEv2), RFC 4303 (ESP), RFC 3173 (IPComp).
"""

import re
from collections.abc import Sequence

from runner import closed_form
from runner.errors import CommandError, ProofError
from runner.model import Evidence
from runner.node import Node, wait_until
from runner.plugin import AEAD, AES_CBC, Params, Secrets, Site, Unsupported, Vpn, higher_numbered
from vpns._certificates import certificates
from vpns._xfrm import kernel_esp

DAEMONS = ("/usr/sbin/charon-systemd", "/usr/lib/ipsec/charon")  # Debian 13, Debian 12

# What `swanctl --list-sas` calls the cipher and the integrity that were negotiated.
NEGOTIATED = {
    "aes-128-cbc": "AES_CBC-128",
    "aes-192-cbc": "AES_CBC-192",
    "aes-256-cbc": "AES_CBC-256",
    "3des-cbc": "3DES_CBC",
    "blowfish-128-cbc": "BLOWFISH_CBC-128",
    "aes-128-gcm": "AES_GCM_16-128",
    "aes-256-gcm": "AES_GCM_16-256",
    "chacha20-poly1305": "CHACHA20_POLY1305",
    "null": "NULL",
    "hmac-sha1": "HMAC_SHA1_96",
    "hmac-sha256": "HMAC_SHA2_256_128",
    "aead": "",
}


class Ipsec(Vpn):
    title = "IPsec (strongSwan, kernel ESP)"
    dataplane = "kernel"
    layer = 3
    transport = "esp"
    ciphers = {
        "aes-128-cbc": "aes128",
        "aes-192-cbc": "aes192",
        "aes-256-cbc": "aes256",
        "3des-cbc": "3des",
        "blowfish-128-cbc": "blowfish128",
        "aes-128-gcm": "aes128gcm16",
        "aes-256-gcm": "aes256gcm16",
        "chacha20-poly1305": "chacha20poly1305",
        "null": "null",
    }
    integrities = {"hmac-sha1": "sha1", "hmac-sha256": "sha256"}
    compressions = {"off": "no", "on": "yes"}
    tools = {"swanctl": "strongswan-swanctl", "openssl": "openssl"}
    comparable = AES_CBC
    recommended = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}  # RFC 8221 §5
    start_action = "trap"  # a policy is there before the SA is and after it went: down means closed
    data_path = "kernel: ESP"
    mode = "TUNNEL"
    libipsec = "no"  # whether the userspace ESP is loaded instead of the kernel's

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or kernel_esp(node, params)

    def overhead(self, params: Params, inner_bytes: int) -> int | None:
        if params["compression"] != "off":
            return None
        return closed_form.esp(inner_bytes, params["cipher"], params["integrity"], udp=self.transport == "udp")

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return certificates(ca, sites)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        proposal = self.ciphers[params["cipher"]]
        if params["cipher"] not in AEAD:
            proposal += "-" + self.integrities[params["integrity"]]
        connections = "".join(
            f"""\
    {peer.name} {{
        version = 2
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
                esp_proposals = {proposal}-ecp256
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

    def selectors(self, me: Site, peer: Site) -> str:
        """What a child SA protects: the traffic between the two LANs, in tunnel mode."""
        return f"mode = tunnel\n                local_ts = {me.lan}\n                remote_ts = {peer.lan}"

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        daemon = next(path for path in DAEMONS if node.run("test", "-x", path, check=False).code == 0)
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
        wanted |= {"compression": params["compression"], "mode": self.mode}
        for what, asked in wanted.items():
            if found[what] != asked:
                raise ProofError(f"asked for {what} {asked or 'none'}, negotiated {found[what] or 'none'}")
        self.check_path(node, peers)
        return Evidence(
            cipher=found["cipher"],
            integrity=found["integrity"],
            compression=found["compression"],
            data_path=self.data_path,
            version=node.run("swanctl", "--version", check=False).stdout.strip(),
            facts={"encapsulation": found["encapsulation"], "mode": found["mode"]},
        )

    def check_path(self, node: Node, peers: Sequence[Site]) -> None:
        """Raise ProofError unless ESP is where this plugin says that it is."""
        states = node.run("ip", "xfrm", "state", "count").stdout  # `ip xfrm state` itself prints keys
        in_kernel = re.search(r"count (\d+)", states)
        if not in_kernel or int(in_kernel[1]) < 2 * len(peers):
            raise ProofError(f"ESP is not in the kernel: {states.strip()}")


def negotiated(raw: str) -> dict[str, str]:
    """Cipher, integrity, compression, mode and encapsulation of the first child SA in `swanctl --list-sas --raw`."""
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
        "encapsulation": "UDP" if field("encap") == "yes" else "none",
    }
