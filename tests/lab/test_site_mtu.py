"""Site mode on a path below 1500 bytes that lets no ICMP through: its MTU is found, or the line to add is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.places import open_rig
from runner.lab.places.site import SiteRig
from tests.lab.commands import vpneval
from tests.lab.sites import TwoSites
from tests.lab.test_site import tunnelled

pytestmark = pytest.mark.timeout(300)

NO_ICMP = """table ip no_icmp {
    chain forward { type filter hook forward priority 0; meta l4proto icmp drop; %s }
    chain output { type filter hook output priority 0; meta l4proto icmp drop; }
}
"""


@contextmanager
def without_icmp(boxes: TwoSites, more: str = "") -> Iterator[None]:
    """Neither router forwards ICMP, or says that a packet is too long. ``more``: rules for what is forwarded."""
    for node in boxes.between.values():
        node.run("nft", "-f", "-", input=NO_ICMP % more)
    try:
        yield
    finally:
        for node in boxes.between.values():
            node.run("nft", "delete", "table", "ip", "no_icmp")


@pytest.mark.smoke
def test_the_mtu_is_found_without_icmp(unchanged: TwoSites, tmp_path: Path) -> None:
    with (
        without_icmp(unchanged),
        open_rig(f"site:{unchanged.sites()}", print) as rig,
        rig.lab(rig.image("host"), logs=tmp_path) as lab,
    ):
        assert isinstance(rig, SiteRig)
        assert unchanged.nodes["gw1"].run("ping", "-c1", "-W1", "198.51.100.2", check=False).code != 0
        path = rig.measure_path(lab)
        assert (path.mtu_bytes, path.answers_pings) == (1400, False)
        assert all(rate_bps > 1e6 for rate_bps in path.rates_bps)
        assert len(path.rates_bps) == 2
        assert tunnelled(rig, lab, "wireguard_go") > 1e6


@pytest.mark.parametrize("mtu", [1280, 1492])
def test_any_mtu_is_found(unchanged: TwoSites, tmp_path: Path, mtu: int) -> None:
    for name, port in (("nat", "out"), ("router", "wan")):
        unchanged.between[name].run("ip", "link", "set", port, "mtu", str(mtu))
    try:
        with (
            without_icmp(unchanged),
            open_rig(f"site:{unchanged.sites()}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path) as lab,
        ):
            assert lab.path
            assert lab.path.mtu_bytes == mtu
    finally:
        for name, port in (("nat", "out"), ("router", "wan")):
            unchanged.between[name].run("ip", "link", "set", port, "mtu", "1400")


def test_a_way_back_that_is_narrower_counts(unchanged: TwoSites, tmp_path: Path) -> None:
    unchanged.between["router"].run("ip", "link", "set", "wan", "mtu", "1300")
    try:
        with (
            without_icmp(unchanged),
            open_rig(f"site:{unchanged.sites()}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path) as lab,
        ):
            assert lab.path
            assert lab.path.mtu_bytes == 1300
    finally:
        unchanged.between["router"].run("ip", "link", "set", "wan", "mtu", "1400")


def test_where_only_tcp_comes_through_the_line_is_said_and_enough(unchanged: TwoSites, tmp_path: Path) -> None:
    with without_icmp(unchanged, "meta l4proto udp drop;"):
        complaint = "gw2 answers no ping at 198.51.100.2, and none of its UDP ports comes through.*path_mtu = 1400"
        with (
            pytest.raises(CannotRunHere, match=complaint),
            open_rig(f"site:{unchanged.sites()}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path),
        ):
            pass
        spec = f"site:{unchanged.sites(top='path_mtu = 1400')}"
        done = vpneval("doctor", "--lab", spec, "--image", "host", "--vpn", "openvpn_tcp")
        assert done.returncode == 0, done.stdout
        assert "Mbit/s from gw2 to gw1" in done.stdout
        wrong = f"site:{unchanged.sites(top='path_mtu = 1500')}"
        done = vpneval("doctor", "--lab", wrong, "--image", "host", "--vpn", "openvpn_tcp")
        assert "name the longest in the inventory: path_mtu = 1400" in " ".join(done.stdout.split())
        assert "Traceback" not in done.stdout + done.stderr
