"""What plugins declare that their VPN can do, tried: IPv6 inside, a gateway behind a NAT, TCP 443 with UDP blocked."""

from pathlib import Path

import pytest

from runner.image import Image, open_image
from runner.lab import Lab, batch, namespace_lab
from runner.node import wait_until
from runner.plugin import load_vpn
from runner.tunnel import Tunnel, bring_up, start_services, unsupported

OLDER = ("softether", "vtun", "vtun_tcp")  # only Debian 12 has them


def up(lab: Lab, name: str, image: Image) -> Tunnel:
    vpn = load_vpn(name)
    if no := unsupported(lab, vpn, vpn.comparable):
        pytest.skip(f"{name}: {no.reason}")
    with namespace_lab(image) as keys:
        secrets = vpn.secrets(keys.host1, lab.sites)
    start_services(lab)
    return bring_up(lab, vpn, vpn.comparable, secrets)


# Those that carry it without a word of it in their configuration; WireGuard and tinc want the addresses named there.
@pytest.mark.parametrize("name", ["openvpn", "openvpn_tap", "ssh_tun", "ssh_tap", "fastd", "vtun"])
def test_ipv6_inside(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert "IPv6" in vpn.abilities.inner
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
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


# As they are configured here: OpenVPN, IPsec and fastd can do it as well, but name the address of the peer.
@pytest.mark.parametrize(
    "name", ["wireguard_go", "nebula", "openconnect", "openconnect_tls", "ssh_tun", "stunnel_forward", "softether"]
)
def test_the_dialing_gateway_may_be_behind_a_nat(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert vpn.abilities.nat
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        behind_nat(lab)
        assert up(lab, name, gateways).proof.delivered
        translated = lab.wan.run("nft", "list", "table", "ip", "nat").stdout
        assert "packets 0 " not in translated, "nothing was translated: the NAT is not on the way"


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


@pytest.mark.parametrize("name", ["openconnect_tls", "softether"])
def test_tcp_443_where_udp_is_blocked(image: Image, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    assert vpn.abilities
    assert vpn.abilities.tcp_443
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        rules = (
            "table bridge only443 {\n chain f {\n type filter hook forward priority 0\n ether type arp accept\n"
            " tcp dport 443 accept\n tcp sport 443 accept\n counter drop\n }\n}\n"
        )
        lab.wan.run("nft", "-f", "-", input=rules)
        assert lab.nodes["gw1"].run("ping", "-c", "1", "-W", "1", "192.168.0.2", check=False).code != 0, "not blocked"
        assert up(lab, name, gateways).proof.delivered
