"""The SSH lab on five machines with real sshd: the plugins' contract, refusals, and that every change is undone.

Whatever happens, the machines must be exactly as before: interfaces, addresses, routes, sysctls, processes, files.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.cache import cache_dir
from runner.data.errors import CannotRunHere, CommandError, LabError, MeasurementError
from runner.data.store import load_run
from runner.instruments.traffic import tcp
from runner.lab.node import Completed, wait_until
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.places import Rig, open_rig
from runner.lab.places import ssh as ssh_module
from runner.lab.places.machines import SshRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import bring_up, make_secrets, start_services, vpn_refusal
from runner.vpn.plugin import confidential
from tests.contract import CONTRACT, contract
from tests.lab.commands import measuring, until
from tests.lab.conftest import parents
from tests.lab.machines import Machines, machines

VPNEVAL = [sys.executable, "-m", "runner"]
pytestmark = pytest.mark.timeout(300)  # the ends by silence take their time


@pytest.fixture(scope="module")
def testbed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(image, tmp_path_factory.mktemp("machines")) as up:
        yield up


@pytest.fixture
def unchanged(testbed: Machines) -> Iterator[Machines]:
    """The machines, which must in the end be as they were."""
    before = settled(testbed)
    yield testbed
    as_before(testbed, before)


def settled(testbed: Machines) -> dict[str, list[str]]:
    wait_until(lambda: "tentative" not in str(testbed.snapshot()), "duplicate address detection at an end")
    return testbed.snapshot()


def as_before(testbed: Machines, before: dict[str, list[str]], deadline_s: float = 15.0) -> None:
    """Wait until the machines are as ``before``; the difference is the failure's text."""

    def difference() -> dict[str, tuple[set[str], set[str]]]:
        now = testbed.snapshot()
        return {
            name: (set(before[name]) - set(now[name]), set(now[name]) - set(before[name]))
            for name in now
            if now[name] != before[name]
        }

    try:
        wait_until(lambda: not difference(), "the machines as before", deadline_s, 0.2)
    except TimeoutError:
        gone_and_new = "\n".join(f"{name}: gone {was}, new {now}" for name, (was, now) in difference().items())
        assert not gone_and_new, gone_and_new


def lent(testbed: Machines) -> bool:
    """Are the ports of both gateways away, in a lab?"""
    return all("ens1" not in testbed.nodes[name].run("ip", "-br", "link").stdout for name in ("gw1", "gw2"))


