"""The namespace lab: what comes up, what it is isolated from, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere, CommandError, LabError
from runner.data.wan import Conditions
from runner.lab.node import wait_until
from runner.lab.node.groups import GROUPS
from runner.lab.readings.facts import facts
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import Lab, check_alive, namespace_lab
from runner.lab.software.image import Image, check, host_image
from tests.lab.conftest import interfaces, mounts

pytestmark = pytest.mark.smoke


def ping(lab: Lab, address: str) -> int:
    return lab.host1.run("ping", "-c", "1", "-W", "1", address, check=False).code


def test_five_nodes_are_cabled_and_addressed(lab: Lab) -> None:
    assert ping(lab, "10.1.0.1") == 0
    assert lab.gateway(lab.sites[0]).run("ping", "-c", "1", "-W", "1", "192.168.0.2", check=False).code == 0
    assert ping(lab, "10.2.0.2") != 0, "without a VPN or a route the far site must not be reachable"


def test_nodes_look_like_hosts_of_their_own(lab: Lab) -> None:
    names = [node.run("hostname").stdout.strip() for node in lab.nodes.values()]
    assert names == ["host1", "gw1", "wan", "gw2", "host2"]
    lab.host1.write("/etc/only-here", "x")
    assert lab.host1.run("stat", "-c", "%a %s", "/etc/only-here").stdout == "600 1\n"
    assert lab.host2.run("test", "-e", "/etc/only-here", check=False).code == 1
    assert not Path("/etc/only-here").exists()
    assert lab.host1.run("ps", "-o", "pid=", "-p", "1").stdout.strip() == "1"
    assert lab.host1.run("ls", "/.old", check=False).code != 0, "the machine's own root is out of reach"


def test_nothing_of_it_is_on_the_host(image: Image) -> None:
    before = interfaces(), mounts()
    with namespace_lab(image) as lab:
        assert (interfaces(), mounts()) == before
        pids = [node.pid for node in lab.nodes.values()]
    assert (interfaces(), mounts()) == before
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the nodes gone")


def test_two_labs_at_once_do_not_see_each_other(image: Image) -> None:
    with namespace_lab(image) as one, namespace_lab(image) as other:
        one.host1.run("ip", "addr", "add", "10.1.0.99/24", "dev", "eth0")
        assert ping(other, "10.1.0.99") != 0
        assert ping(one, "10.1.0.1") == ping(other, "10.1.0.1") == 0


def test_a_command_that_takes_too_long_is_ended_with_its_children(lab: Lab) -> None:
    with pytest.raises(CommandError, match=r"\[gw1\] .* did not end within 0.3 s"):
        lab.nodes["gw1"].run("sh", "-c", "sleep 4711 & sleep 4711", timeout=0.3)
    wait_until(lambda: "4711" not in lab.nodes["gw1"].run("ps", "axo", "args").stdout, "the children gone")


def test_a_killed_daemon_is_reaped_and_keeps_no_node(lab: Lab) -> None:
    """By the nsenter in front of it: not every machine's PID 1 would, and a node cannot end before its dead."""
    for _ in range(5):
        daemon = lab.host1.spawn("sleep", "60", log="daemon")
        wait_until(lambda: "sleep 60" in lab.host1.run("ps", "axo", "args=").stdout, "the daemon")
        daemon.stop()
    left = lab.host1.run("ps", "axo", "stat=,args=").stdout
    assert "sleep" not in left, left


def test_a_failing_command_names_node_argv_code_and_stderr(lab: Lab) -> None:
    with pytest.raises(CommandError, match=r"\[wan\] ls /nowhere exited with 2: .*No such file") as failed:
        lab.wan.run("ls", "/nowhere")
    assert (failed.value.node, failed.value.code) == ("wan", 2)


