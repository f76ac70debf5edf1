"""Site mode on two machines with one port each behind a NAT, routers and an MTU of 1400: tunnels, undo.

What is refused is in test_site_refusals.py. Whatever happens, the machines must be exactly as before: addresses,
routes, rules, sysctls, firewall, processes, files.
"""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import LabError
from runner.data.store import load_run
from runner.instruments.traffic import tcp
from runner.lab.node import wait_until
from runner.lab.places import Rig, open_rig
from runner.lab.places import ssh as ssh_module
from runner.lab.places.sent import FOLDER, forget, send_image
from runner.lab.places.site import SiteRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from runner.stages.examination import path_checks
from runner.tunnel.bring_up import bring_up, make_secrets, start_services, vpn_refusal
from runner.vpn.plugin import confidential
from tests.lab.commands import VPNEVAL, measuring, until, vpneval
from tests.lab.conftest import parents
from tests.lab.others import others_at_work
from tests.lab.sites import OWN_FIREWALL, TwoSites
from tests.lab.test_ssh_lab import command_line

THROUGH_NAT = ("wireguard_go", "openvpn", "openvpn_tcp", "ipsec_user", "ssh_tun", "tinc", "nebula")
KILLS = int(os.environ.get("VPNEVAL_KILLS", "4"))
pytestmark = pytest.mark.timeout(300)


# --- the path ------------------------------------------------------------------------------------------------


def test_the_path_is_described_as_it_is(unchanged: TwoSites, tmp_path: Path) -> None:
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        assert isinstance(rig, SiteRig)
        path = rig.measure_path(lab)
        assert lab.host1.run("cat", "/sys/class/net/eth0/mtu").stdout.strip() == "1280"
    assert path.mtu_bytes == 1400
    assert not path.on_link
    assert path.nat.startswith("10.0.0.2 is seen as 203.0.113.1; the NAT keeps the port; one mapping")
    assert "udp/51820" in path.open
    assert path.open == path.tried
    assert path.dscp_kept == path.ecn_kept == (True, True)
    assert path.loss_ratio == 0
    assert 0 < path.rtt_ms[0] <= path.rtt_ms[1] <= path.rtt_ms[2]
    assert all(rate_bps > 1e6 for rate_bps in path.rates_bps)
    assert len(path.rates_bps) == 2
    assert path.clock_ahead_s is not None
    assert abs(path.clock_ahead_s) < 0.05


BAD_ROUTER = """table ip bad {
    chain forward {
        type filter hook forward priority mangle; policy accept;
        iifname "lan" ip dscp set cs0
        iifname "lan" ip ecn set not-ect
        iifname "lan" meta l4proto udp numgen inc mod 5 == 0 drop
    }
}
"""


def test_a_router_that_loses_packets_and_removes_marks_is_seen(unchanged: TwoSites, tmp_path: Path) -> None:
    """On the way back only: it drops every fifth UDP packet, and clears DSCP and ECN."""
    router = unchanged.between["router"]
    router.run("nft", "-f", "-", input=BAD_ROUTER)
    try:
        with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert isinstance(rig, SiteRig)
            path = rig.measure_path(lab)
            checks = {check.what: (check.level, check.says) for check in path_checks(path, lab.sites)}
    finally:
        router.run("nft", "delete", "table", "ip", "bad")
    assert path.dscp_kept == path.ecn_kept == (True, False)
    assert checks["path DSCP"] == checks["path ECN"] == ("warning", "the marks are removed from gw2 to gw1")
    assert path.loss_ratio is not None
    assert 0.15 < path.loss_ratio < 0.3
    assert checks["path loss"][0] == "warning"
    assert path.nat.startswith("10.0.0.2 is seen as 203.0.113.1; the NAT keeps the port; one mapping")


