"""What plugins declare that their VPN can do, tried: NAT, TCP 443 with UDP blocked, roaming.

IPv6 is in test_families.py, what they carry (Ethernet, multicast) in test_carried.py, and meshes are in test_mesh.py.
Those of a guest kernel are tried by the functions here in tests/kernel/abilities_inside.py, IPv6 with other words in
their files where the plugin has none.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.levels import Params
from runner.lab import probes
from runner.lab.node import Completed, Node, wait_until
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch, namespace_lab, over_ipv6
from runner.lab.software.image import DEFAULT, Image, open_image
from runner.tunnel.bring_up import Tunnel, bring_up, make_secrets, start_services, vpn_refusal
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.plugin import Secrets, Vpn

OLDER = ("softether", "vtun", "vtun_tcp", "vtun_ppp")  # only Debian 12 has them
NAT_ADDRESS = "192.168.0.254"  # the outside of the NAT
LabFor = Callable[[str], Lab]


@pytest.fixture
def lab_for(image: Image, tmp_path: Path) -> Iterator[LabFor]:
    """A lab whose gateways have the software of the VPN of that name."""
    with ExitStack() as stack:

        def opened(name: str) -> Lab:
            gateways = open_image("bookworm", say=print) if name in OLDER else image
            lab = stack.enter_context(namespace_lab(image, gateways, logs=tmp_path))
            start_services(lab)
            return lab

        yield opened


def bring(lab: Lab, vpn: Vpn, **asked: str) -> Tunnel:
    if no := vpn_refusal(lab, vpn, vpn.comparable):
        pytest.skip(f"{vpn.name}: {no.reason}")
    return bring_up(lab, vpn, {**vpn.comparable, **asked}, keys(lab, vpn))


def keys(lab: Lab, vpn: Vpn) -> dict[str, str]:
    image = open_image("bookworm" if vpn.name in OLDER else DEFAULT)
    return make_secrets(vpn, NamespaceRig().alone(image, lab.commands.append), lab.sites)


Commands = Callable[[Sequence[str]], Sequence[str]]


class Gateway:
    """A gateway on which commands have other words than the plugin says."""

    def __init__(self, node: Node, commands: Commands) -> None:
        self.node, self.commands = node, commands

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)

    def run(self, *argv: str, **options: Any) -> Completed:
        return self.node.run(*self.commands(argv), **options)


def reworded(vpn: Vpn, edit: Callable[[str, Site], str], commands: Commands = lambda argv: argv) -> Vpn:
    """The same VPN with other words in its files, and in the commands that start it: ``edit`` gets a file's text, and
    whose it is."""
    plugin: type[Vpn] = type(vpn)

    class Other(plugin):  # type: ignore[valid-type, misc]
        def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
            files: dict[str, str] = super().render(me, peers, params, secrets)
            return {path: edit(text, me) for path, text in files.items()}

        def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
            super().start(Gateway(node, commands), me, peers, params)

    found: Vpn = Other()
    return found


def with_ipv6(text: str, me: Site) -> str:
    """A configuration that names what may pass, with the sites' IPv6 networks beside the others."""
    text = text.replace("noipv6\n", "+ipv6\n")  # pppd
    text = re.sub(r"(?m)((?:left|right)subnet=10\.(\d)\.0\.0/24)$", r"\1,fd0\2::/64", text)  # Libreswan
    text = re.sub(r"(?m)^(AllowedIPs = 10\.(\d)\.0\.0/24)$", r"\1, fd0\2::/64", text)  # WireGuard
    if "version = 1\n" not in text:
        return re.sub(r"(?m)(_ts = 10\.(\d)\.0\.0/24)$", r"\1, fd0\2::/64", text)  # strongSwan
    # IKEv1 has one pair of networks for each child.
    return re.sub(r"(?ms)^ {12}to-gw\d \{$.*?^ {12}\}\n", lambda child: child[0] + of_ipv6(child[0]), text)


