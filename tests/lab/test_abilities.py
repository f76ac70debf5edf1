"""What plugins declare that their VPN can do, tried: IPv6 inside and outside, NAT, TCP 443 with UDP blocked, roaming.

What they carry (Ethernet, multicast) is in test_carried.py, and meshes are in test_mesh.py.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner import probes
from runner.failures.roaming import ready_to_roam
from runner.image import Image, open_image
from runner.lab import Lab, batch, namespace_lab
from runner.node import wait_until
from runner.plugin import Params, Secrets, Site, Vpn, load_vpn
from runner.proof import ANSWER_PORT
from runner.tunnel import Tunnel, bring_up, equip, start_services, unsupported

OLDER = ("softether", "vtun", "vtun_tcp")  # only Debian 12 has them


def up(lab: Lab, name: str, image: Image) -> Tunnel:
    return bring(lab, load_vpn(name), image)


def bring(lab: Lab, vpn: Vpn, image: Image) -> Tunnel:
    if no := unsupported(lab, vpn, vpn.comparable):
        pytest.skip(f"{vpn.name}: {no.reason}")
    with namespace_lab(image) as keys:
        if vpn.image_layer:
            equip(keys.host1, vpn)
        secrets = vpn.secrets(keys.host1, lab.sites)
    start_services(lab)
    return bring_up(lab, vpn, vpn.comparable, secrets)


def reworded(vpn: Vpn, edit: Callable[[str, Site], str]) -> Vpn:
    """The same VPN with other words in its files: ``edit`` gets a file's text, and whose it is."""
    plugin: type[Vpn] = type(vpn)

    class Other(plugin):  # type: ignore[valid-type, misc]
        def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
            files: dict[str, str] = super().render(me, peers, params, secrets)
            return {path: edit(text, me) for path, text in files.items()}

    found: Vpn = Other()
    return found