@pytest.mark.smoke
def test_the_doctors_page(unchanged: TwoSites) -> None:
    spec = f"site:{unchanged.sites(top='max_rate_bps = 20e6')}"
    done = vpneval("doctor", "--lab", spec, "--image", "host", "--vpn", "wireguard_go,gre", "--json")
    assert done.returncode == 0, done.stderr
    says = {check["what"]: check["says"] for check in json.loads(done.stdout)}
    assert says["path MTU"] == "1400 bytes; the test hosts' packets are 120 bytes shorter"
    assert says["path NAT"].startswith("10.0.0.2 is seen as 203.0.113.1; the NAT keeps the port; one mapping")
    assert says["path routing"] == "a router or a NAT is in between"
    assert says["path DSCP"] == says["path ECN"] == "the marks survive"
    assert {"path RTT", "path loss", "path clocks", "path rate"} <= says.keys()
    of_gre = [text for what, text in says.items() if what.startswith("vpn gre ")]
    assert "GRE does not work through the NAT before gw1" in of_gre[0]


def test_no_test_sends_faster_than_the_inventory_allows(unchanged: TwoSites, tmp_path: Path) -> None:
    spec = f"site:{unchanged.sites(top='max_rate_bps = 20e6')}"
    with open_rig(spec, print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        assert isinstance(rig, SiteRig)
        assert 5e6 < max(rig.measure_path(lab).rates_bps) < 21e6
        found = tunnelled(rig, lab, "wireguard_go")
    assert 5e6 < found < 21e6


# --- tunnels -------------------------------------------------------------------------------------------------


def tunnelled(rig: Rig, lab: Lab, name: str, image: Image | None = None, port: str = "ens0", inner: str = "") -> float:
    """Bring the VPN up and prove it; its TCP throughput, bit/s."""
    vpn = load_vpn(name)
    assert not vpn_refusal(lab, vpn, vpn.comparable)
    secrets = make_secrets(vpn, rig.alone(image or rig.image("host"), lambda line: None), lab.sites)
    start_services(lab)
    tunnel = bring_up(lab, vpn, {**vpn.comparable, **({"inner": inner} if inner else {})}, secrets)
    assert tunnel.proof.delivered
    assert tunnel.proof.marker_on_wan is not confidential(vpn.comparable)
    assert tunnel.proof.captured_on == f"gw1 --sent {port} and gw2 --sent ens0"
    measured = tcp.tcp(lab, tunnel.address, 1, 1, "forward", "random").measurements
    return {found.metric: found.value for found in measured}["tcp_throughput"]


@pytest.mark.parametrize("name", THROUGH_NAT)
def test_a_tunnel_through_the_nat(unchanged: TwoSites, tmp_path: Path, name: str) -> None:
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        assert tunnelled(rig, lab, name) > 1e6


def test_the_lab_image_is_sent_once_and_removed_on_request(unchanged: TwoSites, tmp_path: Path) -> None:
    said: list[str] = []
    own = "/var/cache/vpneval/images/own"
    for box in unchanged.nodes.values():
        box.write(own, "an image that the machine built itself")
    for top, left in (("keep_image = true", True), ("keep_image = false", False)):
        with open_rig(f"site:{unchanged.sites(top=top)}", print) as rig:
            image = rig.image("trixie", said.append)
            with rig.lab(image, logs=tmp_path) as lab:
                assert "vpneval" in str(image.root)
                assert tunnelled(rig, lab, "nebula", image) > 1e6
        for box in unchanged.nodes.values():
            assert (box.run("test", "-d", str(image.root), check=False).code == 0) is left
            assert box.run("test", "-f", own, check=False).code == 0
    to = [line.partition(":")[0].rpartition(" ")[2] for line in said]
    assert to == ["gw1", "gw2"], "the second time, it was there"
    for box in unchanged.nodes.values():
        box.run("rm", "-r", "/var/cache/vpneval")


def test_an_image_that_cannot_be_put_in_place_is_said(unchanged: TwoSites, tmp_path: Path) -> None:
    small = tmp_path / "small-1"
    small.mkdir()
    there = f"{FOLDER}/{small.name}"
    unchanged.nodes["gw1"].write(there, "a file is in the way")
    with open_rig(f"site:{unchanged.sites()}", print) as rig:
        assert isinstance(rig, SiteRig)
        with pytest.raises(LabError, match=r"gw1: the image could not be put in place: mv: cannot overwrite"):
            send_image(rig.connections["gw1"], replace(rig.image("host"), root=small), print)
        assert str(send_image(rig.connections["gw2"], replace(rig.image("host"), root=small), print).root) == there
        forget(rig.connections["gw1"])
        forget(rig.connections["gw2"])


@pytest.mark.parametrize(
    ("name", "keepalive_s", "answered"),
    [
        ("wireguard_go", 1, True),
        ("wireguard_go", None, False),  # the positive control: its own 25 s are too many
        ("openvpn", 1, True),
        ("nebula", 1, True),
        ("ipsec_user", 1, True),
    ],
)
def test_keepalives_hold_a_nat_open_that_forgets_after_four_seconds(
    unchanged: TwoSites, tmp_path: Path, name: str, keepalive_s: int | None, answered: bool
) -> None:
    top = f"keepalive_s = {keepalive_s}" if keepalive_s else ""
    timeouts = ("nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream")
    nat = unchanged.between["nat"]
    usual = [nat.run("sysctl", f"net.netfilter.{one}").stdout.replace(" ", "").strip() for one in timeouts]
    nat.run("sysctl", "-qw", *(f"net.netfilter.{one}=4" for one in timeouts))
    try:
        with (
            open_rig(f"site:{unchanged.sites(top=top)}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path) as lab,
        ):
            assert tunnelled(rig, lab, name) > 1e6
            time.sleep(8)  # nothing but keepalives
            ping = lab.host2.run("ping", "-c1", "-W1", lab.sites[0].host_address, check=False)
    finally:
        nat.run("sysctl", "-qw", *usual)
    assert (ping.code == 0) is answered


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "no router on this path knows the sites' networks"),
        ("macsec", "needs one Ethernet"),
        ("gre", "GRE does not work through the NAT before gw1"),
    ],
)
def test_what_cannot_live_there_is_unsupported_with_the_reason(
    unchanged: TwoSites, tmp_path: Path, name: str, reason: str
) -> None:
    vpn = load_vpn(name)
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        no = vpn_refusal(lab, vpn, vpn.comparable)
    assert no
    assert reason in no.reason