def of_ipv6(child: str) -> str:
    """A child of swanctl.conf(5) that has the sites' IPv6 networks; none for one that has not their networks."""
    found = re.sub(r"10\.(\d)\.0\.0/24", r"fd0\1::/64", child.replace("to-", "ipv6-", 1))
    return found if "::/64" in found else ""


def carries_ipv6(lab: Lab, vpn: Vpn) -> None:
    """Hosts of both sites get IPv6 addresses, and reach each other through the tunnel; the WAN drops IPv6."""
    assert "IPv6" in vpn.declared.abilities.inner
    bare = "table bridge no6 {\n chain f {\n type filter hook forward priority 0\n ether type ip6 drop\n }\n}\n"
    lab.wan.run("nft", "-f", "-", input=bare)
    if "pppd" in vpn.software.tools:  # it negotiates IPv6 where a new interface may have it
        for site in lab.sites:
            lab.gateway(site).run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0")
    bring(lab, reworded(vpn, with_ipv6))
    for me, peer in (lab.sites, lab.sites[::-1]):
        gateway = lab.gateway(me)
        route = gateway.run("ip", "route", "get", peer.host_address).stdout.split()
        device = route[route.index("dev") + 1]
        gateway.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", f"net.ipv6.conf.{device}.disable_ipv6=0")
        via = f"via fd00::{peer.number} " if "link/ether" in gateway.run("ip", "link", "show", device).stdout else ""
        batch(
            gateway,
            f"addr add fd0{me.number}::1/64 dev lan0 nodad",
            f"addr add fd00::{me.number}/64 dev {device} nodad",
            f"route add fd0{peer.number}::/64 {via}dev {device}",
        )
        batch(
            lab.nodes[f"host{me.number}"],
            f"addr add fd0{me.number}::2/64 dev eth0 nodad",
            f"route add ::/0 via fd0{me.number}::1",
        )
    ping = ("ping", "-6", "-c", "1", "-W", "1", "fd02::2")
    wait_until(lambda: lab.host1.run(*ping, check=False).code == 0, "a ping by IPv6", 10)


def unnamed(text: str, me: Site) -> str:
    """The far gateway's words without the address of the one that dials, where they name it."""
    if me.number == 1:
        return text
    text = re.sub(r"(?m)^remote 192.168.0.1$", "float", text)  # OpenVPN
    text = re.sub(r"(?m)^(peer .* \{)$", r"\1\n    float yes;", text)  # fastd
    # strongSwan: and who has no address cannot be dialed either.
    return re.sub(r"remote_addrs = .*", "remote_addrs = %any", text).replace(
        "start_action = trap", "start_action = none"
    )


def by_its_nat(vpn: Vpn) -> Vpn:
    """The same VPN, whose far gateway knows the other one by the address of its NAT."""
    plugin: type[Vpn] = type(vpn)

    def shown(me: Site, peers: Sequence[Site]) -> list[Site]:
        return [replace(peer, wan_address=NAT_ADDRESS) if peer.number == 1 else peer for peer in peers]

    class Other(plugin):  # type: ignore[valid-type, misc]
        def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
            files: dict[str, str] = super().render(me, shown(me, peers), params, secrets)
            return files

        def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
            super().start(node, me, shown(me, peers), params)

    found: Vpn = Other()
    return found


# Tunnels between two addresses, and Libreswan, whose plugin asks for a policy beforehand (`ipsec ondemand`).
BY_ITS_NAT = ("gre_ipsec", "vxlan_ipsec", "libreswan")


def passes_a_nat(lab: Lab, vpn: Vpn) -> None:
    """The dialing gateway is hidden, and the tunnel comes up through the NAT, which counts it."""
    assert vpn.declared.abilities.nat
    behind_nat(lab)
    by_ping = translated(lab)
    hidden = by_its_nat(vpn) if vpn.name in BY_ITS_NAT else reworded(vpn, unnamed)
    assert bring(lab, hidden).proof.delivered
    assert translated(lab) > by_ping, "nothing more was translated: the NAT is not on the way"


