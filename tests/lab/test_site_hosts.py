"""Site mode with hosts of their own behind the gateways, on the sites' real networks; in the end all are as before."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.store import load_run
from runner.instruments.tools.cost import cpu_scope
from runner.lab.places import open_rig
from runner.lab.software.image import Image
from tests.lab.commands import measuring, until, vpneval
from tests.lab.sites import HOSTS, TwoSites, two_sites
from tests.lab.test_site import start_run, tunnelled
from tests.lab.test_ssh_lab import as_before, settled

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def boxes(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    """The two boxes of ``tests/lab/sites.py``, and a host behind each."""
    with two_sites(image, tmp_path_factory.mktemp("sites"), hosts=True) as up:
        probe = up.nodes["host1"].run("sh", "-c", "ip link add link ens0 name try0 type macvlan", check=False)
        if probe.code != 0:
            pytest.skip(f"this kernel has no macvlan: {probe.stderr.strip()}")
        up.nodes["host1"].run("ip", "link", "del", "try0")
        yield up


def received(boxes: TwoSites, host: str) -> int:
    """Bytes that have come in on the host's own port."""
    return int(boxes.nodes[host].run("cat", "/sys/class/net/ens0/statistics/rx_bytes").stdout)


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn", "ssh_tun"])
def test_a_tunnel_between_hosts_of_their_own(unchanged: TwoSites, tmp_path: Path, name: str) -> None:
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        for host, number in (("host1", 1), ("host2", 2)):
            assert lab.nodes[host].run("hostname").stdout.strip() == host
            assert lab.nodes[host].run("cat", "/sys/class/net/eth0/mtu").stdout.strip() == "1280"
            real = unchanged.nodes[f"gw{number}"].run("ip", "-o", "addr", "show", "dev", "ens1").stdout
            assert f"198.18.{number}.1/24" in real
            assert f"10.{number}.0.1/24" in real
        before = received(unchanged, "host2")
        rate_bps = tunnelled(rig, lab, name)
        assert rate_bps > 1e6
        assert received(unchanged, "host2") - before > 0.5 * rate_bps / 8, "it arrives through the host's own port"
        assert cpu_scope(lab) == "both gateways"


def test_a_run_ends_in_a_report(unchanged: TwoSites, tmp_path: Path) -> None:
    argv = ("run", "reference", "--profile", "smallest", "--vpn", "wireguard_go", "--image", "host", "--quiet")
    done = vpneval(*argv, "--lab", f"site:{unchanged.sites(top='max_rate_bps = 50e6')}", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    found = {trial.vpn: trial for trial in load_run(tmp_path / "run")[1]}
    assert found["wireguard_go"].status == "ok", found["wireguard_go"].reason


def test_a_runner_that_is_killed_leaves_nothing_on_any_machine(unchanged: TwoSites, tmp_path: Path) -> None:
    before = settled(unchanged)
    run = start_run(unchanged.sites(), tmp_path / "run")
    try:
        until(run, lambda: measuring(tmp_path / "run"), "the first trial")
        during = unchanged.snapshot()
        assert all(during[name] != before[name] for name in ("gw1", "gw2")), "there is something to undo"
        run.kill()
        assert run.wait(10) == -signal.SIGKILL
    finally:
        run.kill()
        run.communicate()
    as_before(unchanged, before)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"host1": {"lan_port": "ens7"}}, r"host1: no interface ens7 \(lan_port\); it has: ens0"),
        ({"gw2": {"lan_port": "ens7"}}, r"gw2: no interface ens7 \(lan_port\); it has: ens"),
        ({"gw1": {"lan_port": "ens0"}}, "gw1: ens0 is the port of the path"),
    ],
)
def test_a_port_that_can_have_no_host_is_refused(
    unchanged: TwoSites, changes: dict[str, dict[str, object]], complaint: str
) -> None:
    with pytest.raises(CannotRunHere, match=complaint), open_rig(f"site:{unchanged.sites(changes)}", print):
        pass


def test_a_host_on_another_network_is_named_with_both_ports(boxes: TwoSites, tmp_path: Path) -> None:
    gateway = boxes.nodes["gw1"]
    gateway.run("ip", "link", "add", "ens9", "up", "type", "veth", "peer", "name", "ens8")
    gateway.run("ip", "link", "set", "ens8", "up")
    before = settled(boxes)
    try:
        spec = f"site:{boxes.sites({'gw1': {'lan_port': 'ens9'}})}"
        with (
            pytest.raises(
                CannotRunHere, match=r"ens0 of host1 and ens9 of gw1 cannot reach each other: .* 198.18.1.0/24"
            ),
            open_rig(spec, print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path),
        ):
            pass
        as_before(boxes, before)
    finally:
        gateway.run("ip", "link", "del", "ens9")


def test_a_firewall_is_asked_about_the_hosts_port(boxes: TwoSites, tmp_path: Path) -> None:
    box = boxes.nodes["gw2"]
    box.run("nft", "add table inet f; add chain inet f c { type filter hook forward priority 0; policy drop; }")
    try:
        with pytest.raises(CannotRunHere) as refusal, open_rig(f"site:{boxes.sites()}", print):
            pass
        allow = str(refusal.value).partition("Allow it meanwhile: ")[2]
        assert "nft insert rule inet f c iifname ens1 accept" in allow
        box.run("sh", "-c", allow)
        before = settled(boxes)
        with open_rig(f"site:{boxes.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "wireguard_go") > 1e6
        as_before(boxes, before)
    finally:
        box.run("nft", "delete", "table", "inet", "f")


def test_a_recipe_does_not_ask_the_hosts(boxes: TwoSites) -> None:
    spec = boxes.sites({name: {"address": "192.0.2.9"} for name in HOSTS}, top="keep_image = false")
    shown = vpneval("recipe", "tinc", "--site", spec)
    assert shown.returncode == 0, shown.stderr
    assert "Address = 198.51.100.2" in shown.stdout