def test_a_port_that_a_firewall_shuts_is_named(unchanged: TwoSites, tmp_path: Path) -> None:
    router = unchanged.between["router"]
    router.run(
        "nft", "-f", "-", input="table ip f { chain c { type filter hook forward priority 0; udp dport 4242 drop; }; }"
    )
    try:
        with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            no = vpn_refusal(lab, load_vpn("nebula"), load_vpn("nebula").comparable)
    finally:
        router.run("nft", "delete", "table", "ip", "f")
    assert no
    assert no.reason == "udp/4242 does not come through to gw2: let it in there"


@pytest.mark.timeout(600)
def test_a_run_ranks_them_all(unchanged: TwoSites, tmp_path: Path) -> None:
    out = tmp_path / "run"
    spec = f"site:{unchanged.sites()}"
    names = ",".join((*THROUGH_NAT, "gre"))
    asked = (
        "run",
        "transport",
        "--lab",
        spec,
        "--image",
        "host",
        "--profile",
        "site",
        "--reps",
        "1",
        "--vpn",
        names,
        "--out",
        out,
    )
    done = vpneval(*asked, timeout=560)
    assert done.returncode == 0, done.stderr[-2000:]
    run, trials = load_run(out)
    assert run.lab["path"]["mtu_bytes"] == 1400
    ok = {trial.vpn for trial in trials if trial.status == "ok"}
    assert ok == set(THROUGH_NAT), {trial.vpn: trial.reason for trial in trials if trial.status != "ok"}
    assert {trial.vpn for trial in trials if trial.status == "unsupported"} == {"none", "gre"}
    assert not [trial for trial in trials if trial.status in ("failed", "lab_error")]
    report = json.loads(vpneval("report", out, "--format", "json").stdout)
    assert {standing["vpn"] for standing in report["judgements"]["rank"]["rankings"][0]["standings"]} == set(
        THROUGH_NAT
    )