def start_run(inventory: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    argv = [*VPNEVAL, "run", "reference", "--profile", "smallest", "--vpn", "none", "--duration", "20", *more]
    return subprocess.Popen(
        [*argv, "--lab", f"ssh:{inventory}", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def command_line(pid: int) -> bytes:
    """A process' argument vector; nothing of one that has just ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


# --- the contract --------------------------------------------------------------------------------------------


def tunnel_through(rig: Rig, lab: Lab, name: str) -> None:
    vpn = load_vpn(name)
    assert not vpn_refusal(lab, vpn, vpn.comparable)
    secrets = make_secrets(vpn, rig.alone(rig.image("host"), lambda line: None), lab.sites)
    start_services(lab)
    tunnel = bring_up(lab, vpn, vpn.comparable, secrets)
    assert tunnel.proof.delivered
    assert tunnel.proof.marker_on_wan is not confidential(vpn.comparable)
    assert tunnel.proof.captured_bytes >= tunnel.proof.sent_bytes
    assert tunnel.proof.captured_on == ("wan gw1" if lab.has_wan else "gw1 --sent wan0 and gw2 --sent wan0")
    assert tunnel.evidence.data_path.startswith(vpn.dataplane)
    measured = tcp.tcp(lab, tunnel.address, 1, 1, "forward", "random").measurements
    assert {found.metric: found.value > 0 for found in measured}["tcp_throughput"]
    said = "\n".join([*lab.commands, *(path.read_text() for path in lab.host1.logs.glob("*.log"))])
    for secret, text in secrets.items():
        assert not secret.endswith(".key") or text.strip() not in said, f"{secret} is in a log"


@pytest.mark.parametrize("name", CONTRACT)
def test_a_plugin_keeps_the_contract_there_too(unchanged: Machines, tmp_path: Path, name: str) -> None:
    with open_rig(f"ssh:{unchanged.inventory()}", print) as rig:
        contract(rig, name, tmp_path, lambda: settled(unchanged), "host")


def test_four_machines_and_a_cable_between_the_gateways(image: Image, tmp_path: Path) -> None:
    with machines(image, tmp_path) as testbed:
        cable = testbed.nodes["wan"]  # here it is a switch, which the inventory does not know
        cable.run("ip", "link", "add", "cable", "up", "type", "bridge")
        for port in ("ens1", "ens2"):
            cable.run("ip", "link", "set", port, "master", "cable", "up")
        lab_machines = {name: node for name, node in testbed.nodes.items() if name != "wan"}
        four = Machines(lab_machines, testbed.switch, tmp_path)
        before = settled(four)
        with open_rig(f"ssh:{four.inventory('wan')}", print) as rig:
            for name in ("none", "ipsec_user"):
                with rig.lab(rig.image("host"), logs=tmp_path) as lab:
                    tunnel_through(rig, lab, name)
                    with pytest.raises(MeasurementError, match="this lab has none"):
                        _ = lab.wan
        as_before(four, before)


def test_a_whole_run_ends_in_a_report_that_says_where(unchanged: Machines, tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = [*VPNEVAL, "run", "reference", "--profile", "smallest", "--vpn", "wireguard_go", "--out", str(out)]
    done = subprocess.run([*argv, "--lab", f"ssh:{unchanged.inventory()}"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    run, trials = load_run(out)
    assert run.lab["kind"] == "ssh"
    assert run.image["packages"]["wireguard-go"]
    assert {trial.status for trial in trials} == {"ok"}
    again = subprocess.run([*argv, "--lab", "netns"], capture_output=True, text=True, timeout=280)
    assert again.returncode == 2
    assert "choose another --out" in again.stderr


def test_a_user_with_sudo_is_enough(image: Image, tmp_path: Path) -> None:
    with machines(image, tmp_path, with_sudo(image)) as testbed:
        for name in ("gw1", "gw2"):
            gateway = testbed.nodes[name]
            gateway.run("useradd", "-m", "-s", "/bin/sh", "tester")
            gateway.run("cp", "-r", "/root/.ssh", "/home/tester/")
            gateway.run("chown", "-R", "tester:tester", "/home/tester/.ssh")
        inventory = testbed.inventory(gw1={"user": "tester"}, gw2={"user": "tester"})
        before = settled(testbed)
        with pytest.raises(CannotRunHere, match=r"(?s)gw1: tester may not become root.*gw2.*NOPASSWD"):
            open_rig(f"ssh:{inventory}", print).__enter__()
        as_before(testbed, before)
        for name in ("gw1", "gw2"):
            testbed.nodes[name].write("/etc/sudoers.d/vpneval", "tester ALL=(ALL) NOPASSWD: ALL\n", 0o440)
        before = settled(testbed)
        with open_rig(f"ssh:{inventory}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            tunnel_through(rig, lab, "openvpn")
        as_before(testbed, before)


def with_sudo(image: Image, *more: str) -> str:
    """The image with sudo, which it does not have, and ``more`` packages: a root file system, made once of links to the
    image's files."""
    packages = ("sudo", *more)
    root = cache_dir() / "tests" / f"{'-'.join(packages)}-{image.digest}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests side by side
        if not root.exists():
            _add(image, root, packages)
    return str(root)


def _add(image: Image, root: Path, packages: Sequence[str]) -> None:
    extracted, partial = root.with_suffix(".extracted"), root.with_suffix(".partial")
    for left in (extracted, partial):
        shutil.rmtree(left, ignore_errors=True)
    argv = ["mmdebstrap", "--variant=extract", f"--include={','.join(packages)}", "trixie", str(extracted)]
    hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run([*hold, *argv], capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        pytest.skip(f"{packages} cannot be fetched: {done.stderr.splitlines()[-1:]}")
    subprocess.run(["cp", "-al", str(image.root), str(partial)], check=True, timeout=120)
    # An image's file is never written to: what is there already is removed first.
    subprocess.run(["cp", "-a", "--remove-destination", f"{extracted}/.", str(partial)], check=True, timeout=120)
    partial.rename(root)
    shutil.rmtree(extracted)


# --- commands ------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_ending_a_command_ends_it_there_with_its_children(unchanged: Machines, tmp_path: Path) -> None:
    with open_rig(f"ssh:{unchanged.inventory()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        gateway = lab.nodes["gw1"]
        with pytest.raises(Exception, match=r"\[gw1\] .* did not end within 0.5 s"):
            gateway.run("sh", "-c", "sleep 4711 & sleep 4711", timeout=0.5)
        spawned = gateway.spawn("sh", "-c", "echo started; sleep 4712 & sleep 4712", log="sleeper")
        wait_until(lambda: "started" in gateway.read_log("sleeper"), "its log streamed here")
        assert "4712" in gateway.run("ps", "axo", "args").stdout
        spawned.stop()
        wait_until(lambda: "471" not in gateway.run("ps", "axo", "args").stdout, "the children gone")
        assert gateway.run("sh", "-c", "exit 255", check=False).code == 255  # its own, not ssh's
        assert gateway.run("printf", "%s|", "a b", "$HOME", "'").stdout == "a b|$HOME|'|", "no shell sees the arguments"


@pytest.mark.smoke
def test_commands_are_fed_and_heard_whole(unchanged: Machines) -> None:
    with (
        open_rig(f"ssh:{unchanged.inventory()}", print) as rig,
        rig.alone(rig.image("host"), lambda line: None) as node,
    ):
        text = "é\n" * 500_000
        assert node.run("cat", input=text).stdout == text
        assert node.run("sh", "-c", "echo out; echo err >&2; exit 3", check=False) == Completed(3, "out\n", "err\n")
        assert node.run("no-such-tool", check=False).code == 127
        with pytest.raises(CommandError, match=r"no-such-tool exited with 127: no-such-tool: No such file"):
            node.run("no-such-tool")
        assert node.run("true", input="x" * 1_000_000).code == 0, "a command need not read"
        assert node.run("sh", "-c", "sleep 30 & echo left").stdout == "left\n", "a child is not waited for"
        with ThreadPoolExecutor(8) as threads:
            said = threads.map(lambda number: node.run("echo", str(number)).stdout, range(50))
        assert list(said) == [f"{number}\n" for number in range(50)]


@pytest.mark.smoke
def test_a_node_there_is_made_as_one_here(unchanged: Machines, image: Image) -> None:
    # /run/mount is mount(8)'s own
    show = "awk '{print $2, $3}' /proc/mounts; ls -l --time-style=+ -I mount / /dev /dev/net /run"
    look = f"{show}; hostname; cat /etc/hosts; umask"
    here = NamespaceNode("ca", image.root)
    try:
        here.wait_ready()
        with open_rig(f"ssh:{unchanged.inventory()}", print) as rig, rig.alone(rig.image("host"), print) as there:
            assert shape(there.run("sh", "-c", look).stdout) == shape(here.run("sh", "-c", look).stdout)
            assert there.run("ip", "-br", "link").stdout == here.run("ip", "-br", "link").stdout
    finally:
        here.stop()


def shape(listing: str) -> list[str]:
    """Without the sizes of folders and how many links they have, and the machine's control groups, which only a node
    there has: here the runner looks at them."""
    lines = [line for line in listing.splitlines() if not line.startswith("/sys/fs/cgroup")]
    return [re.sub(r"^(d\S+) +\d+ (\w+ +\w+) +\d+|^total \d+", r"\1 \2", line) for line in lines]


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        pytest.param(
            {"gw1": {"wan": "ens7"}}, r"gw1: no interface ens7; it has: ens0 \(.*ens1 \(.*ens2", marks=pytest.mark.smoke
        ),
        pytest.param(
            {"gw1": {"wan": "ens0"}},
            r"gw1: ens0 carries the ssh connection: the lab would cut the machine off",
            marks=pytest.mark.smoke,
        ),
        ({"host1": {"identity": "no-such-key"}}, r"host1: identity names /.*/no-such-key, which is not there"),
        pytest.param(
            {"wan": {"gw1": "ens2", "gw2": "ens1"}},
            r"the WAN machine does not see gw1 on its port wan's ens2. Are its two ports swapped\?",
            marks=pytest.mark.smoke,
        ),
        (
            {"gw1": {"lan": "ens2", "wan": "ens1"}},
            r"host1's ens1 and gw1's ens2 cannot reach each other: .* no carrier|same cable",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(
    unchanged: Machines, changes: dict[str, dict[str, object]], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.lab.places.machines.CABLES_WITHIN_S", 3.0)
    spec = f"ssh:{unchanged.inventory(**changes)}"
    with pytest.raises(CannotRunHere, match=complaint), open_rig(spec, print) as rig, rig.lab(rig.image("host")):
        pass


@pytest.mark.smoke
def test_an_unreachable_machine_ends_the_run_with_code_3(unchanged: Machines, tmp_path: Path) -> None:
    text = unchanged.inventory().read_text().replace("TCP:10.99.0.5:22", "TCP:10.99.0.77:22")
    (unchanged.folder / "inventory.toml").write_text(text)
    run = start_run(unchanged.folder / "inventory.toml", tmp_path / "run")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 3
    assert "host2 cannot be reached: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("make", "undo", "complaint"),
    [
        ("ip link add br7 type bridge; ip link set ens2 master br7", "ip link del br7", "gw2: ens2 is a part of br7"),
        ("tc qdisc add dev ens2 root tbf rate 1mbit burst 9k latency 9ms", "tc qdisc del dev ens2 root", "discipline"),
        ("ip route add default dev ens1 metric 1", "ip route del default dev ens1", "ens1 is the default route"),
    ],
)
def test_a_port_that_is_in_use_is_not_taken(unchanged: Machines, make: str, undo: str, complaint: str) -> None:
    unchanged.nodes["gw2"].run("sh", "-c", make)
    before = settled(unchanged)
    try:
        with pytest.raises(CannotRunHere, match=complaint):
            open_rig(f"ssh:{unchanged.inventory()}", print).__enter__()
        as_before(unchanged, before)
    finally:
        unchanged.nodes["gw2"].run("sh", "-c", undo)


@pytest.mark.parametrize("kind", ["bridge", "bond", "team", "vrf table 7"])
def test_a_port_that_cannot_be_moved_is_refused_before_anything_changes(unchanged: Machines, kind: str) -> None:
    gateway, own = unchanged.nodes["gw2"], f"{kind.split()[0]}7"
    if "Unknown device type" in gateway.run("ip", "link", "add", own, "type", *kind.split(), check=False).stderr:
        pytest.skip(f"this kernel has no {kind.split()[0]}")
    before = settled(unchanged)
    try:
        with pytest.raises(CannotRunHere, match=f"gw2: {own} is a {kind.split()[0]}, which cannot be lent to a lab"):
            open_rig(f"ssh:{unchanged.inventory(gw2={'wan': own})}", print).__enter__()
        as_before(unchanged, before)
    finally:
        gateway.run("ip", "link", "del", own)


# --- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_kill_9_of_the_runner_undoes_everything(unchanged: Machines, tmp_path: Path) -> None:
    run = start_run(unchanged.inventory(), tmp_path / "run")
    until(run, lambda: measuring(tmp_path / "run"), "the first trial")
    assert lent(unchanged), "the positive control: there is something to undo"
    run.kill()
    run.communicate()


@pytest.mark.parametrize("after_s", [1.0, 2.5, 3.5, 4.5, 6.0])
def test_an_interruption_while_the_lab_comes_up_is_one(unchanged: Machines, tmp_path: Path, after_s: float) -> None:
    """Whenever it comes: before the login, while nodes are made, or before a machine has lent anything."""
    run = start_run(unchanged.inventory(), tmp_path / "run")
    time.sleep(after_s)
    run.send_signal(signal.SIGINT)
    said = run.communicate(timeout=120)[1]
    assert run.returncode == 130, said
    assert "/proc/" not in said
    assert "Traceback" not in said


def test_a_connection_that_is_cut_ends_the_run_and_undoes_everything(unchanged: Machines, tmp_path: Path) -> None:
    run = start_run(unchanged.inventory(), tmp_path / "run")
    until(run, lambda: measuring(tmp_path / "run"), "the first trial")
    assert lent(unchanged)
    # Not the commands that come and go: what this process itself holds as long as the run lasts.
    holds = [pid for pid, parent in parents().items() if parent == run.pid]
    argvs = {pid: argv for pid in holds if (argv := command_line(pid))}
    (master,) = [pid for pid, argv in argvs.items() if b"ControlMaster=yes" in argv and b"/gw2\0" in argv]
    os.kill(master, signal.SIGKILL)
    _, said = run.communicate(timeout=90)
    assert run.returncode == 4, said
    assert "gw2" in said
    statuses = {trial.status for trial in load_run(tmp_path / "run")[1]}
    assert statuses == {"lab_error"}


def test_a_runner_that_falls_silent_is_taken_for_gone(
    unchanged: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_module, "SILENCE_S", 3)
    monkeypatch.setattr(ssh_module, "HEARTBEAT_S", 1)

    def cut_off() -> None:
        with open_rig(f"ssh:{unchanged.inventory()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert lab.host1.run("sh", "-c", "sleep 4").code == 0, "heartbeats keep it"
            unchanged.switch.run("ip", "link", "set", "gw1", "down")  # nothing is closed: packets are lost
            alone = unchanged.nodes["gw1"]
            wait_until(lambda: "ens1" in alone.run("ip", "-br", "link").stdout, "the ports back", 30)
            lab.nodes["gw1"].run("true", timeout=1)

    try:
        with pytest.raises(LabError, match=r"gw1 .* does not answer any more; afterwards gw1 .* did not confirm"):
            cut_off()
    finally:
        unchanged.switch.run("ip", "link", "set", "gw1", "up")


def test_a_machine_that_dies_in_the_middle_is_a_lab_error(image: Image, tmp_path: Path) -> None:
    with machines(image, tmp_path) as testbed:
        before = settled(testbed)
        run = start_run(testbed.inventory(), tmp_path / "run")
        until(run, lambda: measuring(tmp_path / "run"), "the first trial")
        os.kill(testbed.nodes["host2"].pid, signal.SIGKILL)
        _, said = run.communicate(timeout=100)
        assert run.returncode == 4, said
        assert "Traceback" not in said
        trials = load_run(tmp_path / "run")[1]
        assert {trial.status for trial in trials} == {"lab_error"}
        assert re.search(r"host2 \(.*\) does not answer any more", trials[0].reason)
        # Its end of the cable is gone, and with it the other: nothing to compare on gw2's LAN port.
        left = {name: node for name, node in testbed.nodes.items() if name in ("host1", "gw1", "wan")}
        as_before(Machines(left, testbed.switch, tmp_path), {name: before[name] for name in left})


@pytest.mark.smoke
def test_an_undo_that_fails_is_said(testbed: Machines, tmp_path: Path) -> None:
    with open_rig(f"ssh:{testbed.inventory()}", print) as rig:
        assert isinstance(rig, SshRig)
        host1 = rig.lent["host1"]
        spoilt = SshRig(rig.connections, {**rig.lent, "host1": replace(host1, restore=host1.restore + "\nbogus")})
        lab = spoilt.lab(rig.image("host"), logs=tmp_path)
        lab.__enter__()
        with pytest.raises(LabError, match=r"host1 .* did not confirm that its ports are restored: .*bogus"):
            lab.__exit__(None, None, None)


@pytest.mark.smoke
def test_the_inventory_names_file_line_and_what_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[host1]\naddress = "a"\nlan = "eth1"\nwlan = "eth2"\n[gw1]\naddress = "-oProxyCommand=x"\n')
    done = subprocess.run(
        [*VPNEVAL, "run", "reference", "--lab", f"ssh:{path}"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 2
    assert f"{path}:4: [host1] wlan: is not known. Valid here: address, user, port" in done.stderr
    assert f"{path}:6: [gw1] address: cannot be '-oProxyCommand=x'" in done.stderr
    assert f"{path}:5: [gw1] lan: is missing" in done.stderr
    assert json.dumps(str(path)) not in done.stderr
