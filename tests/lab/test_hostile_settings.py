"""What a machine's kernel and its settings do to a lab: open files, a short WAN, bridges with a firewall, no IPv6."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.lab.node.iproute import root_discipline
from runner.lab.readings.wire import outer
from runner.lab.shape.site_to_site import Lab, only_bridges
from runner.lab.software.image import Image
from runner.tunnel.inner import ipv6_through
from tests.lab.hostile import SMALL, WITHOUT, Situation, hostile, judge, nothing_left

__all__ = ["nothing_left"]
OUT = ("--out", "OUT/run")
TCP = ("--set", "measure=tcp,streams=1,direction=forward,payload=random")


def measured(folder: Path, vpn: str) -> list[Trial]:
    return [trial for trial in load_run(folder / "run")[1] if trial.vpn == vpn]


# --- open files ------------------------------------------------------------------------------------------------------


def test_where_open_files_are_few_tunnels_stand_in_groups(image: Image, tmp_path: Path) -> None:
    vpns = ("wireguard_go", "openvpn", "tinc", "fastd")
    command = ("run", "transport", "--vpn", ",".join(vpns), *TCP, "--reps", "1", "--rounds", "2", *OUT)
    one = Situation("few", "ulimit -n 256", command=command)
    done = hostile(one, tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    words = r"4 tunnels could stand at once, and this process may open files for (\d+)\. .* ulimit -n (\d+)"
    found = re.search(words, said)
    assert found, said
    assert int(found[1]) in (1, 2, 3)
    for vpn in vpns:
        assert [trial.status for trial in measured(tmp_path, vpn)] == ["ok"]
    enough = Situation("enough", f"ulimit -n {found[2]}", command=(*command[:-1], "OUT/more"))
    assert "could stand at once" not in hostile(enough, tmp_path).stderr


def test_what_needs_more_open_files_than_there_may_be_is_refused_with_the_number(image: Image, tmp_path: Path) -> None:
    mesh = ("run", "mesh", "--vpn", "ssh_tun", *SMALL)
    one = Situation("mesh", "ulimit -n 512", 3, "13 labs at once need 690", mesh)
    judge(one, hostile(one, tmp_path), tmp_path)


# --- a WAN that is shorter than the tunnel's packets are long --------------------------------------------------------


@pytest.mark.parametrize(("wan_bytes", "fits"), [("1400", True), ("1450", True), ("1492", False)])
def test_packets_in_fragments_are_told_with_the_mtu_that_fits(
    wan_bytes: str, fits: bool, image: Image, tmp_path: Path
) -> None:
    """WireGuard's 1420 bytes travel in 1480. In wireguard-go's first seconds they may not travel at all."""
    setting = TCP[1] + f",wan_mtu_bytes={wan_bytes}"
    for number, profile in enumerate([("--rounds", "2"), ("--profile", "smallest")]):
        command = ("run", "transport", "--vpn", "wireguard_go", "--set", setting, "--reps", "1", *profile)
        one = Situation(wan_bytes, "", command=(*command, "--quiet", "--out", f"OUT/{number}"))
        assert "Traceback" not in hostile(one, tmp_path).stderr
        trials = load_run(tmp_path / f"{number}")[1]
        (trial,) = [trial for trial in trials if trial.vpn == "wireguard_go"]
        assert trial.status == "ok" or fits, trial.reason
        told = [text for text in (trial.reason, *trial.warnings) if "fragmented" in text]
        assert bool(told) is fits, (trial.reason, trial.warnings)
        assert not any("fragmented" in warning for other in trials if other.vpn == "none" for warning in other.warnings)
        if fits:
            assert f"takes packets of 1420 bytes, and the WAN's MTU is {wan_bytes} bytes" in told[0]
            found = re.search(r"An MTU of (\d+) bytes fits", told[0])
            assert found is not None
            assert int(wan_bytes) - 60 - 16 < int(found[1]) <= int(wan_bytes) - 60  # it is padded to 16 bytes


# --- bridges with a firewall -----------------------------------------------------------------------------------------

DROP = "add table ip shut; add chain ip shut every { type filter hook forward priority 0; policy drop; }"


def reached(lab: Lab) -> bool:
    gateway, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    return gateway.run("ping", "-c", "1", "-W", "1", far, check=False).code == 0


def test_a_bridges_firewall_is_off_in_the_lab(lab: Lab) -> None:
    if lab.wan.run("test", "-e", "/proc/sys/net/bridge", check=False).code != 0:
        pytest.skip("this kernel has no br_netfilter loaded")
    lab.wan.run("nft", "-f", "-", input=DROP)
    assert reached(lab)
    lab.wan.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1")
    assert not reached(lab), "so the rule does drop, where the bridge asks the firewall"
    only_bridges(lab.wan)
    assert reached(lab)


def test_a_machine_whose_firewall_drops_what_its_bridges_pass(image: Image, tmp_path: Path) -> None:
    """In a network of the test's own, with Docker's settings."""
    setting = f'''cat > OUT/inside <<'END'
chroot {image.root} nft -f - <<< '{DROP}'
test ! -e /proc/sys/net/bridge || sysctl -qw net.bridge.bridge-nf-call-iptables=1
exec "$@"
END
set -- unshare --net bash -eu OUT/inside "$@"'''
    one = Situation("br_netfilter", setting)
    judge(one, hostile(one, tmp_path), tmp_path)


# --- no IPv6 ---------------------------------------------------------------------------------------------------------

# A wrapper in the place of the guest kernel, which hands it one parameter more.
WITHOUT_IPV6 = '''uml=$(readlink -f "$(command -v linux.uml)"); cp "$uml" OUT/uml
printf '#!/bin/sh\\nexec OUT/uml ipv6.disable=1 "$@"' > OUT/wrapped; chmod +x OUT/wrapped
mount --bind OUT/wrapped "$uml"'''


@pytest.mark.skipif(shutil.which("linux.uml") is None, reason="needs user-mode-linux")
def test_a_kernel_without_ipv6_measures_the_rest(image: Image, tmp_path: Path) -> None:
    small = ("--kernel", "uml", "--profile", "smallest", "--quiet")
    for name, more in (("ipv6", ("--set", "measure=udp,inner=6")), ("ipv4", TCP)):
        command = ("run", "transport", "--vpn", "wireguard_go", *more, *small, "--out", f"OUT/{name}")
        done = hostile(Situation(name, WITHOUT_IPV6, command=command), tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        trials = load_run(tmp_path / name)[1]
        assert trials
        if name == "ipv6":
            assert {trial.status for trial in trials} == {"unsupported"}
            assert all("this kernel has no IPv6" in trial.reason for trial in trials)
        else:
            assert {trial.status for trial in trials} == {"ok"}, [trial.reason for trial in trials]


def test_ipv6_that_a_machine_switched_off_is_on_in_the_lab(lab: Lab) -> None:
    for node in lab.nodes.values():
        off = [f"net.ipv6.conf.{ports}.disable_ipv6=1" for ports in ("all", "default")]
        node.run("sysctl", "-qw", *off)  # as a new namespace inherits it
    for me, peer in (lab.sites, lab.sites[::-1]):
        lab.gateway(me).run("ip", "route", "add", peer.lan, "via", peer.wan_address)
    assert ipv6_through(lab, load_vpn("none")) == lab.sites[-1].host_ipv6


# --- tc(8), whichever it is ------------------------------------------------------------------------------------------


def test_the_text_of_tc_says_what_its_json_says(lab: Lab) -> None:
    before = outer(lab)
    assert reached(lab)
    lab.wan.run("ip", "link", "set", "gw2", "down")  # nobody sends meanwhile
    show = ("qdisc", "show", "dev", "gw2")
    shown = lab.wan.run("tc", "-statistics", *show).stdout
    (told,) = json.loads(lab.wan.run("tc", "-statistics", "-json", *show).stdout)
    assert root_discipline(shown) == ("pfifo", told["packets"], told["bytes"])
    assert told["packets"] > before.packets
    assert root_discipline(shown.replace("root", "parent 1:")) is None


# --- what doctor asks, before anything else --------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "code"), [("", 0), (WITHOUT.format("cap_sys_admin"), 3)])
def test_the_questions_that_compare_begins_with_take_less_than_two_seconds(
    setting: str, code: int, image: Image, tmp_path: Path
) -> None:
    took_s = []
    for _ in range(3):  # a busy machine may take longer, and not three times
        began = time.monotonic()
        done = hostile(Situation("questions", setting, command=("doctor", "--machine")), tmp_path)
        took_s.append(time.monotonic() - began)
        assert done.returncode == code, done.stderr
        assert ("--cap-add SYS_ADMIN" in " ".join(done.stdout.split())) is bool(code)
    assert min(took_s) < 2