# --- undo ----------------------------------------------------------------------------------------------------


# Each with the command that takes it back, which comes first; what has none is somebody else's.
OURS = """
link del dirt0: link add dirt0 type veth peer name dirt1
addr del 10.66.0.1/24 dev ens0: addr add 10.66.0.1/24 dev ens0
route del 10.67.0.0/16 table 221: route add blackhole 10.67.0.0/16 table 221
route flush table 220 exact 1.2.3.0/24: route add blackhole 1.2.3.0/24 table 220
rule del table 221: rule add from 1.2.3.4 table 221 pref 221
-6 rule del table 221: -6 rule add from fd00:77::9 table 221 pref 221
neigh del 10.0.0.9 dev ens0: neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 nud permanent dev ens0
xfrm policy deleteall src 10.7.0.0/24 dst 10.8.0.0/24: xfrm policy add src 10.7.0.0/24 dst 10.8.0.0/24 dir out
"""
THEIRS = """
ip link add their0 address 02:00:00:00:00:01 type veth peer name their1 address 02:00:00:00:00:02
ip addr del fd00:77::1/64 dev ens0; ip addr add 10.99.0.7/24 dev ens0
ip route add 1.2.4.0/24 dev ens0 table 220; ip route del blackhole 172.31.0.0/16
ip rule del pref 7000; ip rule add from 1.2.3.5 table 223 pref 223
nft add table ip theirs; nft delete table inet mine; nft add rule ip old c counter
ip xfrm policy add src 10.7.1.0/24 dst 10.8.1.0/24 dir out
sysctl -qw net.ipv4.conf.ens0.proxy_arp=0 net.ipv4.tcp_keepalive_time=99 net.ipv4.conf.ens0.rp_filter=0
"""
BACK = """
ip link del their0; ip link del old0; ip addr add fd00:77::1/64 dev ens0 nodad; ip addr del 10.99.0.7/24 dev ens0
ip route del 1.2.4.0/24 table 220; ip route add blackhole 172.31.0.0/16
ip rule add from 10.0.0.2 to 172.30.0.0/16 table 77 pref 7000; ip rule del pref 223
nft delete table ip theirs; nft delete table ip old; nft -f -
ip xfrm policy deleteall src 10.7.1.0/24 dst 10.8.1.0/24
sysctl -qw net.ipv4.conf.ens0.proxy_arp=1 net.ipv4.tcp_keepalive_time=7200 net.ipv4.conf.ens0.rp_filter=0
"""
THERE = """
ip link add old0 address 02:00:00:00:00:03 type veth peer name old1 address 02:00:00:00:00:04
nft add table ip old; nft add chain ip old c
"""


