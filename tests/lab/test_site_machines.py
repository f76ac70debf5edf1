"""Site mode on machines that are set up in another way: their login shells, users, file systems and sshd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.store import load_run
from runner.lab.node import LabNode, wait_until
from runner.lab.places import open_rig
from runner.lab.software.image import Image
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, TwoSites, two_sites
from tests.lab.test_site import tunnelled
from tests.lab.test_ssh_lab import as_before, settled, with_sudo

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def boxes(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    """The boxes, with sudo and other shells."""
    with two_sites(image, tmp_path_factory.mktemp("sites"), root=with_sudo(image, "tcsh", "fish")) as up:
        for box in up.nodes.values():
            box.run("ldconfig")
        yield up


def add_user(box: LabNode, user: str, shell: str) -> None:
    """A user who may log in with the key, and use sudo without a password."""
    for file, line in (("passwd", f"x:1001:1001::/home/tester:{shell}"), ("shadow", "*:1001:0:99999:7:::")):
        box.run("sh", "-c", f'printf "%s\\n" "$1" >> /etc/{file}', "sh", f"{user}:{line}")
    box.run("sh", "-c", "echo 'tester:x:1001:' >> /etc/group; mkdir -p /home/tester; cp -r /root/.ssh /home/tester/")
    box.run("chown", "-R", "1001:1001", "/home/tester")
    box.write("/etc/sudoers.d/tester", "#1001 ALL=(ALL) NOPASSWD: ALL\n", 0o440)


def remove_user(box: LabNode) -> None:
    box.run("sed", "-i", "/:1001:/d", "/etc/passwd", "/etc/group", "/etc/shadow")
    box.run("rm", "-rf", "/home/tester", "/etc/sudoers.d/tester")


@pytest.mark.parametrize(
    ("user", "shell"),
    [
        pytest.param("root", "/usr/bin/tcsh", marks=pytest.mark.smoke),
        ("root", "/usr/bin/fish"),
        ("alice@corp.example.com", "/usr/bin/tcsh"),
        ("CORP\\alice", "/bin/bash"),
        ("EXAMPLE\\svc-vpn$", "/usr/bin/fish"),
    ],
)
def test_neither_the_login_shell_nor_the_users_name_matters(
    boxes: TwoSites, tmp_path: Path, user: str, shell: str
) -> None:
    for box in boxes.nodes.values():
        if user == "root":
            box.run("sed", "-i", f"s|^\\(root:.*:\\)[^:]*$|\\1{shell}|", "/etc/passwd")
        else:
            add_user(box, user, shell)
        # A first login, which may make the shell's own folders.
        box.run("env", f"HOME={'/root' if user == 'root' else '/home/tester'}", shell, "-c", "true")
    try:
        before = settled(boxes)
        with (
            open_rig(f"site:{boxes.sites({name: {'user': user} for name in BOXES})}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path) as lab,
        ):
            assert tunnelled(rig, lab, "wireguard_go") > 1e6
        as_before(boxes, before)
    finally:
        for box in boxes.nodes.values():
            if user == "root":
                box.run("sed", "-i", r"s|^\(root:.*:\)[^:]*$|\1/bin/bash|", "/etc/passwd")
            else:
                remove_user(box)


def test_the_line_for_sudo_is_valid_for_a_directorys_user(boxes: TwoSites) -> None:
    for box in boxes.nodes.values():
        add_user(box, "CORP\\alice", "/bin/bash")
        box.run("rm", "/etc/sudoers.d/tester")
    spec = f"site:{boxes.sites({name: {'user': f'CORP{chr(92)}alice'} for name in BOXES})}"
    try:
        with pytest.raises(CannotRunHere) as refusal:
            open_rig(spec, print).__enter__()
        line = str(refusal.value).splitlines()[0].partition("as root: ")[2].partition(" (and: ")[0]
        for box in boxes.nodes.values():
            box.run("sh", "-c", line)
            box.run("chmod", "0440", "/etc/sudoers.d/vpneval")
        with open_rig(spec, print):
            pass
    finally:
        for box in boxes.nodes.values():
            box.run("rm", "-f", "/etc/sudoers.d/vpneval")
            remove_user(box)


@pytest.mark.parametrize("part", ["/var", "/usr/local"])
def test_a_separate_file_system_is_seen(boxes: TwoSites, tmp_path: Path, part: str) -> None:
    """Its files are in the node, and nothing is written to it."""
    gateway = boxes.nodes["gw1"]
    gateway.run("sh", "-ec", f"mount -t tmpfs none /mnt; cp -a {part}/. /mnt; mount --move /mnt {part}")
    gateway.write(f"{part}/lib/vpneval-test/there", "of the machine's own")
    try:
        before = settled(boxes)
        with (
            open_rig(f"site:{boxes.sites()}", print) as rig,
            rig.lab(rig.image("host"), logs=tmp_path) as lab,
        ):
            inside = lab.nodes["gw1"]
            assert inside.run("cat", f"{part}/lib/vpneval-test/there").stdout == "of the machine's own"
            inside.write(f"{part}/lib/vpneval-test/new", "of the node")
            assert tunnelled(rig, lab, "openvpn") > 1e6
        assert gateway.run("ls", f"{part}/lib/vpneval-test").stdout.split() == ["there"]
        as_before(boxes, before)
    finally:
        gateway.run("umount", part)


@pytest.mark.parametrize("number", [pytest.param(2, marks=pytest.mark.smoke), 1, 3, 7])
def test_few_sessions_are_refused_with_the_line(boxes: TwoSites, number: int) -> None:
    daemons = [start_sshd(box, number) for box in boxes.nodes.values()]
    try:
        complaint = rf"gw1: its sshd allows {number} sessions on one connection, and vpneval needs 8.*MaxSessions 10"
        with pytest.raises(CannotRunHere, match=complaint), open_rig(f"site:{boxes.sites(sshd=2200)}", print):
            pass
    finally:
        for daemon in daemons:
            daemon.stop()


def start_sshd(box: LabNode, sessions: int):  # type: ignore[no-untyped-def]
    daemon = box.spawn("/usr/sbin/sshd", "-D", "-e", "-p", "2200", "-o", f"MaxSessions={sessions}", log="second-sshd")
    wait_until(lambda: ":2200 " in box.run("ss", "-Hltn").stdout, "sshd listening")
    return daemon


def test_as_many_sessions_as_are_asked_for_are_enough_and_the_path_is_kept(boxes: TwoSites, tmp_path: Path) -> None:
    """A ladder has most of them at once. The run's needs are what its path shows."""
    daemons = [start_sshd(box, 8) for box in boxes.nodes.values()]
    try:
        done = vpneval(
            *("run", "choose", "--lab", f"site:{boxes.sites(sshd=2200)}", "--image", "host", "--profile", "site"),
            *("--reps", "1", "--rounds", "2", "--set", "measure=ladder", "--vpn", "wireguard_go", "--max-rate", "50M"),
            *("--path-rtt", "7ms", "--out", tmp_path / "run"),
            timeout=280,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    finally:
        for daemon in daemons:
            daemon.stop()
    run, trials = load_run(tmp_path / "run")
    ladders = [trial for trial in trials if trial.vpn == "wireguard_go"]
    assert [trial.status for trial in ladders] == ["ok", "ok"], [trial.reason for trial in ladders]
    assert run.needs.line_bps
    assert 2e7 < run.needs.line_bps < 5e7
    assert {trial.params["line_bps"] for trial in ladders} == {f"{run.needs.line_bps:.0f}"}
    assert run.needs.path_rtt_ms == 7, "it was stated"
    assert run.needs.path_mtu_bytes == 1400
    assert set(run.needs.seen) == {"line_bps", "path_mtu_bytes", "nat"}
    assert "nat" in run.needs.must
    assert "Seen on the path: " in done.stdout