@pytest.mark.parametrize(
    "argv", [("true", "a\0b"), ("a\0b",), (), ("",), ("no such command",), ("true", "x" * 200_000)]
)
def test_words_that_are_no_command_leave_the_node_as_it_is(lab: Lab, argv: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        lab.gateway(lab.sites[0]).run(*argv)
    with pytest.raises(CommandError):
        lab.gateway(lab.sites[0]).write("/tmp/a\0b", "x")
    assert lab.gateway(lab.sites[0]).run("echo", "there").stdout == "there\n"


def test_every_command_is_logged_and_no_content(image: Image) -> None:
    lines: list[str] = []
    with namespace_lab(image, log=lines.append) as lab:
        lab.host1.write("/run/key", "the secret", mode=0o600)
    assert "[gw1] ip addr add 192.168.0.1/24 dev wan0" in lines
    assert "[gw1] ip link add wan0 type veth peer name gw1 netns wan" in lines
    assert not any("the secret" in line for line in lines)


def test_shaping_limits_the_wan(lab: Lab) -> None:
    wan.apply(lab, Conditions(rate_bps=1e9))
    assert lab.wan.run("tc", "qdisc", "show", "dev", "gw1").stdout.startswith("qdisc tbf")
    assert "rate 1Gbit" in lab.wan.run("tc", "qdisc", "show", "dev", "gw2").stdout


def test_facts_say_what_this_lab_is(lab: Lab) -> None:
    found = facts(lab)
    assert found["kind"] == "netns"
    assert found["kernel"] == os.uname().release
    assert found["cores"] >= 1
    assert found["wan_offloads"]["generic-receive-offload"] in ("on", "off")


def test_a_dead_node_is_a_lab_error(lab: Lab) -> None:
    check_alive(lab)
    os.kill(lab.nodes["gw2"].pid, signal.SIGKILL)
    wait_until(lambda: bool(lab.nodes["gw2"].why_ended()), "the node gone")
    with pytest.raises(LabError, match="gw2"):
        check_alive(lab)


def test_a_node_without_a_folder_for_logs_starts_nothing_in_the_background(image: Image) -> None:
    with namespace_lab(image) as lab:
        with pytest.raises(RuntimeError, match=r"host1 has no folder for logs: name one with log_to"):
            lab.host1.spawn("sleep", "60", log="said")
        assert lab.host1.run("pgrep", "sleep", check=False).code == 1


HOLD_A_LAB = """
import sys
from runner.lab.software.image import open_image
from runner.lab.shape.site_to_site import namespace_lab
with namespace_lab(open_image()) as lab:
    lab.host2.run("ip", "link", "add", "tunnel0", "type", "dummy", check=False)
    from pathlib import Path
    lab.host1.log_to(Path(sys.argv[1])); lab.host1.spawn("iperf3", "--server", log="x")
    print(*(node.pid for node in lab.nodes.values()), flush=True)
    sys.stdin.read()
"""


def test_kill_9_of_the_runner_leaves_nothing(image: Image, tmp_path: Path) -> None:
    before = interfaces(), mounts()
    runner = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_LAB, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    pids = runner.stdout.readline().split()
    assert len(pids) == 5
    namespaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids}
    runner.kill()
    runner.wait()

    def namespaces_in_use() -> set[str]:
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
            except OSError:
                continue  # it ended while we looked
        return found

    wait_until(lambda: not namespaces & namespaces_in_use(), "every process of the lab gone")
    assert (interfaces(), mounts()) == before


def test_a_damaged_image_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    root = tmp_path / "trixie-0"
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text("Package: a\nVersion: 1\n")
    root.with_suffix(".json").write_text('{"dpkg_status_sha256": "0", "packages": {}}')
    with pytest.raises(CannotRunHere, match="vpneval image trixie --rebuild"):
        check("trixie", root)


def test_the_hosts_own_root_makes_a_lab_too() -> None:
    try:
        root = host_image()
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    with namespace_lab(root) as lab:
        lab.host1.write("/etc/vpneval-was-here", "")
        assert lab.host1.run("hostname").stdout == "host1\n"
    assert not Path("/etc/vpneval-was-here").exists()


SPIN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: sum(range(50000))"


def groups_of(pid: int) -> list[Path]:
    """Of a runner. Groups of other tests' runners come and go meanwhile, which Path.rglob does not bear."""
    return [
        Path(above, name) for above, names, _ in os.walk(GROUPS) for name in names if name.startswith(f"vpneval.{pid}.")
    ]


def test_a_node_counts_the_cpu_time_of_its_processes_and_of_no_other(lab: Lab) -> None:
    before = {name: node.cpu_s() for name, node in lab.nodes.items()}
    if any(spent is None for spent in before.values()):
        pytest.skip("no control group can be made here")
    lab.host1.run("python3", "-IS", "-c", SPIN)
    daemon = lab.host1.spawn("sh", "-c", f"exec python3 -IS -c '{SPIN}'", log="spin")
    daemon.wait(30)
    spent = {name: (node.cpu_s() or 0) - (before[name] or 0) for name, node in lab.nodes.items()}
    assert 1.0 <= spent.pop("host1") < 2.0
    apart = lab.host1.cpu_times()
    assert apart is not None
    assert apart.user_s > apart.system_s, "the loop makes a system call now and then"
    assert apart.all_s >= 1.0
    assert max(spent.values()) < 0.1
    assert all(used > 0 for used in before.values() if used is not None), "what it took to make the node"


def test_the_control_groups_go_with_their_lab(image: Image) -> None:
    of_others = {*groups_of(os.getpid())}  # of labs that stand for other tests of this process
    with namespace_lab(image) as lab:
        if lab.host1.cpu_s() is None:
            pytest.skip("no control group can be made here")
        assert len({*groups_of(os.getpid())} - of_others) == 5
    assert not {*groups_of(os.getpid())} - of_others


def test_the_control_groups_of_a_killed_runner_go_when_the_next_one_begins(image: Image, tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_LAB, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    runner.stdout.readline()
    if not groups_of(runner.pid):
        pytest.skip("no control group can be made here")
    runner.kill()
    runner.wait()
    assert groups_of(runner.pid), "positive control: nobody was left to remove them"

    def next_one() -> bool:
        with namespace_lab(image):
            return not groups_of(runner.pid)

    wait_until(next_one, "the groups gone", pause_s=0.2)