@pytest.mark.smoke
def test_what_is_marked_goes_and_what_others_do_stays(unchanged: TwoSites, tmp_path: Path) -> None:
    box, said = unchanged.nodes["gw1"], list[str]()
    box.run("sh", "-ec", THERE + THEIRS)
    wanted = unchanged.snapshot()["gw1"]
    box.run("sh", "-ec", BACK, input=OWN_FIREWALL)
    box.run("sh", "-ec", THERE)
    before = unchanged.snapshot()["gw1"]
    spec = f"site:{unchanged.sites()}"
    try:
        with open_rig(spec, said.append) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            gw1 = lab.nodes["gw1"]
            for line in OURS.strip().splitlines():
                undoes, _, makes = line.partition(": ")
                gw1.defer("ip", *undoes.split())
                gw1.run("ip", *makes.split())
            gw1.defer("nft", "delete", "table", "ip", "dirt")
            gw1.run("nft", "add table ip dirt; add chain ip dirt c { type filter hook input priority 0; }")
            gw1.defer("tc", "qdisc", "del", "dev", "ens0", "root")
            gw1.run("tc", "qdisc", "add", "dev", "ens0", "root", "pfifo", "limit", "9")
            gw1.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.tcp_keepalive_intvl=9")
            gw1.run("sh", "-c", "echo dirt > /etc/dirt; setsid sleep 1000 < /dev/null > /dev/null 2>&1 &")
            gw1.defer("ip", "link", "del", "old0")  # it was there, so it is not ours to remove
            during = set(unchanged.snapshot()["gw1"]) ^ set(before)
            assert len(during) > 20, "the positive control: there is something to undo"
            box.run("sh", "-ec", THEIRS)
        with suppress(TimeoutError):
            wait_until(lambda: unchanged.snapshot()["gw1"] == wanted, "theirs, and nothing of ours", 5, 0.2)
        found = unchanged.snapshot()["gw1"]
        assert found == wanted, f"gone {set(wanted) - set(found)}, new {set(found) - set(wanted)}"
        assert len(set(wanted) ^ set(before)) > 10, "the positive control: others have changed something"
        (told,) = [line for line in said if "by vpneval" in line]
        assert told.startswith("gw1: 2 interfaces, 2 addresses, 2 routes, 2 routing rules, "), told
    finally:
        box.run("sh", "-ec", BACK, input=OWN_FIREWALL)


@pytest.mark.smoke
def test_what_cannot_be_undone_is_said(unchanged: TwoSites, tmp_path: Path) -> None:
    with (
        pytest.raises(LabError, match=r"gw2 .* did not confirm .*: tc qdisc bogus failed: Command .bogus. is unknown"),
        open_rig(f"site:{unchanged.sites()}", print) as rig,
        rig.lab(rig.image("host"), logs=tmp_path) as lab,
    ):
        lab.nodes["gw2"].defer("tc", "qdisc", "bogus")


@pytest.mark.smoke
def test_what_somebody_reverts_is_seen(unchanged: TwoSites) -> None:
    """The positive control of the tests beside others at work."""
    box = unchanged.nodes["gw1"]
    with others_at_work(box, "10.0.0.1", routes=5, each=0) as others:
        box.run("ip", "route", "del", "100.64.0.3", "proto", "bgp")
        box.run("ip", "route", "add", "100.64.0.9", "via", "10.0.0.1", "dev", "ens0", "proto", "bgp", "mtu", "1300")
    assert others.reverted == ["routes: 100.64.0.3 mtu 1400 is gone", "routes: 100.64.0.9 mtu 1300 is back"]


@pytest.mark.parametrize(
    ("routes", "least"),
    [
        pytest.param(200, 100, id="some"),
        pytest.param(20000, 2000, id="many"),
    ],
)
def test_nothing_of_others_is_reverted(unchanged: TwoSites, tmp_path: Path, routes: int, least: int) -> None:
    box, said = unchanged.nodes["gw1"], list[str]()
    with others_at_work(box, "10.0.0.1", routes) as others:
        spec = f"site:{unchanged.sites()}"
        with open_rig(spec, said.append) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "wireguard_go") > 1e6
            assert "wg0" in box.run("ip", "-br", "link").stdout, "the positive control: there is something to undo"
            time.sleep(least / 100)
        left = box.run("ip", "-br", "addr").stdout
        assert "wg0" not in left
        assert "198.18." not in left
    assert others.reverted == []
    assert others.changes > least
    (told,) = [line for line in said if line.startswith("gw1: ")]
    assert int(told.partition(" routes")[0].rpartition(" ")[2]) > least / 4


