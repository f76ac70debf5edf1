"""Site mode with a NAT before each gateway, of which the second forwards ports; and with one that changes ports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.cli.examination import path_checks
from runner.lab.places import open_rig
from runner.tunnel.bring_up import unsupported
from tests.lab.sites import NAT, TwoSites
from tests.lab.test_site import tunnelled

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn"])
def test_a_tunnel_through_two_nats(unchanged: TwoSites, tmp_path: Path, name: str) -> None:
    with (
        unchanged.nat_before_gw2([51820, 1194]) as told,
        open_rig(f"site:{unchanged.sites(told)}", print) as rig,
        rig.lab(rig.image("host"), logs=tmp_path) as lab,
    ):
        assert lab.path is not None
        assert sorted(lab.path.open) == ["udp/1194", "udp/51820"]
        assert lab.path.nat.startswith("10.0.0.2 is seen as 203.0.113.1; the NAT keeps the port; one mapping")
        assert lab.path.nat.endswith(
            "; gw2 198.51.100.2 is reached at 203.0.113.2, whose NAT forwards udp/51820, udp/1194"
        )
        assert lab.measure_path is not None
        says = {check.what: check.says for check in path_checks(lab.measure_path(), lab.sites)}
        assert says["path rate"].startswith("not measured"), "no TCP port is forwarded"
        assert tunnelled(rig, lab, name) > 1e6
        assert lab.host2.run("ping", "-c1", "-W2", lab.sites[0].host_address).code == 0
        no = unsupported(lab, load_vpn("nebula"), load_vpn("nebula").comparable)
    assert no
    assert no.reason == "the NAT before gw2 does not forward udp/4242: list it in forwards of [gw2]"


@contextmanager
def changing_ports(boxes: TwoSites) -> Iterator[None]:
    """The NAT before gw1 gives every connection another port."""
    nat = boxes.between["nat"]
    nat.run("nft", "-f", "-", input="flush table ip nat\n" + NAT.replace("masquerade", "masquerade fully-random"))
    try:
        yield
    finally:
        nat.run("nft", "-f", "-", input=f"flush table ip nat\n{NAT}")


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "ipsec_user", "tinc", "nebula"])
def test_a_tunnel_through_a_nat_that_changes_ports(unchanged: TwoSites, tmp_path: Path, name: str) -> None:
    with (
        changing_ports(unchanged),
        open_rig(f"site:{unchanged.sites()}", print) as rig,
        rig.lab(rig.image("host"), logs=tmp_path) as lab,
    ):
        assert lab.path is not None
        assert lab.path.nat == (
            "10.0.0.2 is seen as 203.0.113.1; the NAT changes the port; another mapping for each port"
        )
        assert tunnelled(rig, lab, name) > 1e6
