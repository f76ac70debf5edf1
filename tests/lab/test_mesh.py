"""Full meshes for real, small ones: everybody reaches everybody, or it is said who does not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.trials import Evidence, Proof
from runner.instruments.operator import mesh as meshes
from runner.instruments.operator.mesh import METRICS, mesh
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, mesh_sites
from runner.lab.shape.topologies import Topology, topology_lab
from runner.lab.software import layers
from runner.lab.software.image import Image, open_image
from runner.tunnel.bring_up import Bench, Tunnel, make_secrets, vpn_refusal
from runner.vpn.plugin import Secrets, Vpn

OLDER = ("softether", "vtun_tcp")  # only Debian 12 has them
FOUR = (
    *("ipsec_user", "openvpn", "wireguard_go", "boringtun", "tinc", "nebula", "fastd", "ssh_tun", "openconnect"),
    *("n2n", "wireguard_rosenpass", "vpncloud", "easytier", "masque", "yggdrasil"),
    *OLDER,
)


def bench_for(vpn: Vpn, image: Image, logs: Path) -> Bench:
    """A bench that can make meshes, and has nothing else."""

    @contextmanager
    def shaped(topology: Topology) -> Iterator[Lab]:
        with topology_lab(topology, image, logs=logs) as lab:
            if no := vpn_refusal(lab, vpn, vpn.comparable):  # it may come up all the same, by another data path
                pytest.skip(f"{vpn.name}: {no.reason}")
            yield lab

    def keys(*, others: bool = False, sites: Sequence[Site] = (), lasts_s: int = 0) -> Secrets:
        return make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), sites, lasts_s)

    proof = Proof(confidential_promised=True, delivered=True, marker_on_wan=False, sent_bytes=0, captured_bytes=0)
    nothing = Lab({}), Tunnel("", 0.0, Evidence(), proof)
    return Bench(*nothing, lambda: nothing, meshes=shaped, keys=keys)


@pytest.mark.smoke
def test_three_sites_and_what_ten_would_take(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "UP_WITHIN_S", 100.0)  # a busy machine has time
    vpn = load_vpn("wireguard_go")
    found = mesh(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, sizes=(2, 3), budget_s=100)
    assert set(found.attempt["sizes"]) == {"2", "3"}, found.attempt["ended"]
    two, three = (found.attempt["sizes"][count] for count in ("2", "3"))
    assert (two["tunnels"], three["tunnels"]) == (1, 3)
    assert three["memory_bytes"] > two["memory_bytes"] > 1e6
    assert three["config_lines"] > two["config_lines"] > 0
    assert not found.measurements, "ten sites were not brought up"
    assert set(found.attempt["inconclusive"]) == set(METRICS)


@pytest.mark.smoke
def test_a_site_that_reaches_nobody_is_named(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vpn = load_vpn("none")
    undisturbed = vpn.start
    monkeypatch.setattr(meshes, "UP_WITHIN_S", 1.0)
    monkeypatch.setattr(vpn, "start", lambda node, me, *rest: me.number == 3 or undisturbed(node, me, *rest))
    with pytest.raises(MeasurementError, match="gw1, gw2 did not reach every later site"):
        mesh(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, sizes=(3,))


def test_the_clock_does_not_start_before_the_wan_carries(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meshes, "UP_WITHIN_S", 1.0)
    vpn = load_vpn("none")
    monkeypatch.setattr(vpn, "start", lambda *_: pytest.fail("it began without a WAN"))
    bench = bench_for(vpn, image, tmp_path)

    @contextmanager
    def cut(topology: Topology) -> Iterator[Lab]:
        with topology_lab(topology, image, logs=tmp_path) as lab:
            lab.wan.run("ip", "link", "set", "gw3", "down")
            yield lab

    bench.meshes = cut
    with pytest.raises(MeasurementError, match=r"^gw3 did not reach gw1 on the WAN"):
        mesh(bench, vpn, vpn.recommended, sizes=(3,))


# Those that this kernel can carry in userspace; the smallest mesh in which two sites that did not start together, and
# neither of which is the last, have to find each other.
@pytest.mark.parametrize("name", FOUR)
def test_four_sites(image: Image, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "UP_WITHIN_S", 60.0)  # a busy machine has time
    vpn, gateways = load_vpn(name), open_image("bookworm", say=print) if name in OLDER else image
    if vpn.software.layer and not layers.locate(vpn.software.layer, gateways.name).exists():
        pytest.skip(f"{name}: its layer {vpn.software.layer} is not built")
    four_sites_meet(vpn, gateways, tmp_path)


@pytest.mark.smoke
def test_tinc_sites_talk_directly_that_have_nothing_of_each_other(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meshes, "UP_WITHIN_S", 60.0)  # a busy machine has time
    vpn, sites = load_vpn("tinc"), mesh_sites(4)
    bench = bench_for(vpn, image, tmp_path)
    with bench.meshes(meshes.star(sites)) as lab:
        meshes.bring_up(lab, vpn, vpn.comparable, bench.keys(sites=sites))  # each pair has talked
        first, second = (lab.gateway(site) for site in sites[:2])
        assert first.run("ls", "/etc/tinc/vpneval/hosts").stdout.split() == ["gw1", "gw2"]

        def by_the_second(address: str) -> int:
            """The bytes that come by the second gateway when the first one sends 50 kB there."""
            before = int(second.run("cat", "/sys/class/net/wan0/statistics/rx_bytes").stdout)
            first.run("ping", "-c", "50", "-i", "0.01", "-s", "1000", address)
            return int(second.run("cat", "/sys/class/net/wan0/statistics/rx_bytes").stdout) - before

        assert by_the_second(sites[3].lan_address) < 10_000
        assert by_the_second(sites[1].lan_address) > 50_000, "the control: it counts what comes"


def four_sites_meet(vpn: Vpn, image: Image, logs: Path) -> None:
    """Each pair of four gateways talks through its own tunnel, there and back."""
    found = mesh(bench_for(vpn, image, logs), vpn, vpn.comparable, sizes=(4,), budget_s=120)
    assert found.attempt["sizes"]["4"]["tunnels"] == 6, found.attempt
