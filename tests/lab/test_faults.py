"""What goes wrong: daemons that do not start or die, hung instruments, full disks, and ends by signal.

Each fault is real: processes are killed, sockets stopped, a disk filled. The sweep goes on, nothing is lost.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.instruments.traffic.tcp import tcp
from runner.lab.image import Image
from runner.lab.node import wait_until
from runner.lab.site_to_site import Lab, namespace_lab
from runner.tunnel.bring_up import bring_up, start_services
from tests.lab.commands import VPNEVAL, lines, measuring, start, until, vpneval
from tests.lab.conftest import descendants, mounts, running

HEAD = """
from runner.data.levels import AES_CBC, NO_CIPHER
from runner.vpn.plugin import Offers, Vpn
from runner.data.trials import Evidence
from vpns.none import PlainIp
class Toy(PlainIp):
    reference = False
"""
NEVER_STARTS = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        node.spawn("sh", "-c", "echo toyd: cannot bind to port 7; exit 3", log="toyd")
"""
)
LEAKS = (
    HEAD
    + """
    offers = Offers({"aes-128-cbc": "says so"}, {"hmac-sha256": "says so"})
    comparable = recommended = AES_CBC
    def evidence(self, node, me, peers, params):
        return Evidence(cipher="AES-128-CBC", integrity="SHA256", compression="off", data_path="kernel: says so")
"""
)
ADMITS = (
    HEAD
    + """
    offers = Offers({"aes-128-cbc": "says so"}, {"hmac-sha256": "says so"})
    comparable = recommended = AES_CBC
"""
)
MAGIC = (
    HEAD
    + """
    dataplane = "userspace"
"""
)
# The routes, which are this toy's tunnel, go when a megabyte has come from the near host: under load, and not while the
# tunnel is still being proven.
DIES = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        super().start(node, me, peers, params)
        if me.number == 1:
            wait = "until [ $(cat /sys/class/net/lan0/statistics/rx_bytes) -gt 1000000 ]; do sleep 0.1; done"
            node.spawn("sh", "-c", f"{wait}; echo toyd: dying now; ip route del 10.2.0.0/24", log="toyd")
"""
)
NO_EVIDENCE = (
    HEAD
    + """
    def evidence(self, node, me, peers, params):
        return Evidence()
