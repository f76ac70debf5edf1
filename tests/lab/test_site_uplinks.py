"""Site mode on a gateway with two lines: the kernel's choice is measured, or the one that the inventory names.

gw1 ens0 10.0.0.2 ──────── 10.0.0.1 nat in
gw1 ens9 192.168.9.2 ── 192.168.9.1 nat in9, which takes 5 Mbit/s
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.lab.node import wait_until
from runner.lab.places import open_rig
from runner.lab.places.site import SiteRig
from tests.lab.by_hand import copied, up
from tests.lab.commands import vpneval
from tests.lab.sites import TwoSites
from tests.lab.test_checked import checked, lines
from tests.lab.test_site import tunnelled
from tests.lab.test_site_deployed import behind
from tests.lab.test_ssh_lab import as_before, settled

pytestmark = pytest.mark.timeout(300)

SHAPED_BPS = 5e6
BACKUP = "ip route add default via 192.168.9.1 dev ens9 table 100; ip rule add from 192.168.9.2 lookup 100 pref 900"

EQUAL = "ip route replace default nexthop via 10.0.0.1 dev ens0 nexthop via 192.168.9.1 dev ens9"


@contextmanager
def second_line(boxes: TwoSites, routes: str) -> Iterator[None]:
    """A second line of gw1, and these routes."""
    gw1, nat = boxes.nodes["gw1"], boxes.between["nat"]
    way = f"ip link add ens9 type veth peer name in9 netns {nat.pid}"
    argv = ["nsenter", "-t", str(gw1.pid), "--net", *way.split()]
    subprocess.run(argv, check=True, timeout=30)
    nat.run("sh", "-ec", "ip addr add 192.168.9.1/24 dev in9; ip link set in9 up")
    nat.run("sh", "-ec", "tc qdisc add dev in9 root tbf rate 5mbit burst 16000 latency 50ms")
    gw1.run("sh", "-ec", "ip addr add 192.168.9.2/24 dev ens9; ip link set ens9 up")
    gw1.run("sh", "-ec", "tc qdisc add dev ens9 root tbf rate 5mbit burst 16000 latency 50ms")
    had = gw1.run("sh", "-c", "ip route show default; ip rule").stdout
    gw1.run("sh", "-ec", routes)
    try:
        yield
    finally:
        gw1.run("sh", "-c", "ip link del ens9; ip rule del pref 900; ip route replace default via 10.0.0.1 dev ens0")
        assert gw1.run("sh", "-c", "ip route show default; ip rule").stdout == had


def carried(boxes: TwoSites) -> dict[str, int]:
    """The bytes that have come to the NAT by each line."""
    nat = boxes.between["nat"]
    return {port: int(nat.run("cat", f"/sys/class/net/{port}/statistics/rx_bytes").stdout) for port in ("in", "in9")}


@pytest.mark.parametrize(
    ("routes", "named", "port"),
    [
        pytest.param(BACKUP, {}, "ens0", id="a backup in a table of its own"),
        pytest.param(BACKUP, {"wan": "ens9"}, "ens9", id="the backup by name", marks=pytest.mark.smoke),
        pytest.param(BACKUP.partition(";")[0], {"wan_address": "192.168.9.2"}, "ens9", id="by its address, no rule"),
        pytest.param("ip route add default via 192.168.9.1 dev ens9 metric 200", {}, "ens0", id="a metric"),
        pytest.param(
            "ip route add 198.51.100.0/24 via 192.168.9.1 dev ens9", {}, "ens9", id="a route to the other site"
        ),
        pytest.param(
            f"{BACKUP}; ip rule add from all to 198.51.100.2 iif lo lookup 100 pref 901",
            {},
            "ens9",
            id="a rule that chooses the backup",
        ),
        pytest.param(
            EQUAL,
            {"wan": "ens9"},
            "ens9",
            id="one of two equal ones",
        ),
    ],
)
def test_the_line_is_measured_that_the_kernel_takes_or_that_is_named(
    boxes: TwoSites, tmp_path: Path, routes: str, named: dict[str, object], port: str
) -> None:
    with second_line(boxes, routes):
        before = settled(boxes)
        with open_rig(f"site:{boxes.sites({'gw1': named})}", print) as rig:
            assert isinstance(rig, SiteRig)
            assert rig.owns["gw1"].port == port
            with rig.lab(rig.image("host"), logs=tmp_path) as lab:
                began = carried(boxes)
                rate_bps = tunnelled(rig, lab, "wireguard_go", port=port)
                took = {line: now - began[line] for line, now in carried(boxes).items()}
        as_before(boxes, before)
        boxes.nodes["gw1"].run("ip", "rule", "del", "pref", "901", check=False)
    other = {"ens0": "in9", "ens9": "in"}[port]
    assert took[other] < 0.2 * sum(took.values()), "ssh's own packets, at most"
    assert (rate_bps < SHAPED_BPS) is (port == "ens9"), "the positive control: the lines differ"


@pytest.mark.parametrize(
    "routes", [pytest.param(BACKUP, id="a rule"), pytest.param(BACKUP.partition(";")[0], id="none")]
)
def test_a_look_measures_the_line_that_is_named_or_none(boxes: TwoSites, routes: str) -> None:
    with second_line(boxes, routes):
        spec = f"site:{boxes.sites({'gw1': {'wan': 'ens9'}})}"
        done = vpneval("look", "--lab", spec, "--max-rate", "50M", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if "rule" in routes:
        assert len(found["path"]["rates_bps"]) == 2
        assert all(1e6 < bps < SHAPED_BPS for bps in found["path"]["rates_bps"]), "ens0 has more"
    else:
        assert not found["path"]["rates_bps"]
        assert any("192.168.9.2 by ens0, and look adds no routing rule" in said for said in found["unmeasured"])


def test_check_says_that_a_deployed_tunnel_leaves_by_another_line(boxes: TwoSites, tmp_path: Path) -> None:
    lans = {"gw1": "10.20.0.1", "gw2": "10.30.0.1"}
    own: dict[str, dict[str, object]] = {name: {"network": f"{lan[:-1]}0/24"} for name, lan in lans.items()}
    with second_line(boxes, BACKUP):
        sites = boxes.sites({**own, "gw1": {**own["gw1"], "wan": "ens9"}})
        wrote = vpneval("recipe", "wireguard_go", "--site", sites, "--write", tmp_path / "out")
        assert wrote.returncode == 0, wrote.stderr
        near = boxes.nodes["gw1"]
        try:
            for box in (boxes.nodes["gw2"], near):
                copied(tmp_path / "out", box)
                behind(box, lans[box.name])
                up(box)
            wait_until(lambda: checked(near).code == 0, "the tunnel", 30, 1)
            said = checked(near).stdout
            assert "The tunnel's packets leave by ens0. The recipe is for ens9" in said
            near.run("sh", "-ec", "\n".join(lines(said)))
            assert "ens9" not in checked(near).stdout
            began = carried(boxes)
            near.run("ping", "-c", "20", "-i", "0.02", "-I", lans["gw1"], lans["gw2"])
            assert carried(boxes)["in9"] - began["in9"] > 20 * 84
        finally:
            near.run("ip", "route", "del", "198.51.100.2", check=False)
            for box in boxes.nodes.values():
                box.run("sh", "-c", "/root/tunnel/down.sh; rm -r /root/tunnel; ip netns del pc", check=False)


@pytest.mark.parametrize("routes", [pytest.param(BACKUP, id="a backup"), pytest.param(EQUAL, id="equal ones")])
def test_both_lines_are_measured_by_one_command_and_each_has_its_answer(
    boxes: TwoSites, tmp_path: Path, routes: str
) -> None:
    out, top = tmp_path / "run", 'uplink.first.gw1.wan = "ens0"\nuplink.second.gw1.wan = "ens9"'
    how = ("--profile", "site", "--rounds", "2", "--no-until-significant", "--image", "host", "--out", out)
    with second_line(boxes, routes):
        before = settled(boxes)
        lab = ("--lab", f"site:{boxes.sites(top=top)}", "--set", "measure=tcp,uplink=first,uplink=second")
        done = vpneval("run", "reference", "--vpn", "wireguard_go", *lab, *how)
        as_before(boxes, before)
    assert done.returncode == 0, done.stderr
    fast, slow = (load_run(out / name) for name in ("first", "second"))
    for (run, trials), name in ((fast, "first"), (slow, "second")):
        assert run.lab["uplink"] == name
        assert {trial.params["uplink"] for trial in trials} == {name}
    assert max(slow[0].lab["path"]["rates_bps"]) < SHAPED_BPS < min(fast[0].lab["path"]["rates_bps"])
    carried_bps = [of("tcp_throughput", trials) for _, trials in (fast, slow)]
    assert carried_bps[0] > 2 * SHAPED_BPS > carried_bps[1] > 1e5, "a short slice has the shaper's burst, too"
    assert "Uplink first: " in done.stderr
    assert "Uplink second: " in vpneval("report", out).stdout


def of(metric: str, trials: Sequence[Trial]) -> float:
    """The value of the tunnel in these trials, at most."""
    found = [one.value for trial in trials for one in trial.measurements if one.metric == metric]
    return max(found)


def test_two_equal_lines_need_a_name(boxes: TwoSites) -> None:
    with second_line(boxes, EQUAL):
        before = settled(boxes)
        complaint = r'gw1: its route to 198\.51\.100\.2 goes by ens0 and ens9: name one of them, wan = "ens0"'
        with pytest.raises(CannotRunHere, match=complaint), open_rig(f"site:{boxes.sites()}", print):
            pass
        as_before(boxes, before)


def test_a_line_without_a_way_is_refused(boxes: TwoSites) -> None:
    with second_line(boxes, "true"):
        complaint = "gw1: wan names ens9, .* no route there is by ens9: add one, in a table of its own"
        with (
            pytest.raises(CannotRunHere, match=complaint),
            open_rig(f"site:{boxes.sites({'gw1': {'wan': 'ens9'}})}", print),
        ):
            pass


def test_a_tunnel_that_is_the_line_is_measured_on(boxes: TwoSites, tmp_path: Path) -> None:
    """As PPPoE, DS-Lite or another VPN: the default route is a tunnel's, to what is gw1's router."""
    gw1, nat = boxes.nodes["gw1"], boxes.between["nat"]
    far = nat.spawn("socat", "UDP-LISTEN:9000", "TUN:10.99.0.1/30,up,tun-name=line0", log="line")
    wait_until(lambda: ":9000 " in nat.run("ss", "-Hlun").stdout, "the far end")
    near = gw1.spawn("socat", "UDP:10.0.0.1:9000", "TUN:10.99.0.2/30,up,tun-name=ppp0", log="line")
    wait_until(lambda: "ppp0" in gw1.run("ip", "-br", "link").stdout, "the line")
    gw1.run("ip", "route", "replace", "default", "via", "10.99.0.1", "dev", "ppp0")
    gw1.run("ping", "-c1", "-W3", "10.99.0.1")
    said: list[str] = []
    try:
        before = settled(boxes)
        spec = f"site:{boxes.sites()}"
        with open_rig(spec, said.append) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "wireguard_go", port="ppp0") > 1e5
        as_before(boxes, before)
        assert not said
    finally:
        gw1.run("ip", "route", "replace", "default", "via", "10.0.0.1", "dev", "ens0")
        near.stop()
        far.stop()


def test_the_doctor_goes_on_beside_a_tunnel_and_says_so(boxes: TwoSites) -> None:
    """A device of TUN that carries nothing of ours; with a VPN that would have a device of that name."""
    box = boxes.nodes["gw2"]
    box.run("sh", "-ec", "ip tuntap add wg0 mode tun; ip addr add 100.64.0.1/10 dev wg0; ip link set wg0 up")
    try:
        spec = f"site:{boxes.sites()}"
        done = vpneval("doctor", "--lab", spec, "--image", "host", "--vpn", "wireguard_go,openvpn", "--json")
        assert done.returncode == 0, done.stderr
        assert "gw2: a tunnel is at work (wg0). It stays as it is" in done.stdout
        assert "gw2 has a tunnel's device wg0, which WireGuard" in done.stdout
        assert "OpenVPN (UDP) works with" in done.stdout
        assert "wg0" in box.run("ip", "-br", "link").stdout
    finally:
        box.run("ip", "link", "del", "wg0")
