"""What goes wrong around the VPNs: hung instruments, full disks, run folders that go, and ends by signal.

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
from runner.instruments.traffic.tcp import tcp
from runner.lab.node import wait_until
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import bring_up, start_services
from tests.lab.commands import VPNEVAL, lines, measuring, rows, start, trials_of, until, vpneval, wrong_slices
from tests.lab.conftest import descendants, mounts, running


@pytest.fixture
def plain(lab: Lab) -> Lab:
    """A lab with plain IP up and the servers running."""
    start_services(lab)
    bring_up(lab, load_vpn("none"), load_vpn("none").comparable, {})
    return lab


@pytest.mark.smoke
def test_a_hung_iperf3_is_ended_in_time_and_the_next_test_works(plain: Lab) -> None:
    plain.host2.run("pkill", "-STOP", "iperf3")
    with pytest.raises(MeasurementError, match=r"iperf3 hung: \[host1\] iperf3 .* did not end within 6 s"):
        tcp(plain, "10.2.0.2", 1, 1, "forward", "random")
    assert tcp(plain, "10.2.0.2", 1, 1, "forward", "random").measurements[0].value > 0


@pytest.mark.smoke
def test_a_payload_whose_source_ends_is_refused(plain: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = "import sys, os, time\nopen(sys.argv[2], 'wb').write(b'x' * 10_000)\nsys.exit(4)\n"
    monkeypatch.setattr("runner.lab.probes.source", lambda name: ended)
    with pytest.raises(MeasurementError, match="payload ran out"):
        tcp(plain, "10.2.0.2", 2, 1, "forward", "text")


@pytest.mark.smoke
def test_an_endless_text_lasts_the_whole_test(plain: Lab) -> None:
    sent = tcp(plain, "10.2.0.2", 2, 1, "forward", "text").measurements[0]
    assert len(sent.samples) == 2
    assert min(sent.samples) > 0


SMALL = (
    *("transport", "--profile", "smallest", "--vpn", "wireguard_go,ssh_forward"),
    *("--set", "measure=tcp,measure=idle,streams=1"),
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
    slices, ok = rows(out), {trial.id for trial in load_run(out)[1] if trial.status == "ok"}
    done = vpneval("run", *SMALL, "--out", out)
    assert done.returncode == 0, done.stderr
    after = lines(out)
    assert after[: len(before)] == before
    ids = [json.loads(line)["id"] for line in after]
    assert len(ids) == len(set(ids))
    assert not (wrong := wrong_slices(out, slices, ok)), wrong
    assert rows(out), "there are slices"
    asked = {cell.key for record in load_run(out)[0].experiments for cell in record.cells}
    assert {trial.cell for trial in load_run(out)[1]} == asked
    again = vpneval("run", *SMALL, "--out", out)
    assert again.returncode == 0
    assert lines(out) == after, "a third call finds nothing to do"


@pytest.mark.smoke
def test_kill_9_leaves_nothing_and_loses_nothing(interrupted: tuple[subprocess.Popen[str], Path]) -> None:
    """But for a last line that the kill has torn, which is measured again."""
    process, out = interrupted
    before_mounts = mounts()
    children = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not running(children), "every process of the run gone")
    assert mounts() == before_mounts
    whole = lines(out)
    os.truncate(out / "trials.jsonl", len("\n".join(whole).encode()) - 20)
    complete(out, whole[:-1])


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


# A VPN whose log says whether it is up. Before its daemons say so the disk of the results is full, but for the rest of
# the page of memory that the list of commands has there.
FILLING = """
import os
from contextlib import suppress
from vpns.openvpn import OpenVpn

class Filling(OpenVpn):
    def start(self, node, me, peers, params):
        if not os.path.exists({ballast!r}):
            size = (node.logs / "commands.log").stat().st_size
            node.run("true", "x" * (4100 - size % 4096))
            with suppress(OSError), open({ballast!r}, "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        super().start(node, me, peers, params)
"""


@pytest.mark.smoke
def test_a_disk_that_is_full_blames_no_vpn(image: Image, tmp_path: Path, small_disk: tuple[list[str], Path]) -> None:
    there, disk = small_disk
    (plugin := tmp_path / "filling.py").write_text(FILLING.format(ballast=f"{tmp_path}/disk/ballast"))
    levels = ("--profile", "smallest", "--set", "measure=idle")
    argv = ("run", "transport", *levels, "--vpn", str(plugin), "--out", f"{tmp_path}/disk/run")
    done = subprocess.run([*there, *VPNEVAL, *argv], capture_output=True, text=True, timeout=240)
    assert (disk / "ballast").stat().st_size > 10_000
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"the disk of {tmp_path}/disk/run is full" in done.stderr
    assert "Traceback" not in done.stderr
    kept = load_run(disk / "run")[1] if (disk / "run" / "trials.jsonl").exists() else []
    assert not [trial for trial in kept if trial.status == "failed"]


@pytest.mark.smoke
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


@pytest.mark.parametrize(
    "when", ["before the first trial", pytest.param("while it is measured", marks=pytest.mark.smoke)]
)
def test_a_run_folder_that_somebody_removes(image: Image, tmp_path: Path, when: str) -> None:
    out = tmp_path / "run"
    process = start(out, *SMALL)
    try:
        ready = measuring if when == "while it is measured" else lambda out: (out / ".lock").exists()
        until(process, lambda: ready(out), when)
        shutil.rmtree(out.rename(tmp_path / "removed"))  # in one step, so that nothing new stands in its way
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


@pytest.mark.smoke
def test_the_hosts_root_says_what_it_lacks(tmp_path: Path) -> None:
    done = vpneval(
        "run", "reference", "--profile", "smallest", "--image", "host", "--vpn", "wireguard_go", "--out", tmp_path / "r"
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 3:
        assert "apt-get install" in done.stderr
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


@pytest.mark.smoke
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


def test_a_folder_that_becomes_read_only_in_the_middle_stops_the_run(
    interrupted: tuple[subprocess.Popen[str], Path],
) -> None:
    process, out = interrupted
    kept = lines(out)
    done = subprocess.run(["chattr", "-R", "+i", out], capture_output=True, text=True, check=False)
    try:
        if done.returncode:
            pytest.skip(f"no file can be made immutable here: {done.stderr.strip()[-200:]}")
        said, errors = process.communicate(timeout=120)
    finally:
        subprocess.run(["chattr", "-R", "-i", out], capture_output=True, check=False)
    assert process.returncode == 4, said + errors
    assert "make it writable" in errors
    assert f"--out {out}" in errors
    assert "Traceback" not in errors
    assert {trial.status for trial in load_run(out)[1]} <= {"ok", "interrupted", "lab_error"}
    complete(out, kept)
