"""People's machines as they really are: each situation is a process of its own with that setting.

The answer is one of two. It works, and the VPN has its numbers. Or it is refused, before anything is measured, in one
sentence with what is wrong and what to do, with exit code 3 (this machine) or 2 (the command). No VPN is blamed.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from runner.data.cache import cache_dir
from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.lab.shape.site_to_site import Lab, forwards
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL
from tests.lab.hostile import PROJECT, RUN, SMALL, WITHOUT, Situation, hostile, judge, nothing_left, parameters
from tests.lab.machines import Machines, machines

__all__ = ["nothing_left"]
OPENCONNECT = ("run", "reference", "--vpn", "openconnect", *SMALL)  # drops root
TRANSPORT = ("run", "transport", "--vpn", "wireguard_go", "--set", "measure=tcp,streams=1", *SMALL)
NO_LOCKS = """mkdir OUT/patch; cat > OUT/patch/sitecustomize.py <<END
import errno, fcntl, os
def flock(*_): raise OSError(errno.{error}, os.strerror(errno.{error}))
fcntl.flock = flock
END
export PYTHONPATH=OUT/patch"""
INHERITED = "for number in $(seq {number}); do exec {{descriptor}}</dev/null; done"
C_LOCALE = "export PYTHONUTF8=0 LC_ALL=C PYTHONCOERCECLOCALE=0"
STRANGER = 'set -- setpriv --reuid 54321 --regid 54321 --clear-groups "$@"; unset VPNEVAL_CACHE'

PROCESS = [
    Situation("umask 077", "umask 077", command=OPENCONNECT, smoke=True),
    Situation("umask 777", "umask 777; trap '' EXIT", command=OPENCONNECT),
    Situation("umask 000", "umask 000"),
    Situation("soft limit of 256 descriptors", "ulimit -Sn 256"),
    Situation("hard limit of 256 descriptors", "ulimit -n 256"),
    Situation("hard limit of 128 descriptors", "ulimit -n 128", 3, "raise its limit first: ulimit -n", smoke=True),
    Situation("hard limit of 64 descriptors", "ulimit -n 64", 3, "raise its limit first: ulimit -n"),
    Situation("limit of 1,024 descriptors", "ulimit -n 1024"),
    Situation(
        "1,100 descriptors inherited, in a C locale",
        f"{C_LOCALE}; {INHERITED.format(number=1100)}",
        command=TRANSPORT,
        smoke=True,
    ),
    Situation("5,000 descriptors inherited", INHERITED.format(number=5000)),
    Situation("a C locale", C_LOCALE),
    Situation("a POSIX locale by LANG", "export PYTHONUTF8=0 LANG=POSIX PYTHONCOERCECLOCALE=0; unset LC_ALL"),
    Situation("a locale that is not there", "export LC_ALL=de_DE@euro"),
    Situation(
        "a terminal in ISO 8859-15",
        "localedef -i de_DE -f ISO-8859-15 OUT/de_DE.ISO-8859-15 || exec true; "
        "export LOCPATH=OUT LC_ALL=de_DE.ISO-8859-15 PYTHONUTF8=0",
    ),
    Situation("stdout in ISO 8859-15", "export PYTHONIOENCODING=iso8859-15"),
    Situation("stdout in ASCII, strict", "export PYTHONIOENCODING=ascii:strict"),
    Situation("no HOME", "unset HOME"),
    Situation("a user without passwd entry or HOME", f"{STRANGER}; unset HOME", 3, "sudo", smoke=True),
    Situation("a user without passwd entry", f"{STRANGER}; export HOME=/nonexistent", 3, "sudo"),
    Situation("ENOLCK", NO_LOCKS.format(error="ENOLCK"), 3, "OUT/run/.lock cannot be locked: No locks", smoke=True),
    Situation("ENOSYS", NO_LOCKS.format(error="ENOSYS"), 3, "OUT/run/.lock cannot be locked: Function not"),
    Situation("EOPNOTSUPP", NO_LOCKS.format(error="EOPNOTSUPP"), 3, "OUT/run/.lock cannot be locked: Operation not"),
    Situation("an empty environment", 'set -- env -i PATH="$PATH" "$@"'),
    Situation("closed streams", "exec <&- >&- 2>&-"),
    Situation("SIGPIPE and SIGCHLD ignored", "trap '' PIPE CHLD"),
    Situation("TERM=dumb, 20 columns", "export TERM=dumb COLUMNS=20"),
    Situation("niceness 19", "renice -n 19 $$ >/dev/null"),
    Situation("cwd /", "cd /"),
]
# A folder's name: for the cache, the checkout, TMPDIR and --out at once.
NAMES = ["a:b", "a,b", "a b", "a\\b", "ä'\"", "a\nb", "%h$x", "-rf", "#;&", "x" * 90, "~", "\udcff"]


@pytest.mark.parametrize("one", parameters(PROCESS))
def test_process(one: Situation, image: Image, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    judge(one, hostile(one, tmp_path), tmp_path)


@pytest.mark.parametrize("name", [pytest.param("a:b, c", marks=pytest.mark.smoke), *NAMES])
def test_nasty_names(name: str, image: Image, tmp_path: Path) -> None:
    """The cache, the checkout, TMPDIR and the run folder are in a folder of this name."""
    folder = tmp_path / name
    for part in ("cache", "checkout", "tmp"):
        (folder / part).mkdir(parents=True)
    there = {"CACHE": str(cache_dir()), "PROJECT": str(PROJECT)}
    setting = 'mount --bind "$CACHE" cache; mount --bind "$PROJECT" checkout; cd checkout'
    setting += '; export VPNEVAL_CACHE="${PWD%/checkout}/cache" TMPDIR="${PWD%/checkout}/tmp"'
    one = Situation(name, setting, command=(*RUN[:-1], "../run"))
    with pytest.MonkeyPatch.context() as patched:
        for variable, value in there.items():
            patched.setenv(variable, value)
        done = hostile(one, tmp_path, cwd=folder)
    judge(one, done, folder)


# What a container leaves out, line by line.
NEEDED = ("sys_admin", "net_admin", "net_raw", "sys_chroot", "setuid", "setgid", "chown", "dac_override", "kill")
CONTAINERS = [
    *(
        Situation(f"without CAP_{name.upper()}", WITHOUT.format(f"cap_{name}"), 3, f"--cap-add {name.upper()}")
        for name in NEEDED
    ),
    Situation(
        "with Docker's capabilities",
        WITHOUT.format("cap_sys_admin,cap_net_admin,cap_sys_ptrace,cap_sys_module,cap_sys_nice,cap_sys_resource"),
        3,
        "this process lacks CAP_NET_ADMIN, CAP_SYS_ADMIN. Start the container with --cap-add NET_ADMIN",
        smoke=True,
    ),
    Situation("without what no lab needs", WITHOUT.format("cap_mknod,cap_sys_ptrace,cap_sys_module,cap_audit_write")),
    Situation(
        "without CAP_MKNOD, no image",
        WITHOUT.format("cap_mknod") + "; mkdir OUT/cache; export VPNEVAL_CACHE=OUT/cache",
        3,
        "--cap-add MKNOD",
    ),
    Situation(  # as the kernel says it for seccomp and AppArmor, which allow the capability and not the call
        "a profile that refuses",
        "printf '#!/bin/sh\\necho unshare: unshare failed: Operation not permitted >&2; exit 1' > OUT/unshare; "
        'chmod +x OUT/unshare; mount --bind OUT/unshare "$(command -v unshare)"',
        3,
        "this machine does not let vpneval make a node: unshare: unshare failed: Operation not permitted",
    ),
    Situation("/sys read-only", "mount --bind /sys /sys; mount -o remount,ro,bind /sys"),
    Situation("/proc/sys read-only", "mount --bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys"),
    Situation("no control groups", "umount -R /sys/fs/cgroup || mount -t tmpfs none /sys/fs/cgroup"),
    Situation("one core", "taskset -pc 0 $$ >/dev/null", smoke=True),
    Situation("the last core", "taskset -pc $(($(nproc --all) - 1)) $$ >/dev/null"),
    Situation(
        "a cache below /mnt",
        'mount -t tmpfs none /mnt; mkdir /mnt/c; mount --bind "${VPNEVAL_CACHE:-/var/cache/vpneval}" /mnt/c',
    ),
]
# As a container sees its own quota: in the topmost group that there is.
QUOTA = """group=/sys/fs/cgroup/cpu/vpneval-hostile-$$
mkdir $group; echo 20000 > $group/cpu.cfs_quota_us; echo $$ > $group/cgroup.procs
set -- unshare --cgroup --mount bash -euc 'umount -R /sys/fs/cgroup; mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/cpu; mount -t cgroup -o cpu none /sys/fs/cgroup/cpu; exec "$@"' bash "$@"
"$@"; ended=$?; echo $$ > /sys/fs/cgroup/cpu/cgroup.procs
for try in $(seq 50); do rmdir $group && exit $ended; sleep 0.1; done"""


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpu/cgroup.procs").exists(), reason="needs control groups of version 1")
def test_a_containers_own_quota_is_noticed(image: Image, tmp_path: Path) -> None:
    one = Situation("quota", QUOTA)
    done = hostile(one, tmp_path)
    judge(one, done, tmp_path)
    loads = [load for trial in load_run(tmp_path / "run")[1] for load in trial.loads]
    assert {quota.cores for load in loads for quota in load.quotas} == {0.2}


# Whatever is in the place of the device, the VPN is not measured, and the reason names the device.
NO_TUN = {
    "null": "mount --bind /dev/null /dev/net/tun",
    "zero": "mount --bind /dev/zero /dev/net/tun",
    "a file": "touch OUT/file; mount --bind OUT/file /dev/net/tun",
    "missing": "mount -t tmpfs none /dev/net",
    "denied": "mount -t tmpfs -o nodev none /dev/net; mknod /dev/net/tun c 10 200",
}


@pytest.mark.parametrize("one", parameters(CONTAINERS))
def test_container(one: Situation, image: Image, tmp_path: Path) -> None:
    judge(one, hostile(one, tmp_path), tmp_path)
    if "core" in one.name:
        run, trials = load_run(tmp_path / "run")
        assert run.lab["cores"] == 1
        assert run.lab["machines"]["this machine"]["cores"] == 1
        assert {len(load.cores) for trial in trials for load in trial.loads} == {1}


@pytest.mark.parametrize("kind", [pytest.param("null", marks=pytest.mark.smoke), *list(NO_TUN)[1:]])
def test_what_is_no_tun_is_named(kind: str, image: Image, tmp_path: Path) -> None:
    one = Situation(kind, NO_TUN[kind])
    done = hostile(one, tmp_path)
    assert "Traceback" not in done.stderr
    (found,) = [trial for trial in load_run(tmp_path / "run")[1] if trial.vpn == "wireguard_go"]
    assert found.status == "unsupported", found.reason
    assert "/dev/net/tun" in found.reason


@pytest.fixture(scope="module")
def testbed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(image, tmp_path_factory.mktemp("testbed")) as up:
        yield up


# On gw1: a file that stands there meanwhile, and what the sentence has.
ELSEWHERE = {
    "a greeting": ("/root/.bashrc", "echo Welcome to gw1", "gw1: its shell says 'Welcome to gw1' before"),
    "a greeting that clears": ("/root/.bashrc", "printf '\\033[2J hi\\n'", "gw1: its shell says '\\x1b[2J hi' before"),
    "an echo in the middle": ("/root/.bashrc", "echo; echo root; echo 0", "gw1: its shell says 'root\\n0' before"),
    "an old Python": (
        "/usr/local/bin/python3",
        "#!/bin/sh\necho 3 9",
        "gw1 has Python 3.9; vpneval needs 3.10 or newer",
    ),
    "a clock behind": ("/usr/local/bin/date", "#!/bin/sh\n/bin/date -d '-7 min' +%s", "s apart, so that certificates"),
    "a clock ahead": ("/usr/local/bin/date", "#!/bin/sh\n/bin/date -d '7 min' +%s", "s apart, so that certificates"),
    "BusyBox's ip": (
        "/usr/local/bin/ip",
        "#!/bin/sh\necho \"ip: invalid option -- 'j'\" >&2; exit 1",
        "gw1: its ip(8) writes no JSON that can be read",
    ),
    "an ip that breaks its JSON": (
        "/usr/local/bin/ip",
        '#!/bin/sh\n/sbin/ip "$@" | sed \'s/"mtu":1500/"mtu":nan/\'',
        "gw1: its ip(8) writes no JSON that can be read (ip utility, iproute2-",
    ),
    "an ip that lies": (
        "/usr/local/bin/ip",
        '#!/bin/sh\n/sbin/ip "$@" | sed \'s/"local":"10[^"]*/&$(id)/\'',
        "gw1 does not answer as it should: addr_info local is '10.",
    ),
    "no date": ("/usr/local/bin/date", "#!/bin/sh\nexit 1", "gw1: sh, id and date do not answer there"),
}


# On gw1, in the place of the Python that would be the agent.
NO_AGENT = {
    "talks": ("yes", ") did not come up: it says 'y'"),
    "hangs": ("sleep 300", ") did not come up within "),
    "answers with noise": ("echo 1; yes", "which is no agent's answer"),
    "answers nothing": ("echo 1; sleep 300", "vpneval: gw1 ("),
}


@pytest.mark.parametrize("what", NO_AGENT)
def test_an_agent_that_is_none(what: str, testbed: Machines, tmp_path: Path) -> None:
    does, says = NO_AGENT[what]
    gateway = testbed.nodes["gw1"]
    python = f"#!/bin/sh\ncase $* in *version_info*) echo 3 11;; *) {does};; esac\n"
    gateway.write("/usr/local/bin/python3", python, mode=0o755)
    try:
        command = (*RUN, "--lab", f"ssh:{testbed.inventory()}")
        one = Situation(what, "export VPNEVAL_PATIENCE=0.2", 4, says, command)
        done = hostile(one, tmp_path)
    finally:
        gateway.run("rm", "/usr/local/bin/python3")
    judge(one, done, tmp_path)


@pytest.mark.parametrize("what", [pytest.param("a greeting", marks=pytest.mark.smoke), *list(ELSEWHERE)[1:]])
def test_a_machine_elsewhere(what: str, testbed: Machines, tmp_path: Path) -> None:
    path, text, says = ELSEWHERE[what]
    gateway = testbed.nodes["gw1"]
    gateway.write(path, text + "\n", mode=0o755)
    try:
        one = Situation(what, "", 3, says, (*RUN, "--lab", f"ssh:{testbed.inventory()}"))
        done = hostile(one, tmp_path)
    finally:
        gateway.run("rm", path)
    judge(one, done, tmp_path)
    assert "NOPASSWD" not in done.stderr, "no advice is made of what was not checked"


def test_ssh_config_with_a_command_and_a_terminal(testbed: Machines, tmp_path: Path) -> None:
    config = testbed.folder / "config"
    config.write_text("Host *\n  RequestTTY force\n  RemoteCommand tmux attach\n", encoding="utf-8")
    config_of: dict[str, dict[str, object]] = {name: {"config": "config"} for name in testbed.nodes}
    inventory = testbed.inventory(**config_of)
    one = Situation("ssh_config", "", 0, "", (*RUN, "--lab", f"ssh:{inventory}"))
    judge(one, hostile(one, tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["x" * 90, "a b", "%h", 'ä"', "a\\b"])
def test_an_inventory_with_a_nasty_path(name: str, testbed: Machines, tmp_path: Path) -> None:
    """The inventory, the key beside it, and TMPDIR."""
    folder = tmp_path / name
    folder.mkdir()
    inventory = testbed.inventory()
    for file in (inventory, testbed.folder / "key"):
        shutil.copy2(file, folder)
    one = Situation(name, 'export TMPDIR="$PWD"', 0, "", (*RUN, "--lab", f"ssh:{folder / inventory.name}"))
    judge(one, hostile(one, tmp_path, cwd=folder), tmp_path)


def catches(pid: int) -> bool:
    """Does the program catch the last of the three signals?"""
    caught = Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> signal.SIGHUP - 1 & 1)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("pause_s", [0.0, 0.005, 0.02])
def test_signals_in_any_number_end_in_a_documented_code(number: signal.Signals, pause_s: float, tmp_path: Path) -> None:
    """From the moment on in which the program catches it: Python itself is not loaded before."""
    for delay_s in (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7):
        with subprocess.Popen(
            [*VPNEVAL, "doctor", "--vpn", "wireguard_go"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as run:
            wait_until(partial(catches, run.pid), "the signals caught")
            time.sleep(delay_s)  # not for anything to happen: where it is hit is what varies
            for _ in range(1000):
                if run.poll() is not None:
                    break
                run.send_signal(number)
                time.sleep(pause_s)
            said = run.communicate(timeout=60)[1]
        assert run.returncode in (0, 130), f"after {delay_s} s: {run.returncode}: {said}"
        assert "Traceback" not in said


def test_modules_that_an_upgrade_took_away_are_named(image: Image, tmp_path: Path) -> None:
    setting = "mkdir -p /lib/modules; mount -t tmpfs none /lib/modules; mkdir /lib/modules/6.1.0-old"
    command = ("run", "reference", "--vpn", "wireguard", *SMALL)
    done = hostile(Situation("upgrade", setting, command=command), tmp_path)
    assert "Traceback" not in done.stderr
    found = [trial for trial in load_run(tmp_path / "run")[1] if trial.vpn == "wireguard"]
    if any(trial.status == "ok" for trial in found):
        pytest.skip("WireGuard is loaded here, or built in")
    assert all("as after an upgrade: reboot, or install linux-image-" in trial.reason for trial in found)


def test_a_strict_rp_filter_of_the_machine_is_not_the_labs(lab: Lab) -> None:
    gateway = lab.nodes["gw1"]
    ports = ("all", "default", "lan0", "wan0")
    gateway.run("sysctl", "-qw", *(f"net.ipv4.conf.{port}.rp_filter=1" for port in ports))  # as it is inherited
    forwards(gateway, "lan0", "wan0")
    gateway.run("ip", "link", "add", "later0", "type", "veth", "peer", "name", "later1")
    asked = [f"net.ipv4.conf.{port}.rp_filter" for port in (*ports, "later0")]
    assert gateway.run("sysctl", "-n", *asked).stdout.split() == ["0"] * 5


# What the doctor's line says, at which level, in each setting.
DOCTOR = {
    "capabilities": (WITHOUT.format("cap_sys_admin"), "capabilities", "error", "--cap-add SYS_ADMIN"),
    "open files": ("ulimit -n 128", "open files", "error", "ulimit -n"),
    "TUN": (NO_TUN["null"], "TUN", "warning", "is not the kernel's TUN device"),
    "cores": ("taskset -pc 0 $$ >/dev/null", "cores", "warning", "may use 1 of"),
    "a panic": (
        "printf '#!/bin/sh\\necho Kernel panic - not syncing: no; sleep 99' > OUT/uml; chmod +x OUT/uml; "
        'mount --bind OUT/uml "$(command -v linux.uml)"',
        "guest kernel uml",
        "warning",
        "does not start on this machine",
    ),
}


@pytest.mark.parametrize("what", DOCTOR)
def test_the_doctor_says_it(what: str, image: Image, tmp_path: Path) -> None:
    setting, line, level, says = DOCTOR[what]
    if what == "a panic" and shutil.which("linux.uml") is None:
        pytest.skip("needs user-mode-linux")
    command = ("doctor", "--json", "--vpn", "none")
    done = hostile(Situation(what, setting, command=command), tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode == (3 if level == "error" else 0), done.stderr
    (check,) = [check for check in json.loads(done.stdout) if check["what"] == line]
    assert (check["level"], says in check["says"]) == (level, True), check
