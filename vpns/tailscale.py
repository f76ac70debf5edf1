"""Tailscale: WireGuard in userspace between nodes that a coordinator tells of each other; here each gateway is a
"subnet router" of its site.

Not in Debian: the layer vagrant/layers/tailscale.sh builds the Go module tailscale.com, and with it the coordinator:
the control server of Tailscale's own tests, and the relay DERP. Both are on a node of their own on the WAN, so no
account and no Internet is needed. Sources: tailscale(8) `--help`; https://tailscale.com/kb/1214/site-to-site.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, bracket_address, helper_site
from runner.vpn import closed_form
from runner.vpn.declared import Abilities, Declared, Security
from runner.vpn.lifecycle import Lifecycle, Rekeying, Timer
from runner.vpn.plugin import Offers, Secrets, Software, Vpn, no_tun
from runner.vpn.sign import Sign
from vpns._certificates import DAYS, NEW_KEY, days_of

HOME = "/etc/tailscale/vpneval"
RELAY = "derp.vpneval"
RULES = ("5210", "5230", "5250", "5270")  # that lead its own packets past the tunnel, and others to its table
SUITE = "Tailscale has WireGuard's cipher suite, ChaCha20-Poly1305, and negotiates none"
TIMERS = (
    Timer(
        "a ping every 3 s while something is sent, and a path that has not answered for 6.5 s is left (fixed)",
        "heartbeatInterval and trustUDPAddrDuration in wgengine/magicsock of v1.98.10",
    ),
)


class Tailscale(Vpn):
    title = "Tailscale"
    sign = Sign(("tailscaled",), tells=("tun", "port"))
    family = "Tailscale"
    dataplane = "userspace"
    transport = "udp"
    ports = "udp/41641"
    outer_ipv6 = inner_ipv6 = True
    devices = "tailscale0"
    beside = "coordinator"
    modules = "tun"
    note = "the coordinator is the control server of Tailscale's own tests, not Tailscale's service or Headscale"
    software = Software(
        {name: name for name in ("tailscaled", "tailscale", "derper", "testcontrol")} | {"openssl": "openssl"},
        layer="tailscale",
        needs="In the place of the lab's coordinator you need a tailnet of your own: an account at Tailscale, or a "
        "control server like Headscale. Make an auth key there. On each gateway: tailscale up --auth-key=file:KEY "
        "--advertise-routes=NETWORK --accept-routes --snat-subnet-routes=false. Then approve both routes there.",
    )
    offers = Offers(
        ciphers={"chacha20-poly1305": "ChaCha20-Poly1305"},
        integrities={},
        limits={"cipher": SUITE, "integrity": SUITE, "compression": "Tailscale does not compress"},
    )
    comparable = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}
    recommended = comparable
    relayed: bool | None = False  # through DERP, as where no UDP passes; None: as it finds the way

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers | None:
        return None if self.relayed else closed_form.wireguard(inner_bytes, mtu=1280)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        here = "/root/vpneval-ca/"
        ca.run("mkdir", "-pm", "700", here)
        named = ("-subj", f"/CN={RELAY}", "-addext", f"subjectAltName=DNS:{RELAY}")
        files = ("-keyout", here + "derp.key", "-out", here + "derp.crt")
        ca.run("openssl", "req", "-x509", *NEW_KEY, "-days", str(days_of(ca) or DAYS), *named, *files)
        digest = f"openssl x509 -in {here}derp.crt -outform DER | sha256sum | cut -d' ' -f1"
        auth = ca.run("openssl", "rand", "-hex", "24").stdout.strip()  # one for all
        return {f"{site.name}.key": auth for site in sites} | {
            "derp.key": ca.run("cat", here + "derp.key").stdout,
            "derp.crt": ca.run("cat", here + "derp.crt").stdout,
            "derp.pub": ca.run("sh", "-c", digest).stdout.strip(),
        }

    def render_beside(self, me: Site, sites: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        versions = {"IPv4": "none", "IPv6": "none", f"IPv{me.path_version}": me.wan_address}
        pinned = {"HostName": RELAY, "CertName": f"sha256-raw:{secrets['derp.pub']}"}
        region = {"RegionID": 900, "RegionCode": "lab", "RegionName": "lab"}
        relay = region | {"Nodes": [{"Name": "1", "RegionID": 900} | pinned | versions]}
        control = {
            "Listen": ":8080",
            "URL": f"http://{bracket_address(me.wan_address)}:8080",
            "AuthKey": secrets[f"{sites[0].name}.key"],
            "DERPMap": {"OmitDefaultRegions": True, "Regions": {"900": relay}},
        }
        return {
            f"{HOME}/control.json": json.dumps(control, indent=1) + "\n",
            f"{HOME}/{RELAY}.crt": secrets["derp.crt"],
            f"{HOME}/{RELAY}.key": secrets["derp.key"],
        }

    def start_beside(self, node: Node, me: Site, sites: Sequence[Site], params: Params) -> None:
        named = ("-hostname", RELAY, "-certmode", "manual", "-certdir", HOME)
        node.spawn("derper", "-c", f"{HOME}/derper.json", "-a", ":443", "-http-port", "-1", *named, log="derper")
        node.spawn("testcontrol", f"{HOME}/control.json", log="testcontrol")
        for port in ("443", "8080"):
            wait_until(partial(listens, node, port), f"{me.name} listening on {port}")

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        return {f"{HOME}/auth.key": secrets[f"{me.name}.key"]}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        node.defer("rm", "-rf", "/var/lib/tailscale")
        for version, family in (("-4", "ip"), ("-6", "ip6")):
            for preference in RULES:
                node.defer("ip", version, "rule", "del", "pref", preference)
            for table in ("filter", "nat"):  # it makes them, empty, although it is to leave netfilter alone
                node.defer("nft", "delete", "table", family, table)
        relayed = ("env", "TS_DEBUG_ALWAYS_USE_DERP=1") if self.relayed else ()
        node.spawn(*relayed, "tailscaled", "--no-logs-no-support", "--port=41641", log="tailscaled")
        socket = "/run/tailscale/tailscaled.sock"
        wait_until(lambda: node.run("test", "-S", socket, check=False).code == 0, "tailscaled's socket")
        server = helper_site(me, self.beside).wan_address
        routes = f"{me.lan},{me.lan_ipv6}" if "inner" in params else me.lan
        node.run(
            *(
                "tailscale",
                "up",
                f"--login-server=http://{bracket_address(server)}:8080",
                f"--auth-key=file:{HOME}/auth.key",
            ),
            *(f"--hostname={me.name}", f"--advertise-routes={routes}", "--accept-routes"),
            *("--snat-subnet-routes=false", "--netfilter-mode=off", "--accept-dns=false", "--timeout=20s"),
        )

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        """Does each peer answer, on the way that is asked for? Until a direct one is found, DERP carries packets."""
        known = peers_of_status(node)
        if not {peer.name for peer in peers} <= known.keys():
            return False
        return all(self.is_asked(ping(node, known[peer.name]["TailscaleIPs"][0])) for peer in peers)

    def is_asked(self, pong: str) -> bool:
        """Did the answer to a ping take the way that is asked for?"""
        return " via " in pong and self.relayed in (None, " via DERP(" in pong)

    def with_fallback(self) -> Vpn:
        if self.relayed:
            return self
        either = type(self)()
        either.relayed = None
        return either

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        if " tun " not in node.run("ip", "-d", "link", "show", "tailscale0").stdout:
            raise ProofError("tailscale0 is no TUN: tailscaled did not make it")
        peer = peers_of_status(node)[peers[0].name]
        way = ping(node, peer["TailscaleIPs"][0])
        if not self.is_asked(way):
            raise ProofError(f"{'relayed' if self.relayed else 'direct'} was asked for, and tailscale ping says: {way}")
        if peer["LastHandshake"].startswith("0001"):
            raise ProofError(f"tailscaled has had no handshake with {peers[0].name}")
        return Evidence(
            cipher="ChaCha20-Poly1305",
            integrity="Poly1305",
            compression="off",
            key_exchange="Curve25519",  # WireGuard has no other
            data_path=f"userspace: tailscaled on TUN, {'through DERP' if ' via DERP(' in way else 'direct'}",
            version="tailscale " + node.run("tailscale", "version").stdout.partition("\n")[0],
            facts={"way": way},
        )

    def lifecycle(self) -> Lifecycle:
        # New keys every 120 s, WireGuard's REKEY_AFTER_TIME.
        return Lifecycle(Rekeying(("protocol",), mark=handshakes), TIMERS)


def listens(node: Node, port: str) -> bool:
    """Does somebody listen on this TCP port?"""
    return node.run("ss", "-Hltn", f"sport = :{port}").stdout != ""


def peers_of_status(node: Node) -> dict[str, dict[str, Any]]:
    """What ``tailscale status`` says of each peer, by its host name."""
    status = json.loads(node.run("tailscale", "status", "--json").stdout)
    return {peer["HostName"]: peer for peer in (status["Peer"] or {}).values()}


def handshakes(node: Node, peers: Sequence[Site]) -> str:
    """When each peer's latest handshake was."""
    known = peers_of_status(node)
    return " ".join(str(known[peer.name]["LastHandshake"]) for peer in peers)


