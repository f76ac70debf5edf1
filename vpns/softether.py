"""SoftEther VPN: an Ethernet hub on the last gateway, which the others join over TLS; TAPs on all of them.

Debian 12 only: it left Debian afterwards. Everything is set by vpncmd, from files, so that no password is an argument.
Its UDP acceleration is switched off, so that TLS carries all. Debian: softether-vpnserver, -vpnclient, -vpncmd.
Sources: vpncmd's own help; https://www.softether.org/4-docs/1-manual
"""

import re
from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign
from vpns._links import exists

HOME = "/etc/softether/vpneval"
FOLDERS = ("/run/softether", "/var/lib/softether", "/var/log/softether")  # as its systemd units make them
TLS_13 = "SoftEther's ServerCipherSet rules TLS 1.2 alone; with TLS 1.3 OpenSSL's first suite is taken"


class SoftEther(Vpn):
    title = "SoftEther VPN"
    sign = Sign(("vpnclient", "vpnserver", "vpnbridge"))
    dataplane = "userspace"
    transport = "tcp"
    ports = "tcp/443"
    modules = "tun"
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"
    software = Software(
        tools={
            "vpnserver": "softether-vpnserver, which Debian 12 has: --image bookworm",
            "vpnclient": "softether-vpnclient",
            "vpncmd": "softether-vpncmd",
            "openssl": "openssl",
        },
        needs="No other SoftEther server or client may run there. SoftEther keeps its settings in /var/lib/softether, "
        "and does not come up again with them after it was killed: run down.sh, empty that directory, and run up.sh.",
    )
    offers = Offers(
        ciphers={"aes-256-gcm": "TLS_AES_256_GCM_SHA384"},
        integrities={},
        compressions={"off": "AccountCompressDisable", "on": "AccountCompressEnable"},
        limits={"cipher": TLS_13, "integrity": TLS_13},
    )
    comparable = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        hub = sites[-1]  # it knows its members' passwords, so that they are secrets of both
        names = [f"{site.name}.{hub.name}.key" for site in sites]
        return {name: ca.run("openssl", "rand", "-hex", "24").stdout.strip() for name in names}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        hub = max((me, *peers), key=lambda site: site.number)
        if me is not hub:
            return {
                f"{HOME}/client": f"""\
NicCreate se
AccountCreate vpneval /SERVER:{hub.wan_address}:443 /HUB:vpneval /USERNAME:{me.name} /NICNAME:se
AccountPasswordSet vpneval /PASSWORD:{secrets[f"{me.name}.{hub.name}.key"]} /TYPE:standard
AccountDetailSet vpneval /MAXTCP:1 /INTERVAL:1 /TTL:0 /HALF:no /BRIDGE:no /MONITOR:no /NOTRACK:yes /NOQOS:yes \
/DISABLEUDP:yes
{self.offers.compressions[params["compression"]]} vpneval
AccountConnect vpneval
"""
            }
        users = "".join(
            f"UserCreate {peer.name} /GROUP:none /REALNAME:none /NOTE:none\n"
            f"UserPasswordSet {peer.name} /PASSWORD:{secrets[f'{peer.name}.{hub.name}.key']}\n"
            for peer in peers
        )
        return {
            f"{HOME}/server": f"""\
HubCreate vpneval /PASSWORD:{secrets[f"{me.name}.{hub.name}.key"]}
Hub vpneval
SecureNatDisable
{users}Hub
BridgeCreate vpneval /DEVICE:se /TAP:yes
ServerPasswordSet {secrets[f"{me.name}.{hub.name}.key"]}
"""
        }

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        hub = me.number > max(peer.number for peer in peers)
        device, daemon = ("tap_se", "vpnserver") if hub else ("vpn_se", "vpnclient")
        node.defer("sysctl", "-qw", "net.ipv4.conf.all.arp_filter=0")  # its daemons set it to 1
        node.run("mkdir", "-p", *FOLDERS)
        node.spawn(daemon, "execsvc", log=daemon)
        manage = ("vpncmd", "localhost", "/SERVER" if hub else "/CLIENT")
        wait_until(lambda: node.run(*manage, "/CMD", "About", check=False).code == 0, f"{daemon} ready")
        node.run(*manage, f"/IN:{HOME}/{'server' if hub else 'client'}")
        wait_until(lambda: exists(node, device), f"{device} there")
        node.run("ip", "addr", "add", f"10.53.0.{me.number}/24", "dev", device)
        node.run("ip", "link", "set", device, "mtu", "1400", "up")
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "via", f"10.53.0.{peer.number}", "src", me.lan_address)

    def status(self, node: Node) -> dict[str, str]:
        """What vpnclient says of its session, as name -> text. Never log it: the session's key is in it."""
        output = node.run("vpncmd", "localhost", "/CLIENT", "/CMD", "AccountStatusGet", "vpneval", check=False).stdout
        return {name.strip(): text.strip() for name, _, text in (line.partition("|") for line in output.splitlines())}

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        if me.number > max(peer.number for peer in peers):
            return exists(node, "tap_se")  # its members dial
        return self.status(node).get("Session Status", "").startswith("Connection Completed")

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        if me.number > max(peer.number for peer in peers):
            return Evidence()  # the client knows it all
        session = self.status(node)
        suite = re.search(r"Algorithm: (\S+?)\)", session.get("Encryption", ""))
        if suite is None or suite[1] != self.offers.ciphers[params["cipher"]]:
            raise ProofError(
                f"asked for {self.offers.ciphers[params['cipher']]}, got {session.get('Encryption') or 'nothing'}"
            )
        if session["Use of Compression"].startswith("No") is not (params["compression"] == "off"):
            raise ProofError(f"asked for compression {params['compression']}, got {session['Use of Compression']}")
        if not session.get("UDP Acceleration is Active", "No").startswith("No"):
            raise ProofError("UDP acceleration is active although it was switched off")
        return Evidence(
            cipher=suite[1],
            integrity="aead",
            compression="off" if params["compression"] == "off" else "zlib",
            data_path="userspace: vpnclient and vpnserver on TAP",
            version=f"SoftEther {session['Server Version']} {session['Server Build']}",
        )


