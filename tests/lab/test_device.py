"""The device page by its own method, on a device that has BusyBox, ssh's server side, openssl and iperf3, and no more;
on one that lacks some of it; and on one that lies."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.lab.node import wait_until
from runner.lab.places.connection import Connection
from runner.lab.places.inventory import GatewayMachine
from runner.lab.places.machines import examine
from runner.lab.software.image import Image
from tests.lab.device import DEVICE, PROGRAMS, Device, device, device_root

pytestmark = pytest.mark.timeout(300)
PAGE = ("--reps", "1", "--set", "device_cipher=aes-128-cbc,device_cipher=aes-256-cbc")
SERVERS = tuple(program for program in PROGRAMS if "ssh" in program)


@pytest.fixture(scope="module")
def busybox(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    folder = tmp_path_factory.mktemp("device")
    with device(image, folder, device_root(image, folder)) as up:
        yield up


def lying(image: Image, folder: Path, command: str, lie: str) -> Path:
    """A root whose login shell answers commands in which ``command`` stands with the script ``lie``, to which ``$2`` is
    the command; it asks ``honest``."""
    root = device_root(image, folder)
    shell = root / "bin/liar"
    honest = 'honest() { /bin/busybox sh -c "$command"; }'
    shell.write_text(
        f'#!/bin/busybox sh\ncommand=$2\n{honest}\ncase $command in\n*"{command}"*)\n{lie}\n;;\n*) honest ;;\nesac\n'
    )
    shell.chmod(0o755)
    passwd = root / "etc/passwd"
    passwd.write_text(passwd.read_text().replace(":/root:/bin/sh", ":/root:/bin/liar"))
    return root


def measured(trials: list[Trial]) -> dict[tuple[str, ...], float]:
    """Metric and level -> value."""
    return {
        (value.metric, trial.params.get("device_cipher") or trial.params["direction"]): value.value
        for trial in trials
        for value in trial.measurements
    }


def left(there: Device) -> list[str]:
    """The processes of the device, but for its ssh server's, and its files."""
    running = there.node.run("ps", "-o", "args").stdout.splitlines()
    files = there.node.run("find", "/root", "/etc", "/tmp", "/run", "/var", check=False).stdout.splitlines()
    return sorted([line for line in running if "sshd" not in line and "ps -o" not in line] + files)


@pytest.mark.smoke
def test_the_page_of_a_device_with_a_posix_shell_alone(busybox: Device, tmp_path: Path) -> None:
    assert busybox.node.run("which", "python3", "bash", check=False).stdout == ""
    before = left(busybox)
    done = busybox.measure(tmp_path / "run", *PAGE)
    assert done.returncode == 0, done.stderr
    run, trials = load_run(tmp_path / "run")
    found = measured(trials)
    assert {*found} == {
        ("ssh_rate", "aes-128-cbc"),
        ("ssh_rate", "aes-256-cbc"),
        ("tcp_throughput", "forward"),
        ("tcp_throughput", "reverse"),
    }
    assert all(value > 1e6 for value in found.values())
    assert run.lab["openssl_bps"].keys() == {"aes-128-cbc", "aes-256-cbc", "hmac-sha1", "hmac-sha256"}
    assert run.image["packages"].keys() == {"openssl", "iperf3"}
    wait_until(lambda: left(busybox) == before, "the device as before")
    page = busybox.vpneval("report", str(tmp_path / "run"), "--format", "findings").stdout
    (row,) = re.findall(r"```csv\n(.*)\n", page)
    assert f",{round(found['ssh_rate', 'aes-256-cbc'] / 1e6, 1):g}," in row

    again = busybox.measure(tmp_path / "run", *PAGE)
    assert again.returncode == 0, again.stderr
    assert len(load_run(tmp_path / "run")[1]) == len(trials), "nothing is measured twice"


def test_what_a_device_lacks_is_named_and_the_rest_measured(image: Image, tmp_path: Path) -> None:
    root = device_root(image, tmp_path, SERVERS)
    config = root / "etc/ssh/sshd_config"
    config.write_text(config.read_text().replace("Ciphers +aes128-cbc,", "Ciphers +"))
    with device(image, tmp_path, root) as there:
        done = there.measure(tmp_path / "run", *PAGE)
    assert done.returncode == 0, done.stderr
    assert re.search(r"no openssl, so there is no rate of openssl speed.*openssl-util", done.stderr)
    assert re.search(r"no iperf3, so there is no TCP throughput", done.stderr)
    run, trials = load_run(tmp_path / "run")
    assert {*measured(trials)} == {("ssh_rate", "aes-256-cbc")}
    assert run.lab["lacks"].keys() == {"openssl", "iperf3"}
    assert "openssl_bps" not in run.lab
    reasons = [trial.reason for trial in trials if trial.status == "unsupported" and "driver" not in trial.params]
    assert any("does not take aes128-cbc" in reason for reason in reasons)