def behind_nat(lab: Lab) -> None:
    """Take gw1's cable out of the WAN's bridge: a router answers for the WAN there, and hides gw1 behind itself."""
    batch(
        lab.wan,
        "link set gw1 nomaster",
        f"addr add {NAT_ADDRESS}/24 dev br0",
        "route add 192.168.0.1 dev gw1",
    )
    lab.wan.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.gw1.proxy_arp=1")
    rules = (
        "table ip nat {\n chain post {\n type nat hook postrouting priority 100\n"
        ' oifname "br0" ip saddr 192.168.0.1 counter masquerade\n }\n}\n'
    )
    if lab.wan.run("nft", "-f", "-", input=rules, check=False).code != 0:  # User Mode Linux has iptables' for that
        rule = ("POSTROUTING", "-o", "br0", "-s", "192.168.0.1", "-j", "MASQUERADE")
        lab.wan.run("iptables-legacy", "-t", "nat", "-A", *rule)
    assert lab.nodes["gw1"].run("ping", "-c", "1", "-W", "2", "192.168.0.2", check=False).code == 0
    assert lab.nodes["gw2"].run("ping", "-c", "1", "-W", "1", "192.168.0.1", check=False).code != 0, "not hidden"


def translated(lab: Lab) -> int:
    """How many connections the NAT has translated."""
    listed = lab.wan.run("nft", "list", "table", "ip", "nat", check=False)
    if listed.code == 0:
        return int(re.findall(r"packets (\d+) ", listed.stdout)[0])
    listed = lab.wan.run("iptables-legacy", "-t", "nat", "-nvxL", "POSTROUTING")
    return int(re.findall(r"(?m)^ *(\d+) +\d+ +MASQUERADE", listed.stdout)[0])


@pytest.mark.parametrize(
    "name",
    [
        *("wireguard_go", "nebula", "openconnect", "openconnect_tls", "ssh_tun", "stunnel_forward", "softether"),
        *("openvpn", "fastd", "ipsec_user", "tinc", "n2n", "vtun_tcp", "wireguard_rosenpass"),
        *("vpncloud", "yggdrasil", "masque"),
    ],
)
def test_the_dialing_gateway_may_be_behind_a_nat(lab_for: LabFor, name: str) -> None:
    passes_a_nat(lab_for(name), load_vpn(name))


def only_by(lab: Lab, *rules: str) -> None:
    """The WAN lets nothing through but what ``rules`` say; shown by a ping that no longer gets through."""
    table = "\n".join(
        ("table bridge only {", "chain f {", "type filter hook forward priority 0", *rules, "counter drop", "}", "}")
    )
    lab.wan.run("nft", "-f", "-", input=table)
    assert lab.nodes["gw1"].run("ping", "-c", "1", "-W", "1", "192.168.0.2", check=False).code != 0, "not blocked"


PORTS = {  # where the port stands in a plugin
    "ssh_tun": ("vpns.ssh_forward.PORT",),
    "vtun_tcp": ("vpns.vtun.PORT",),
    "ppp_ssh": ("vpns.ssh_forward.PORT",),
    "ppp_stunnel": ("vpns.ppp_stunnel.PORT",),
    "vtun_ppp": ("vpns.vtun.PORT", "vpns.vtun_ppp.PORT"),
}


def to_443(text: str, me: Site) -> str:
    """A configuration with TCP's port 443 for its own."""
    end = "client" if me.number == 1 else "server"
    text = text.replace("port 1194", "port 443").replace("proto udp4", f"proto tcp4-{end}")  # OpenVPN
    return text.replace("PMTUDiscovery = no", "PMTUDiscovery = no\nPort = 443\nTCPOnly = yes")  # tinc


