"""Site mode over a path that is IPv6: which VPNs come up on it, what is refused, and the path's description."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere
from runner.lab.places import open_rig
from runner.lab.places.site import SiteRig
from runner.lab.software.image import Image
from runner.tunnel.bring_up import bring_up, make_secrets, start_services, vpn_refusal
from tests.lab.sites import BOXES, OWN_IPV6, TwoSites, add_ipv6, two_sites
from tests.lab.test_site import tunnelled
from tests.lab.test_ssh_lab import as_before, settled

NAMED: dict[str, dict[str, object]] = {
    "gw1": {"wan_address": OWN_IPV6["gw1"], "public_address": None},
    "gw2": {"wan_address": OWN_IPV6["gw2"]},
}
NO_IPV4: dict[str, dict[str, object]] = {
    name: {"address": own, "public_address": None} for name, own in OWN_IPV6.items()
}
NAT66 = """table ip6 nat66 {
    chain postrouting {
        type nat hook postrouting priority srcnat; policy accept;
        oifname "out" masquerade
    }
}
"""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def boxes(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    """The two boxes of ``tests/lab/sites.py`` with IPv6 addresses beside the others; no NAT stands between these."""
    with two_sites(image, tmp_path_factory.mktemp("sites")) as up:
        add_ipv6(up)
        yield up


def test_an_ipv6_path_is_described_as_it_is(unchanged: TwoSites, tmp_path: Path) -> None:
    spec = f"site:{unchanged.sites(NAMED)}"
    with open_rig(spec, print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        assert isinstance(rig, SiteRig)
        path = rig.measure_path(lab)
        assert lab.host1.run("cat", "/sys/class/net/eth0/mtu").stdout.strip() == "1260"
        vpns = {name: load_vpn(name) for name in ("stunnel_forward", "n2n")}
        reasons = {name: vpn_refusal(lab, vpn, vpn.comparable) for name, vpn in vpns.items()}
    assert (path.mtu_bytes, path.on_link, path.nat, path.seen_as) == (1400, False, "", OWN_IPV6["gw1"])
    assert path.open == path.tried
    assert path.dscp_kept == path.ecn_kept == (True, True)
    assert len(path.rates_bps) == 2
    assert reasons["stunnel_forward"]
    assert "can, but vpneval's plugin cannot travel over IPv6" in reasons["stunnel_forward"].reason
    assert reasons["n2n"]
    assert "cannot travel over IPv6" in reasons["n2n"].reason


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "openvpn_tcp", "ssh_tun", "ipsec_user", "openconnect"])
def test_a_tunnel_over_ipv6(unchanged: TwoSites, tmp_path: Path, name: str) -> None:
    spec = f"site:{unchanged.sites(NAMED)}"
    with open_rig(spec, print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        before = sent_by_ipv4(unchanged)
        rate_bps = tunnelled(rig, lab, name)
        assert rate_bps > 1e6
        assert sent_by_ipv4(unchanged) - before < 0.5 * rate_bps / 8, "the tunnel travels over IPv4"


def test_what_travels_over_ipv4_is_seen(unchanged: TwoSites, tmp_path: Path) -> None:
    """The positive control of the tunnels over IPv6."""
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        before = sent_by_ipv4(unchanged)
        rate_bps = tunnelled(rig, lab, "wireguard_go")
        assert sent_by_ipv4(unchanged) - before > 0.5 * rate_bps / 8


def sent_by_ipv4(boxes: TwoSites) -> int:
    """Bytes of IPv4 that the router between has forwarded and sent; the management connection's are few."""
    lines = boxes.between["router"].run("nstat", "-asz", "IpExtOutOctets").stdout.split()
    return int(lines[lines.index("IpExtOutOctets") + 1])


def test_two_families_are_refused(unchanged: TwoSites) -> None:
    spec = f"site:{unchanged.sites({'gw1': NAMED['gw1']})}"
    with pytest.raises(CannotRunHere, match=r"not both .*: name wan_address of each"), open_rig(spec, print):
        pass


def test_a_tunnel_over_ipv6_through_a_nat(unchanged: TwoSites, tmp_path: Path) -> None:
    nat = unchanged.between["nat"]
    nat.run("nft", "-f", "-", input=NAT66)
    told: dict[str, dict[str, object]] = {**NAMED, "gw1": {**NAMED["gw1"], "public_address": "2001:db8:2::1"}}
    try:
        with open_rig(f"site:{unchanged.sites(told)}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert lab.path is not None
            assert lab.path.nat.startswith(f"{OWN_IPV6['gw1']} is seen as 2001:db8:2::1; the NAT keeps the port")
            assert tunnelled(rig, lab, "wireguard_go") > 1e6
    finally:
        nat.run("nft", "delete", "table", "ip6", "nat66")


@pytest.fixture(scope="module")
def without_ipv4(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    """The boxes, and all that is between them, with IPv6 only: no port but the loopback has an IPv4 address."""
    with two_sites(image, tmp_path_factory.mktemp("sites")) as up:
        add_ipv6(up)
        for node in (up.nodes | up.between).values():
            for port in ("ens0", "in", "out", "wan", "lan"):
                node.run("ip", "-4", "addr", "flush", "dev", port, check=False)
            assert not node.run("ip", "-4", "-o", "addr", "show", "up", "scope", "global").stdout
        yield up


@pytest.mark.parametrize("inner", ["", "6"])
@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "ipsec_user"])
def test_machines_that_have_no_ipv4_at_all(without_ipv4: TwoSites, tmp_path: Path, name: str, inner: str) -> None:
    """Both the management connection and the path are IPv6, and the inventory names no address but ssh's."""
    before = settled(without_ipv4)
    spec = f"site:{without_ipv4.sites(NO_IPV4)}"
    with open_rig(spec, print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        assert [site.wan_address for site in lab.sites] == [OWN_IPV6[name] for name in BOXES]
        assert tunnelled(rig, lab, name, inner=inner) > 1e6
    as_before(without_ipv4, before)


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn"])
@pytest.mark.parametrize("changes", [None, NAMED], ids=["path-4", "path-6"])
def test_ipv6_between_the_sites(
    unchanged: TwoSites, tmp_path: Path, name: str, changes: dict[str, dict[str, object]] | None
) -> None:
    """Hosts of both sites reach each other by IPv6; the gateways' settings for it are undone."""
    with open_rig(f"site:{unchanged.sites(changes)}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        vpn = load_vpn(name)
        secrets = make_secrets(vpn, rig.alone(rig.image("host"), lambda line: None), lab.sites)
        start_services(lab)
        tunnel = bring_up(lab, vpn, {**vpn.comparable, "inner": "6"}, secrets)
        assert tunnel.address == "2001:2:0:2::2"
        assert tunnel.proof.delivered
        assert lab.host1.run("ping", "-6", "-c1", "-W1", tunnel.address, check=False).code == 0