"""
)


def toy(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def trials_of(folder: Path, vpn: str) -> list[Trial]:
    return [trial for trial in load_run(folder)[1] if trial.vpn == vpn]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("never_starts", NEVER_STARTS, "no payload came through the tunnel within"),
        ("leaks", LEAKS, "plaintext on the WAN"),
        ("no_evidence", NO_EVIDENCE, "no evidence of the data path"),
        ("admits", ADMITS, "asked for cipher aes-128-cbc, and the evidence says 'none'"),
        ("magic", MAGIC, "the plugin's data plane is userspace, and its evidence says 'kernel: IP forwarding'"),
    ],
)
def test_a_broken_vpn_fails_and_the_sweep_goes_on(
    image: Image, tmp_path: Path, name: str, text: str, reason: str
) -> None:
    out = tmp_path / "run"
    done = vpneval(
        *("run", "reference", "--profile", "smallest", "--vpn", f"{toy(tmp_path, name, text)},wireguard_go"),
        *("--out", out),
    )
    assert done.returncode == 1, done.stderr
    failed = trials_of(out, name)
    assert [trial.status for trial in failed] == ["failed"]
    assert reason in failed[0].reason
    assert not failed[0].measurements
    assert [trial.status for trial in trials_of(out, "wireguard_go")] == ["ok"]
    assert "Traceback" not in done.stderr
    if name == "never_starts":
        assert "toyd: cannot bind to port 7" in failed[0].reason, "the daemon's last words are in the reason"
        assert "gw1: the plugin says that the tunnel is up, but toyd has ended with exit status 3" in failed[0].reason


BREAKS = {
    "supports": "raise ValueError('no')",
    "secrets": "return ['k']",
    "render": "raise SystemExit(0)",
    "start": "raise OSError(28, 'full')",
    "is_up": "raise MemoryError",
    "evidence": "raise RecursionError",
    "lifecycle": "return None",
}


def test_plugins_that_are_broken_beside_one_that_is_not(image: Image, tmp_path: Path) -> None:
    """In rounds, where all stand together: each fails its own trials."""
    out = tmp_path / "run"
    for method, does in BREAKS.items():
        toy(tmp_path, f"b_{method}", f"{HEAD}    def {method}(self, *args, **named):\n        {does}\n")
    names = ",".join([*(str(tmp_path / f"b_{method}.py") for method in BREAKS), "wireguard_go"])
    argv = ("run", "transport", "--profile", "quick", "--reps", "1", "--vpn", names, "--out", out)
    done = vpneval(*argv, "--set", "measure=tcp,streams=1,direction=forward")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    for method in BREAKS:
        (failed,) = trials_of(out, f"b_{method}")
        assert failed.status == "failed"
        assert failed.reason.startswith(f"the plugin b_{method} is broken: {method} in b_{method}.py")
    for name in ("wireguard_go", "none"):
        (whole,) = trials_of(out, name)
        rate = next(found for found in whole.measurements if found.metric == "tcp_throughput")
        assert (whole.status, len(rate.samples)) == ("ok", 8), whole.reason


def test_a_tunnel_that_dies_while_it_is_measured(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = vpneval(
        *("run", "reference", "--profile", "smallest", "--duration", "6", "--out", out),
        *("--vpn", f"{toy(tmp_path, 'dies', DIES)},wireguard_go"),
    )
    assert done.returncode == 1
    failed = trials_of(out, "dies")
    assert [trial.status for trial in failed] == ["failed"]
    assert "the tunnel carries no payload any more" in failed[0].reason
    assert "toyd: dying now" in failed[0].reason
    assert failed[0].duration_s < 25
    assert [trial.status for trial in trials_of(out, "wireguard_go")] == ["ok"]


@pytest.fixture
def plain(lab: Lab) -> Lab:
    """A lab with plain IP up and the servers running."""
    start_services(lab)
    bring_up(lab, load_vpn("none"), load_vpn("none").comparable, {})
    return lab


def test_a_hung_iperf3_is_ended_in_time_and_the_next_test_works(plain: Lab) -> None:
    plain.host2.run("pkill", "-STOP", "iperf3")
    with pytest.raises(MeasurementError, match=r"iperf3 hung: \[host1\] iperf3 .* did not end within 5 s"):
        tcp(plain, "10.2.0.2", 1, 1, "forward", "random")
    assert tcp(plain, "10.2.0.2", 1, 1, "forward", "random").measurements[0].value > 0


def test_a_payload_whose_source_ends_is_refused(plain: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = "import sys, os, time\nopen(sys.argv[2], 'wb').write(b'x' * 10_000)\nsys.exit(4)\n"
    monkeypatch.setattr("runner.lab.probes.source", lambda name: ended)
    with pytest.raises(MeasurementError, match="payload ran out"):
        tcp(plain, "10.2.0.2", 2, 1, "forward", "text")


def test_an_endless_text_lasts_the_whole_test(plain: Lab) -> None:
    sent = tcp(plain, "10.2.0.2", 2, 1, "forward", "text").measurements[0]
    assert len(sent.samples) == 2
    assert min(sent.samples) > 0


SMALL = (
    *("transport", "--profile", "smallest", "--vpn", "wireguard_go,ssh_forward"),
    *("--set", "measure=tcp,measure=idle"),
)


@pytest.fixture
def interrupted(image: Image, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that has two trials done and is in the middle of more, its next lab being up."""
    out = tmp_path / "run"
    process = start(out, *SMALL)
    try:
        until(process, lambda: sum('"status":"ok"' in line for line in lines(out)) >= 2, "two trials")
        until(process, lambda: len(descendants(process.pid)) >= 5, "a lab")
        yield process, out
    finally:
        process.kill()
        process.wait()


def complete(out: Path, before: list[str]) -> None:
    """The same command again measures exactly what is missing, and leaves what was there alone."""
    done = vpneval("run", *SMALL, "--out", out)
    assert done.returncode == 0, done.stderr
    after = lines(out)
    assert after[: len(before)] == before
    ids = [json.loads(line)["id"] for line in after]
    assert len(ids) == len(set(ids))
    asked = {cell.key for record in load_run(out)[0].experiments for cell in record.cells}
    assert {trial.cell for trial in load_run(out)[1]} == asked
    again = vpneval("run", *SMALL, "--out", out)
    assert again.returncode == 0
    assert lines(out) == after, "a third call finds nothing to do"


def test_kill_9_leaves_nothing_and_loses_nothing(interrupted: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = interrupted
    before_mounts = mounts()
    children = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not running(children), "every process of the run gone")
    assert mounts() == before_mounts
    complete(out, lines(out))