def test_a_near_host_without_iperf3_is_told_how_to_get_it(busybox: Device, tmp_path: Path) -> None:
    there = Device(busybox.node, busybox.near, busybox.inventory, busybox.path.partition(":")[2])
    done = there.measure(tmp_path / "run", *PAGE, "--set", "measure=tcp")
    if not re.search("this machine has no iperf3", done.stderr):
        pytest.skip("this machine has an iperf3 of its own")
    assert "apt-get install iperf3" in done.stderr


LIES = {
    "endless": ("dd if=", "cat /dev/zero", "device", "failed"),
    "short": ("dd if=", "echo almost nothing", "device", "failed"),
    "chatter": ("dd if=", "yes no numbers at all >&2", "device", "failed"),
    "openssl": ("openssl speed", "echo +F:1:x:1e999; echo +F:1:x:1.2.3; echo +F:1:x:0", "device", "ok"),
    "iperf3": ("iperf3 -s", "exit 1", "tcp", "failed"),
}


@pytest.mark.parametrize("name", LIES)
def test_what_a_device_says_is_data(image: Image, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, lie, measure, status = LIES[name]
    if name == "chatter":
        monkeypatch.setenv("VPNEVAL_PATIENCE", "0.05")  # 30 s for 100 MB
    with device(image, tmp_path, lying(image, tmp_path, command, lie)) as there:
        done = there.measure(tmp_path / "run", "--reps", "1", "--set", f"device_cipher=aes-128-cbc,measure={measure}")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1), done.stderr
    run, trials = load_run(tmp_path / "run")  # what is in the folder is typed
    assert {trial.status for trial in trials if trial.status != "unsupported"} == {status}, done.stderr
    assert not run.lab["openssl_bps"] or name != "openssl"


@pytest.mark.parametrize(
    ("command", "lie"),
    [
        ("uname -m", r"printf '\036\036\036\036mips\033[2J\036'"),
        ("openssl version", "honest | sed 's/openssl/bash/; s/\036/\036\036/'"),
        ("openssl version", "cat /dev/zero"),
        ("uname -m", "exit 0"),
        ("scaling_", "honest; echo '/proc/cpuinfo:cpu MHz : 1e999'"),
        ("scaling_", "echo x; echo cores:99999999999999999999999"),
    ],
)
def test_a_device_that_does_not_answer_as_it_should_is_named(
    image: Image, tmp_path: Path, command: str, lie: str
) -> None:
    with device(image, tmp_path, lying(image, tmp_path, command, lie)) as there:
        done = there.measure(tmp_path / "run", *PAGE)
    assert done.returncode == 3, done.stderr
    assert re.search(r"\bdevice\b", done.stderr)
    assert "Traceback" not in done.stderr
    assert "\033" not in done.stderr + done.stdout


def test_a_device_that_goes_away_ends_the_run(image: Image, tmp_path: Path) -> None:
    with device(image, tmp_path, lying(image, tmp_path, "dd if=", "killall -9 sshd")) as there:
        done = there.measure(tmp_path / "run", *PAGE, "--set", "measure=device")
    assert done.returncode == 4, done.stderr
    assert "cannot be reached" in done.stderr
    assert [trial.status for trial in load_run(tmp_path / "run")[1]].count("lab_error") == 1


@pytest.mark.smoke
def test_a_login_that_is_refused_ends_with_code_3_and_what_to_do(busybox: Device, tmp_path: Path) -> None:
    inventory = tmp_path / "denied.toml"
    inventory.write_text(busybox.inventory.read_text().replace('user = "root"', 'user = "nobody"'))
    done = Device(busybox.node, busybox.near, inventory, busybox.path).measure(tmp_path / "run", *PAGE)
    assert done.returncode == 3
    assert re.search(r"cannot be reached: .*Permission denied", done.stderr)
    assert not (tmp_path / "run").exists()


@pytest.mark.smoke
def test_another_experiment_of_a_device_is_refused(busybox: Device, tmp_path: Path) -> None:
    for command in (["run", "handshake"], ["lab", "shell", "gw1"], ["doctor"]):
        done = busybox.vpneval(*command, "--lab", f"ssh:{busybox.inventory}")
        assert done.returncode != 0
        assert "device" in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.smoke
def test_a_lab_says_what_measures_such_a_machine_in_its_place(busybox: Device, tmp_path: Path) -> None:
    """In an inventory of a lab the same device is refused, with what it lacks and what to do in its place."""
    proxy = f"nsenter -t {busybox.near.pid} -a socat - TCP:{DEVICE}:22,connect-timeout=3"
    options = {"ProxyCommand": proxy, "UserKnownHostsFile": str(busybox.inventory.parent / "known")}
    key = busybox.inventory.parent / "key"
    machine = GatewayMachine(address=DEVICE, user="root", identity=key, options=options, lan="eth1", wan="eth2")
    connection = Connection("gw1", machine, tmp_path)
    try:
        connection.wait_ready()
        with pytest.raises(CannotRunHere, match=r"gw1 has no .*python3.*\[device\]"):
            examine(connection, machine)
    finally:
        connection.close()