def ping(node: Node, address: str) -> str:
    """The answer to a ping of Tailscale's own, with the way that it took: "via DERP(lab)", "via 192.168.0.2:41641"."""
    return node.run("tailscale", "ping", "--c=1", "--timeout=2s", address, check=False).stdout.strip()


Tailscale.declared = Declared(
    Security(
        protocol="own",
        specification="WireGuard (Noise_IKpsk2) between nodes; a coordinator tells them each other's keys, over Noise",
        authentication=("public key", "pre-shared key"),
        key_exchange="Curve25519",
        forward_secrecy=True,
        post_quantum=False,
        maintained="yes: v1.98.10 is what is built here",
        sources=(
            "https://tailscale.com/blog/tailscale-key-management/ (the coordinator hands out the nodes' public keys)",
            "https://tailscale.com/kb/1214/site-to-site (subnet routers between two networks)",
            "https://tailscale.com/kb/1232/derp-servers (a relay sees only encrypted packets)",
            "https://tailscale.com/security-bulletins/ (TS-2025-003, TS-2025-007)",
        ),
        as_of="2026-11-26",
        flaws=(
            "TS-2025-003: the secret between meshed DERP servers could be found by timing; mended in May 2025",
            "TS-2025-007: a one-off auth key could be used twice at the same moment; mended in November 2025",
        ),
        unchecked=(
            "bulletins of 2026",
            "who controls the coordinator can add a node, unless tailnet lock is on; here it is off",
        ),
    ),
    Abilities(
        inner=("IPv4", "IPv6"),
        outer=("IPv4", "IPv6"),
        nat=True,
        tcp_443=True,
        roaming=True,
        routes="daemon",
        mesh=True,
        mesh_how="one daemon; the coordinator tells it of the others",
    ),
)