# Those that carry it without a word of it in their configuration; WireGuard and tinc want the addresses named there.
@pytest.mark.parametrize("name", ["openvpn", "openvpn_tap", "ssh_tun", "ssh_tap", "fastd", "vtun"])
def test_ipv6_inside(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert "IPv6" in vpn.abilities.inner
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        bare = "table bridge no6 {\n chain f {\n type filter hook forward priority 0\n ether type ip6 drop\n }\n}\n"
        lab.wan.run("nft", "-f", "-", input=bare)
        up(lab, name, gateways)
        for me, peer in (lab.sites, lab.sites[::-1]):
            gateway = lab.gateway(me)
            route = gateway.run("ip", "route", "get", peer.host_address).stdout.split()
            device = route[route.index("dev") + 1]
            gateway.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", f"net.ipv6.conf.{device}.disable_ipv6=0")
            via = f"via fd00::{peer.number} " if vpn.layer == 2 else ""
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


@pytest.mark.parametrize(
    "name",
    [
        *("wireguard_go", "nebula", "openconnect", "openconnect_tls", "ssh_tun", "stunnel_forward", "softether"),
        *("openvpn", "fastd", "ipsec_user", "tinc", "n2n", "vtun_tcp", "wireguard_rosenpass"),
    ],
)
def test_the_dialing_gateway_may_be_behind_a_nat(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert vpn.abilities.nat
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        behind_nat(lab)
        by_ping = translated(lab)
        assert bring(lab, reworded(vpn, unnamed), gateways).proof.delivered
        assert translated(lab) > by_ping, "nothing more was translated: the NAT is not on the way"


def behind_nat(lab: Lab) -> None:
    """Take gw1's cable out of the WAN's bridge: a router answers for the WAN there, and hides gw1 behind itself."""
    batch(
        lab.wan,
        "link set gw1 nomaster",
        "addr add 192.168.0.254/24 dev br0",
        "route add 192.168.0.1 dev gw1",
    )
    lab.wan.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.gw1.proxy_arp=1")
    rules = (
        "table ip nat {\n chain post {\n type nat hook postrouting priority 100\n"
        ' oifname "br0" ip saddr 192.168.0.1 counter masquerade\n }\n}\n'
    )
    lab.wan.run("nft", "-f", "-", input=rules)
    assert lab.nodes["gw1"].run("ping", "-c", "1", "-W", "2", "192.168.0.2", check=False).code == 0
    assert lab.nodes["gw2"].run("ping", "-c", "1", "-W", "1", "192.168.0.1", check=False).code != 0, "not hidden"


def translated(lab: Lab) -> int:
    """How many connections the NAT has translated."""
    return int(re.findall(r"packets (\d+) ", lab.wan.run("nft", "list", "table", "ip", "nat").stdout)[0])


def only_by(lab: Lab, *rules: str) -> None:
    """The WAN lets nothing through but what ``rules`` say; shown by a ping that no longer gets through."""
    table = "\n".join(
        ("table bridge only {", "chain f {", "type filter hook forward priority 0", *rules, "counter drop", "}", "}")
    )
    lab.wan.run("nft", "-f", "-", input=table)
    assert lab.nodes["gw1"].run("ping", "-c", "1", "-W", "1", "192.168.0.2", check=False).code != 0, "not blocked"


# Those that have another port by themselves: where it stands in the plugin, or what to write instead.
PORT_443 = {
    "ssh_tun": "vpns.ssh_forward.PORT",
    "vtun_tcp": "vpns.vtun.PORT",
    "openvpn_tcp": ("port 1194", "port 443"),
    "tinc": ("PMTUDiscovery = no", "PMTUDiscovery = no\nPort = 443\nTCPOnly = yes"),
}


@pytest.mark.parametrize("name", ["openconnect_tls", "softether", *PORT_443])
def test_tcp_443_where_udp_is_blocked(image: Image, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert vpn.abilities.tcp_443
    change = PORT_443.get(name, ("", ""))
    if isinstance(change, str):
        monkeypatch.setattr(change, 443)
        change = ("", "")
    old, new = change
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        only_by(lab, "ether type arp accept", "tcp dport 443 accept", "tcp sport 443 accept")
        moved = reworded(vpn, lambda text, me: text.replace(old, new) if old else text)
        assert bring(lab, moved, gateways).proof.delivered


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "fastd", "tinc", "nebula", "ssh_tun", "ipsec_user"])
def test_ipv6_outside(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert "IPv6" in vpn.abilities.outer

    def in_brackets(text: str, me: Site) -> str:
        text = re.sub(r"(?<!\[)\b(fd99::\d):(\d+)", r"[\1]:\2", text)
        return text.replace("udp4", "udp6").replace("AddressFamily = ipv4", "AddressFamily = ipv6")

    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        lab.sites = tuple(replace(site, wan_address=f"fd99::{site.number}") for site in lab.sites)
        for site in lab.sites:
            lab.gateway(site).run("sysctl", "-qw", "net.ipv6.conf.wan0.disable_ipv6=0")
            batch(lab.gateway(site), f"addr add {site.wan_address}/64 dev wan0 nodad")
        only_by(lab, "ether type ip6 accept")
        assert bring(lab, reworded(vpn, in_brackets), gateways).proof.delivered


def moves(lab: Lab, name: str, gateways: Image, within_s: float) -> None:
    """Bring it up, give the dialing gateway another address, and wait for an answer from the far host.

    Raises TimeoutError where none comes."""
    tunnel = bring(lab, ready_to_roam(load_vpn(name)), gateways)
    gateway = lab.gateway(lab.sites[0])
    gateway.run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
    batch(gateway, "addr add 192.168.0.101/24 dev wan0", "addr del 192.168.0.1/24 dev wan0")
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", tunnel.address, str(ANSWER_PORT), "1")
    wait_until(lambda: lab.host1.run(*ask, check=False).code == 0, "an answer after the move", within_s)


# Those that notice within seconds. Declared as well, and too slow for a test: fastd and SoftEther, 15 and 20 s.
@pytest.mark.parametrize(
    "name", ["wireguard_go", "boringtun", "wireguard_rosenpass", "nebula", "tinc", "ipsec_user", "openconnect"]
)
def test_a_gateway_moves_under_a_living_tunnel(image: Image, tmp_path: Path, name: str) -> None:
    vpn = load_vpn(name)
    assert vpn.abilities
    assert vpn.abilities.roaming
    with namespace_lab(image, logs=tmp_path) as lab:
        moves(lab, name, image, 30)


def test_a_tunnel_between_two_addresses_does_not_move(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("ssh_tun")
    assert vpn.abilities
    assert not vpn.abilities.roaming
    with namespace_lab(image, logs=tmp_path) as lab, pytest.raises(TimeoutError, match="after the move"):
        moves(lab, "ssh_tun", image, 3)