SoftEther.declared = Declared(
    Security(
        protocol="own",
        specification="SoftEther's manual, chapter 2, over TLS 1.3 (RFC 8446)",
        authentication=("password", "certificate"),
        handshake="TLS",
        key_exchange="ECDHE",
        forward_secrecy=True,
        post_quantum=False,
        maintained=Upkeep("nobody", "Debian 12's 5.01.9674", "2020", "its makers go on with 5.02"),
        sources=(
            "https://www.softether.org/4-docs/1-manual/2/2.2 (users by password, RADIUS, and others)",
            "Debian's changelog of softether-vpn 5.01.9674+git20200806+8181039+dfsg2-2 (2020-12-03)",
            "CVE-2023-27395, CVE-2023-31192 (cve.org); SoftEtherVPN's pull requests 1824 and 1911 (2023)",
            "https://www.sentinelone.com/vulnerability-database/cve-2026-39312/",
        ),
        as_of="2026-11-21",
        known_breaks=(
            "CVE-2023-27395: a man in the middle can run code on the server (heap overflow); 5.01.9674 has it",
            "CVE-2023-31192: a man in the middle can have the client disclose memory; 5.01.9674 has it",
        ),
        flaws=("CVE-2026-39312: one packet of L2TP, which is off here, stops the server; up to 5.2.5188",),
        unchecked=("https://www.softether.org/4-docs/1-manual",),
    ),
    Abilities(
        inner=("IPv4", "IPv6", "Ethernet", "multicast"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=True,  # the session is resumed; tried: 21 s
        routes="operator",
        mesh=True,
        mesh_how="a star of Ethernets: the last site's hub switches for all",
        hub=True,
        users=("password", "RADIUS"),
    ),
)