def start_run(inventory: Path, out: Path, image: str = "host") -> subprocess.Popen[str]:
    argv = [*VPNEVAL, "run", "reference", "--profile", "smallest", "--vpn", "wireguard_go,openvpn", "--duration", "20"]
    return subprocess.Popen(
        [*argv, "--lab", f"site:{inventory}", "--image", image, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_at_a_random_moment_leaves_nothing(unchanged: TwoSites, tmp_path: Path, number: int) -> None:
    """The runner, or one of its connections, is killed between the first change and the middle of a measurement, while
    others work on gw1: nothing of vpneval's is left, and all of theirs."""
    gateway = unchanged.nodes["gw1"]
    with others_at_work(gateway, "10.0.0.1") as others:
        killed(unchanged, tmp_path, number)
        wait_until(lambda: "exec(read" not in gateway.run("ps", "axo", "args").stdout, "the end of the undo", 60, 0.2)
    assert others.reverted == []
    assert others.changes > 0


def killed(boxes: TwoSites, tmp_path: Path, number: int) -> None:
    """Start a run between the boxes, and kill it."""
    chance, gateway = random.Random(number), boxes.nodes["gw1"]
    before = boxes.snapshot()["gw1"]
    run = start_run(boxes.sites(), tmp_path / "run")
    try:
        until(run, lambda: "vpneval0" in gateway.run("ip", "-br", "link").stdout, "the first change")
        if number == 0:
            until(run, lambda: measuring(tmp_path / "run"), "the first trial")
            during = boxes.snapshot()["gw1"]
            assert during != before, "the positive control: there is something to undo"
            assert on_disk(during) == on_disk(before), "nothing of it is on a disk: a reboot undoes it, too"
        with suppress(subprocess.TimeoutExpired):
            run.wait(chance.uniform(0, 8))
        if number % 2 == 0:
            run.kill()
        else:
            os.kill(chance.choice(masters(run.pid)), signal.SIGKILL)
        _, said = run.communicate(timeout=90)
        assert run.returncode in (4, -signal.SIGKILL), said
    finally:
        run.kill()
        run.communicate()


def on_disk(state: list[str]) -> list[str]:
    """The files of a machine's state, with the times of their last change."""
    return [line for line in state if line.startswith("find ")]


def masters(run: int) -> list[int]:
    """The processes that hold the connections of a run; ``run`` and they are PIDs."""
    holds = [pid for pid, parent in parents().items() if parent == run]
    return sorted(pid for pid in holds if b"ControlMaster=yes" in command_line(pid))


@pytest.mark.parametrize("whom", ["runner", "connection"])
def test_a_kill_while_the_image_is_sent_leaves_no_part_of_it(unchanged: TwoSites, tmp_path: Path, whom: str) -> None:
    gateway = unchanged.nodes["gw1"]

    def of_image() -> str:
        return gateway.run("find", FOLDER, "-type", "f", check=False).stdout

    run = start_run(unchanged.sites(top="max_rate_bps = 8e6"), tmp_path / "run", "trixie")  # it would take minutes
    try:
        until(run, lambda: ".partial/" in of_image(), "the first files of the image")
        for pid in [run.pid] if whom == "runner" else masters(run.pid):
            os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=90)
        assert run.returncode != 0
        wait_until(lambda: not of_image(), "the end of what was sent", 30, 0.2)
    finally:
        run.kill()
        run.communicate()


def test_a_path_that_falls_silent_ends_the_lab(
    unchanged: TwoSites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_module, "SILENCE_S", 3)
    monkeypatch.setattr(ssh_module, "HEARTBEAT_S", 1)
    box, nat = unchanged.nodes["gw1"], unchanged.between["nat"]

    def cut_off() -> None:
        with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            nat.run("ip", "link", "set", "in", "down")  # nothing is closed: packets are lost
            wait_until(lambda: "vpneval0" not in box.run("ip", "-br", "link").stdout, "the end of the lab", 30)
            lab.nodes["gw1"].run("true", timeout=1)

    try:
        with pytest.raises(LabError, match="gw1"):
            cut_off()
    finally:
        nat.run("ip", "link", "set", "in", "up")