def test_a_torn_last_line_is_measured_again(interrupted: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = interrupted
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = out / "trials.jsonl"
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 20)
    complete(out, whole.decode().splitlines()[:-1])


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_says_how_to_go_on(
    interrupted: tuple[subprocess.Popen[str], Path], end: signal.Signals
) -> None:
    process, out = interrupted
    children = descendants(process.pid)
    process.send_signal(end)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"--out {out}" in said
    assert "Traceback" not in said
    wait_until(lambda: not running(children), "every process of the run gone")
    assert load_run(out)[0].invocations[-1].outcome == "interrupted"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_who_asks_again_changes_nothing(interrupted: tuple[subprocess.Popen[str], Path], end: signal.Signals) -> None:
    process, out = interrupted
    children = descendants(process.pid)
    while process.poll() is None:
        process.send_signal(end)
        time.sleep(0.1)
    assert process.returncode == 130, process.communicate()
    wait_until(lambda: not running(children), "every process of the run gone")
    complete(out, lines(out))


def first_processes(pids: set[int], name: str) -> list[int]:
    """Of ``pids`` those that hold a node of that name."""
    found = []
    for pid in pids:
        with suppress(OSError):  # gone meanwhile
            first = re.search(r"^NSpid:\s+\d+\s+1$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            if first and f'"name": "{name}"' in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def test_a_node_that_is_killed_stops_the_run(image: Image, tmp_path: Path) -> None:
    """It dies while something is measured: a node that is being let go has every right to be gone."""
    out = tmp_path / "run"
    argv = ("reference", "--profile", "smallest", "--vpn", "wireguard_go", "--duration", "6")
    process = start(out, *argv)
    try:
        until(process, lambda: measuring(out), "the first trial")
        (gateway,) = first_processes(descendants(process.pid), "gw1")
        os.kill(gateway, signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 4, said
    assert "gw1" in said
    assert "lab_error" in {json.loads(line)["status"] for line in lines(out)}
    complete_again = vpneval("run", *argv, "--out", out)
    assert complete_again.returncode in (0, 1)
    assert not [trial for trial in load_run(out)[1] if trial.status == "lab_error"], "measured again"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[list[str], Path]]:
    """Words before a command that has a disk of 200 kB at ``tmp_path``/disk, and that disk as seen from here.

    In a mount namespace of its own: tests beside this one compare the machine's mounts.
    """
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=200k tmpfs "$0" && echo mounted && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, str(tmp_path / "disk")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "mounted\n"
    yield ["nsenter", "-t", str(holder.pid), "--mount"], Path(f"/proc/{holder.pid}/root{tmp_path}/disk")
    holder.communicate()


def test_a_full_disk_stops_the_run_and_keeps_every_trial(
    image: Image, tmp_path: Path, small_disk: tuple[list[str], Path]
) -> None:
    there, disk = small_disk
    (disk / "run").mkdir()
    (disk / "run" / ".lock").touch()
    (disk / "ballast").write_bytes(b"x" * 100_000)
    argv = ("run", "transport", "--profile", "smallest", "--vpn", "openvpn", "--out", f"{tmp_path}/disk/run")
    done = subprocess.run([*there, *VPNEVAL, *argv], capture_output=True, text=True, timeout=240)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    kept = load_run(disk / "run")[1]
    (disk / "ballast").unlink()
    assert [trial.id for trial in load_run(disk / "run")[1]] == [trial.id for trial in kept]


def test_a_disk_that_is_full_before_the_first_trial(
    image: Image, tmp_path: Path, small_disk: tuple[list[str], Path]
) -> None:
    there, disk = small_disk
    (disk / "ballast").write_bytes(b"x" * 196_000)
    argv = ("run", "reference", "--profile", "smallest", "--vpn", "none", "--out", f"{tmp_path}/disk/run")
    done = subprocess.run([*there, *VPNEVAL, *argv], capture_output=True, text=True, timeout=240)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"the disk of {tmp_path}/disk/run is full (No space left on device): make room there" in done.stderr
    assert f"--out {tmp_path}/disk/run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("when", ["before the first trial", "while it is measured"])
def test_a_run_folder_that_somebody_removes(image: Image, tmp_path: Path, when: str) -> None:
    out = tmp_path / "run"
    process = start(out, *SMALL)
    try:
        ready = measuring if when == "while it is measured" else lambda out: (out / ".lock").exists()
        until(process, lambda: ready(out), when)
        shutil.rmtree(out)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 4, said
    assert f"the run folder {out} is gone: somebody removed or moved it; start again" in said
    assert "Traceback" not in said
    assert "failed" not in said, "no VPN is blamed"
    assert not out.exists(), "nothing is written where nobody looks"


def test_two_runs_at_once_do_not_touch_each_other(image: Image, tmp_path: Path) -> None:
    command = [*VPNEVAL, "run", "reference", "--profile", "smallest", "--vpn", "wireguard_go", "--out"]
    runs = [
        subprocess.Popen([*command, str(tmp_path / name)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name in ("one", "other")
    ]
    for run in runs:
        said, _ = run.communicate(timeout=200)
        assert run.returncode == 0, said


def test_lab_shell_gives_a_live_tunnel(image: Image) -> None:
    done = vpneval("lab", "shell", "host1", "--vpn", "wireguard_go", "-c", "ping -c 1 -W 1 10.2.0.2")
    assert done.returncode == 0, done.stderr
    assert "1 received" in done.stdout


DIED = [
    "never_starts did not come up: no payload came through the tunnel within",
    "gw1: the plugin says that the tunnel is up, but toyd has ended with exit status 3",
    "gw1-toyd.log: toyd: cannot bind to port 7",
]
RAISES = (
    HEAD
    + """
    def start(self, node, me, peers, params):
        raise KeyError("no such thing")
"""
)


@pytest.mark.parametrize(
    ("name", "text", "code", "says"),
    [
        ("never_starts", NEVER_STARTS, 1, DIED),
        ("raises", RAISES, 2, ["the plugin raises is broken: start in raises.py, line 10: KeyError: 'no such thing'"]),
    ],
)
def test_lab_shell_says_why_a_plugin_never_comes_up(
    image: Image, tmp_path: Path, name: str, text: str, code: int, says: list[str]
) -> None:
    done = vpneval("lab", "shell", "gw1", "--vpn", toy(tmp_path, name, text), "-c", "true")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not [one for one in says if one not in done.stderr], done.stderr


def test_logs_have_the_commands_and_no_secret(image: Image, tmp_path: Path) -> None:
    done = vpneval(
        "run", "reference", "--profile", "smallest", "--vpn", "wireguard_go,ssh_forward", "--out", tmp_path / "r"
    )
    assert done.returncode == 0, done.stderr
    everything = "\n".join(path.read_text(errors="replace") for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert "[gw1] wg setconf wg0 /etc/wireguard/wg0.conf" in everything
    assert "PRIVATE KEY" not in everything
    assert "PrivateKey" not in everything


def test_the_hosts_root_says_what_it_lacks(tmp_path: Path) -> None:
    done = vpneval(
        "run", "reference", "--profile", "smallest", "--image", "host", "--vpn", "wireguard_go", "--out", tmp_path / "r"
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 3:
        assert "apt-get install" in done.stderr or "separate file system" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (found,) = trials_of(tmp_path / "r", "wireguard_go")
    assert found.status == "ok" or "apt-get install" in found.reason


def test_every_gateway_image_is_a_level(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "r"
    done = vpneval(
        *("run", "reference", "--profile", "smallest", "--vpn", "wireguard_go"),
        *("--gateway-image", "trixie,bookworm", "--out", out),
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    found = {trial.params["image"]: trial.evidence for trial in trials_of(out, "wireguard_go")}
    versions = {name: evidence.version for name, evidence in found.items() if evidence}
    assert set(versions) == {"trixie", "bookworm"}
    assert versions["trixie"] != versions["bookworm"]


def test_proof_tells_a_dead_capture_from_a_silent_wan(image: Image, tmp_path: Path) -> None:
    """The watcher on an interface without traffic sees less than was sent: that is no proof of anything."""
    with namespace_lab(image, logs=tmp_path) as lab:
        start_services(lab)
        bring_up(lab, load_vpn("none"), load_vpn("none").comparable, {})
        lab.wan.run("ip", "link", "add", "idle0", "type", "bridge")
        watch = lab.wan.run(
            *("sh", "-c", "ip link set idle0 up; (sleep 1; echo 00) | python3 /run/vpneval/watch.py idle0"), timeout=10
        )
        assert json.loads(watch.stdout.splitlines()[-1])["bytes"] < 2048
