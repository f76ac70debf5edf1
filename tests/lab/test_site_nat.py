"""Site mode with a NAT before each gateway, of which the second forwards ports; and with one that changes ports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import wait_until
from runner.lab.places import open_rig
from runner.lab.shape.site_to_site import Lab
from runner.stages.examination import path_checks
from runner.tunnel.bring_up import vpn_refusal
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
        no = vpn_refusal(lab, load_vpn("nebula"), load_vpn("nebula").comparable)
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


PEER = "import socket; s = socket.create_server(('', 7788)); c, peer = s.accept(); print(peer[0], flush=True)"
NAT_RULES = ("-o ens0 -j MASQUERADE", "-j MASQUERADE", "-s 198.18.0.0/15 -j SNAT --to-source 10.0.0.2")


@pytest.mark.parametrize("rule", NAT_RULES)
def test_a_gateway_that_is_a_nat_leaves_what_is_between_the_hosts_as_it_is(
    unchanged: TwoSites, tmp_path: Path, rule: str
) -> None:
    """Kernel IPsec would send it in the clear, and other VPNs from an address that is not the host's."""
    gateway = unchanged.nodes["gw1"]

    def seen_from(lab: Lab, log: str) -> str:
        """The address that the far host sees; empty where nothing comes back."""
        hearing = lab.host2.spawn("python3", "-uc", PEER, log=log)
        wait_until(lambda: ":7788 " in lab.host2.run("ss", "-Hltn").stdout, "a listener", 10)
        to = (lab.sites[1].host_address, 7788)
        lab.host1.run("python3", "-c", f"import socket; socket.create_connection({to}, 3)", check=False)
        hearing.stop()
        return lab.host2.read_log(log).strip()

    gateway.run("sh", "-c", f"iptables -t nat -A POSTROUTING {rule}")
    try:
        with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "openvpn") > 1e6
            assert seen_from(lab, "exempted") == lab.sites[0].host_address
            gateway.run("nft", "delete", "table", "ip", "vpneval_site")
            if "-o ens0" not in rule:  # it is for the tunnel's device, too
                assert seen_from(lab, "changed") != lab.sites[0].host_address, "the control"
    finally:
        gateway.run("iptables", "-t", "nat", "-F")
        for table in ("nat", "filter"):
            gateway.run("nft", "delete", "table", "ip", table, check=False)