def passes_by_tcp_443(lab: Lab, vpn: Vpn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WAN lets nothing through but TCP with port 443."""
    assert vpn.declared.abilities.tcp_443
    for port in PORTS.get(vpn.name, ()):
        monkeypatch.setattr(port, 443)
    only_by(lab, "ether type arp accept", "tcp dport 443 accept", "tcp sport 443 accept")
    assert bring(lab, reworded(vpn, to_443)).proof.delivered


@pytest.mark.parametrize(
    "name", ["openconnect_tls", "softether", "openvpn_tcp", "ssh_tun", "vtun_tcp", "tinc", "yggdrasil"]
)
def test_tcp_443_where_udp_is_blocked(lab_for: LabFor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes_by_tcp_443(lab_for(name), load_vpn(name), monkeypatch)


def in_brackets(text: str, me: Site) -> str:
    """A configuration in which the WAN's addresses are of IPv6; stunnel wants them without brackets."""
    text = re.sub(r"(?<!accept = )(?<!connect = )(?<!\[)\b(2001:db8::\d):(\d+)", r"[\1]:\2", text)
    return text.replace("udp4", "udp6").replace("AddressFamily = ipv4", "AddressFamily = ipv6")


def of_ipv6_outside(argv: Sequence[str]) -> Sequence[str]:
    """A command of ip(8), as it has to be for a WAN of IPv6: GRE has a type of its own there, with an option that GRE
    does not ask for (RFC 2473 §4.1.1); and a route of IPv4 names the family of such a gateway."""
    found: list[str] = []
    for before, word in zip(("", *argv), argv, strict=False):
        if (before, word) == ("type", "gre"):
            found += ["ip6gre", "encaplimit", "none"]
        else:
            found += ["inet6", word] if before == "via" and ":" in word else [word]
    return found


def travels_over_ipv6(lab: Lab, vpn: Vpn) -> None:
    """The gateways know each other by IPv6, and the WAN drops everything else."""
    assert "IPv6" in vpn.declared.abilities.outer
    over_ipv6(lab)
    only_by(lab, "ether type ip6 accept")
    assert bring(lab, reworded(vpn, in_brackets, of_ipv6_outside)).proof.delivered


def moves(lab: Lab, vpn: Vpn, within_s: float) -> None:
    """Bring it up, give the dialing gateway another address, and wait for an answer from the far host.

    Raises TimeoutError where none comes."""
    tunnel = bring(lab, vpn, roaming=lab.sites[0].name)
    gateway = lab.gateway(lab.sites[0])
    gateway.run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
    batch(gateway, "addr add 192.168.0.101/24 dev wan0", "addr del 192.168.0.1/24 dev wan0")
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", tunnel.address, str(ANSWER_PORT), "1")
    wait_until(lambda: lab.host1.run(*ask, check=False).code == 0, "an answer after the move", within_s)


def roams(lab: Lab, vpn: Vpn) -> None:
    """A gateway's address changes under the tunnel, which goes on."""
    assert vpn.declared.abilities.roaming
    moves(lab, vpn, 30)


def does_not_roam(lab: Lab, vpn: Vpn) -> None:
    """The control: a tunnel between two addresses does not follow."""
    assert not vpn.declared.abilities.roaming
    with pytest.raises(TimeoutError, match="after the move"):
        moves(lab, vpn, 3)


# Those that notice within seconds. Declared as well, and too slow for a test: fastd and SoftEther, 15 and 20 s.
@pytest.mark.parametrize(
    "name", ["wireguard_go", "boringtun", "wireguard_rosenpass", "nebula", "tinc", "ipsec_user", "openconnect"]
)
def test_a_gateway_moves_under_a_living_tunnel(lab_for: LabFor, name: str) -> None:
    roams(lab_for(name), load_vpn(name))


@pytest.mark.smoke
def test_a_tunnel_between_two_addresses_does_not_move(lab_for: LabFor) -> None:
    does_not_roam(lab_for("ssh_tun"), load_vpn("ssh_tun"))
