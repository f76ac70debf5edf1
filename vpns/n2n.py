"""n2n: an Ethernet of edges that find each other through a supernode; one shared key, Twofish, packets in UDP.

The last gateway runs the supernode as well; edges that can reach each other then talk directly. LZO is always on, and
nothing authenticates a packet. Debian: n2n (version 1; 2.x and 3.x never came). Sources: edge(8), supernode(1).
"""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site, higher_numbered
from runner.vpn.declared import Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign

HOME = "/etc/n2n/vpneval"
ONE_CIPHER = "n2n 1 has Twofish alone"


class N2n(Vpn):
    title = "n2n 1"
    sign = Sign(("edge",), tells=("M", "l", "a", "A", "z", "p", "S", "S1", "S2"))
    dataplane = "userspace"
    modules = "tun"
    transport = "udp"
    note = "one key for all gateways, no integrity; compression (LZO) cannot be switched off"
    software = Software({"edge": "n2n", "supernode": "n2n", "openssl": "openssl"})
    offers = Offers(
        ciphers={"twofish-128-cbc": "Twofish"},
        integrities={"none": "none"},
        compressions={"off": "LZO"},
        limits={"cipher": ONE_CIPHER, "integrity": "n2n 1 has no integrity", "compression": "n2n 1 always uses LZO"},
    )
    comparable = {"cipher": "twofish-128-cbc", "integrity": "none", "compression": "off"}
    recommended = comparable

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        key = ca.run("openssl", "rand", "-hex", "16").stdout.strip()
        return {f"{site.name}.key": key for site in sites}  # one for all

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        # In the environment, because edge would show an argument to everybody.
        return {f"{HOME}/key": f"N2N_KEY={secrets[f'{me.name}.key']}\n"}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        last = max((me, *peers), key=lambda site: site.number)
        if me is last:
            node.spawn("supernode", "-l", "7654", log="supernode")
        # The TAP is there first, so that the routes can be; edge attaches to it, and sets the same address.
        node.defer("ip", "link", "del", "n2n0")
        node.run("ip", "tuntap", "add", "n2n0", "mode", "tap")
        node.run("ip", "addr", "add", f"10.56.0.{me.number}/24", "dev", "n2n0")
        node.run("ip", "link", "set", "n2n0", "mtu", "1400", "up")
        for peer in peers:
            node.run("ip", "route", "add", peer.lan, "via", f"10.56.0.{peer.number}", "src", me.lan_address)
        edge = ("edge", "-d", "n2n0", "-a", f"10.56.0.{me.number}", "-s", "255.255.255.0", "-c", "vpneval")
        mac = f"02:00:00:00:06:{me.number:02x}"
        argv = (*edge, "-l", f"{last.wan_address}:7654", "-p", "7655", "-M", "1400", "-m", mac, "-r")
        node.spawn("sh", "-c", f'set -a; . {HOME}/key; exec "$@"', "sh", *argv, log="edge")
        if len(peers) > 1:
            # One after the other: an edge that awaits two peers' answers takes the first for that of whoever came last
            # (set_peer_operational in edge.c), and sends each one's frames to the other until it forgets both.
            for peer in higher_numbered(me, peers):
                node.run("ping", "-q", "-c", "1", "-w", "10", f"10.56.0.{peer.number}", check=False)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return "Registered with supernode" in node.read_log("edge") or "REGISTER_ACK" in node.read_log("edge")

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        if "tap" not in node.run("ip", "-d", "link", "show", "n2n0").stdout:
            raise ProofError("n2n0 is no TAP")
        version = node.run("edge", "-h", check=False)
        return Evidence(
            cipher="Twofish",
            integrity="none",
            compression="LZO",
            data_path="userspace: edge on TAP",
            version=(version.stdout + version.stderr).partition("Welcome to ")[2].partition(" for")[0],
        )


N2n.declared = Declared(
    Security(
        protocol="own",
        specification="none but its source and L. Deri, R. Andrews, N2N: A Layer Two Peer-to-Peer VPN (AIMS 2008)",
        authentication=("pre-shared key",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", "1.3.1", "2018-04", "its makers left version 1 many years ago"),
        sources=(
            "Debian's README.Debian (SECURITY) and changelog of n2n 1.3.1 (2018-04-17)",
            "n2n(7) of versions 2 and 3: one password without expiry in version 1, and no way back to it",
        ),
        as_of="2026-11-21",
        known_breaks=("no message authentication: packets can be changed and replayed (its source, twofish.c)",),
        unchecked=("n2n's source was not opened again, nor the paper",),
    ),
    Abilities(
        inner=("IPv4", "Ethernet", "multicast"),
        outer=("IPv4",),
        nat=True,
        tcp_443=False,
        roaming=False,  # tried: no answer within 150 s
        routes="operator",
        mesh=True,
        mesh_how="one community, with one key for all; the last site runs the supernode, and the edges meet one by one",
        hub=True,
    ),
)
