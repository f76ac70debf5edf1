"""SSH port forwarding: gw1 listens for the site's hosts and forwards each connection through SSH to host2.

It carries TCP only, as in the thesis (§2.2.3.1). Debian: openssh-client, openssh-server.
Sources: ssh_config(5), sshd_config(5), sshd(8) AUTHORIZED_KEYS FILE FORMAT.
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import AES_CBC, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import TCP_PORTS, Site, higher_numbered, lower_numbered
from runner.vpn.declared import Declared, Security, Upkeep
from runner.vpn.lifecycle import Lifecycle, Rekeying, Timer, log_mark
from runner.vpn.plugin import Offers, Secrets, Software
from runner.vpn.sign import Sign
from vpns._forward import ABILITIES, Forward, local_port

HOME = "/etc/ssh/vpneval"
PORT = 2222  # an sshd of our own: the gateway's real one stays as it is


CONFIG = {"F": ("{}",), "f": ("{}",)}
TOLD = (
    *("w", "L", "R", "C", "c", "m", "LocalForward", "RemoteForward", "Tunnel", "TunnelDevice", "Ciphers", "MACs"),
    *("Compression", "HostName", "Port", "IPQoS", "ServerAliveInterval", "PermitTunnel"),
)


class SshForward(Forward):
    title = "SSH port forwarding"
    sign = Sign(("ssh",), marks=("^(LocalForward|RemoteForward|L|R) ",), tells=TOLD, config=CONFIG)
    family = "SSH"
    ports = "tcp/2222"
    outer_ipv6 = True
    software = Software(
        {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server"},
        openssl=True,
        needs="sshd logs root in by key on the gateway that answers (gw2 of two), and refuses a locked account: "
        "`grep '^root:!' /etc/shadow` must print nothing there. If it does, `usermod -p '*' root` unlocks root, "
        "without a password.",
    )
    offers = Offers(
        ciphers={
            "aes-128-cbc": "aes128-cbc",
            "aes-192-cbc": "aes192-cbc",
            "aes-256-cbc": "aes256-cbc",
            "3des-cbc": "3des-cbc",
            "blowfish-128-cbc": "blowfish-cbc",  # gone since OpenSSH 7.6; the probe tells
            "aes-128-gcm": "aes128-gcm@openssh.com",
            "aes-256-gcm": "aes256-gcm@openssh.com",
            "chacha20-poly1305": "chacha20-poly1305@openssh.com",
        },
        integrities={
            "hmac-md5": "hmac-md5-etm@openssh.com",
            "hmac-sha1": "hmac-sha1-etm@openssh.com",
            "hmac-sha256": "hmac-sha2-256-etm@openssh.com",
        },
        compressions={"off": "no", "on": "yes"},
        key_exchanges={name: name for name in ("curve25519-sha256", "mlkem768x25519-sha256", "sntrup761x25519-sha512")},
        limits={"cipher": "OpenSSH always encrypts", "integrity": "OpenSSH always authenticates, with its own MACs"},
        gone={"blowfish-128-cbc": "OpenSSH has had no Blowfish since 7.6 (2017)"},
    )
    comparable = AES_CBC
    # The first of OpenSSH's default Ciphers, ssh_config(5).
    recommended = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        known = node.run("ssh", "-G", "-c", self.offers.ciphers[params["cipher"]], "gw2", check=False)
        if known.code != 0:
            return Unsupported.tool(f"ssh: {known.stderr.strip()}")
        exchange = params.get("key_exchange", "")
        if exchange and exchange not in node.run("ssh", "-Q", "kex").stdout.split():
            return Unsupported(f"`ssh -Q kex` does not list {exchange}")
        return None

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        ca.run("mkdir", "-pm", "700", "/root/vpneval-ca")
        secrets = {}
        for site in sites:
            for kind in ("host", "user"):
                name = f"{site.name}.{kind}"
                ca.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"/root/vpneval-ca/{name}")
                secrets[f"{name}.key"] = ca.run("cat", f"/root/vpneval-ca/{name}").stdout
                secrets[f"{name}.pub"] = ca.run("cat", f"/root/vpneval-ca/{name}.pub").stdout.strip()
        return secrets

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        algorithms = f"Ciphers {self.offers.ciphers[params['cipher']]}\n"
        if params["integrity"] != "aead":
            algorithms += f"MACs {self.offers.integrities[params['integrity']]}\n"
        if "key_exchange" in params:
            algorithms += f"KexAlgorithms {params['key_exchange']}\n"
        rekeying = f"RekeyLimit default {params['rekey_every_s']}\n" if "rekey_every_s" in params else ""
        files = {}
        if dialers := lower_numbered(me, peers):
            files[f"{HOME}/host.key"] = secrets[f"{me.name}.host.key"]
            files[f"{HOME}/authorized_keys"] = "".join(
                f"restrict,{self.rights_of(me, peer)} {secrets[f'{peer.name}.user.pub']}\n" for peer in dialers
            )
            files[f"{HOME}/sshd_config"] = (
                f"ListenAddress {me.wan_address}\nPort {PORT}\nHostKey {HOME}/host.key\n"
                f"AuthorizedKeysFile {HOME}/authorized_keys\nPermitRootLogin prohibit-password\n"
                f"PasswordAuthentication no\nUsePAM no\nPidFile none\n{self.server_options()}"
                f"Compression {self.offers.compressions[params['compression']]}\n{algorithms}"
            )
        if listeners := higher_numbered(me, peers):
            files[f"{HOME}/user.key"] = secrets[f"{me.name}.user.key"]
            files[f"{HOME}/known_hosts"] = "".join(
                f"[{peer.wan_address}]:{PORT} {secrets[f'{peer.name}.host.pub']}\n" for peer in listeners
            )
            files[f"{HOME}/ssh_config"] = "".join(
                f"Host {peer.name}\nHostName {peer.wan_address}\nPort {PORT}\nUser root\nBatchMode yes\n"
                f"IdentityFile {HOME}/user.key\nIdentitiesOnly yes\nUserKnownHostsFile {HOME}/known_hosts\n"
                f"StrictHostKeyChecking yes\nExitOnForwardFailure yes\n{alive(me.keepalive_s)}\n"
                f"LogVerbose kex.c:*:*,channels.c:channel_setup_fwd_listener_tcpip():*\n"
                f"{self.client_options(me, peer)}{rekeying}"
                f"Compression {self.offers.compressions[params['compression']]}\n{algorithms}\n"
                for peer in listeners
            )
        return files

    def rights_of(self, me: Site, peer: Site) -> str:
        """What the key of ``peer`` may do on ``me``, beyond nothing (sshd(8), authorized_keys)."""
        return "port-forwarding"

    def server_options(self) -> str:
        return "AllowTcpForwarding local\n"

    def client_options(self, me: Site, peer: Site) -> str:
        return "".join(
            f"LocalForward {me.lan_address}:{local_port(me, peer, port)} {peer.host_address}:{port}\n"
            for port in TCP_PORTS
        )

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        if lower_numbered(me, peers):
            node.run("mkdir", "-p", "/run/sshd")
            node.defer("ss", "-K", "sport", f"= :{PORT}")  # a session outlives its sshd, in a process group of its own
            node.spawn("/usr/sbin/sshd", "-D", "-e", "-f", f"{HOME}/sshd_config", log="sshd")
            wait_until(lambda: str(PORT) in node.run("ss", "-Hltn", f"sport = :{PORT}").stdout, "sshd listening")
        for peer in higher_numbered(me, peers):
            node.spawn("ssh", "-N", "-F", f"{HOME}/ssh_config", peer.name, log=f"ssh-{peer.name}")

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return all(
            f"Local forwarding listening on {me.lan_address} port {local_port(me, peer, TCP_PORTS[-1])}"
            in node.read_log(f"ssh-{peer.name}")
            for peer in higher_numbered(me, peers)
        )

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        dialed = higher_numbered(me, peers)
        if not dialed:
            return Evidence()  # the dialing side's log has it all
        agreed = parse_log(node.read_log(f"ssh-{dialed[0].name}"))
        wanted = {
            "cipher": self.offers.ciphers[params["cipher"]],
            "integrity": "<implicit>"
            if params["integrity"] == "aead"
            else self.offers.integrities[params["integrity"]],
            "compression": "none" if params["compression"] == "off" else "zlib@openssh.com",
        }
        for factor, native in wanted.items():
            if agreed[factor] != native:
                raise ProofError(f"asked for {factor} {native}, ssh negotiated {agreed[factor] or 'nothing'}")
        return Evidence(**agreed, data_path="userspace: ssh and sshd")

    def lifecycle(self) -> Lifecycle:
        source = "ssh_config(5); three in a row unanswered end it, and nothing starts ssh again"
        mark = log_mark("ssh-{}", "kex: server->client cipher")  # ~R asks for it, but on a terminal
        return Lifecycle(Rekeying(("clock",), mark=mark), (Timer(alive(), source, at="dialing"),))


def alive(seconds: int = 0) -> str:
    """How often ssh asks the other end whether it is there; 15 s where none are given."""
    return f"ServerAliveInterval {seconds or 15}"


def parse_log(log: str) -> dict[str, str]:
    """Key exchange, cipher, MAC, compression and version from `ssh` with LogVerbose for kex.c; a cipher, MAC or
    compression is empty if directions differ."""
    lines = re.findall(r"kex: \S+ cipher: (\S+) MAC: (\S+) compression: (\S+)", log)
    both = set(lines)
    cipher, mac, compression = both.pop() if len(both) == 1 else ("", "", "")
    version = re.search(r"Local version string SSH-2\.0-(\S+)", log)
    exchanges = re.findall(r"kex: algorithm: (\S+)", log)
    agreed = {"cipher": cipher, "integrity": mac, "compression": compression}
    agreed["key_exchange"] = exchanges[-1] if exchanges else ""
    return agreed | {"version": version[1] if version else ""}


SshForward.declared = Declared(
    Security(
        protocol="standard",
        specification="SSH (RFC 4251 to 4254), OpenSSH's PROTOCOL for its extensions",
        authentication=("public key", "certificate", "password"),
        handshake="SSH",
        key_exchange="mlkem768x25519-sha256 since OpenSSH 10.0, before it sntrup761x25519-sha512, since 9.0",
        forward_secrecy=True,
        post_quantum=True,
        maintained=Upkeep("Debian", "the last update of 10.0", "2026-05"),
        sources=(
            "Debian's changelog of openssh 10.0p1 (2026-05-06), with OpenSSH's own for 9.0, 9.6, 9.9 and 10.0",
            "RFC 10042 (August 2026): the hybrid exchange",
            "CVE-2008-5161, CVE-2023-48795 (cve.org)",
        ),
        as_of="2026-11-21",
        flaws=(
            "CBC with encrypt-and-MAC, which is not used here: plaintext recovery (Albrecht et al., IEEE S&P 2009; "
            "CVE-2008-5161)",
            "Terrapin: prefix truncation (CVE-2023-48795), fixed by strict key exchange in 9.6, and in Debian 12's 9.2",
        ),
        unchecked=("RFC 4251 to 4254, and Albrecht et al., were not read again",),
    ),
    ABILITIES,
)
