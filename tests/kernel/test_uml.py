"""``--kernel uml``: real guests, real strongSwan in their kernel; exit codes, output, and ends by signal."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from runner.data.errors import LabError
from runner.data.store import load_run
from runner.data.trials import Trial
from runner.lab import kernels
from runner.lab.kernels.boot import Attempt, run_in
from runner.lab.node import wait_until
from runner.stages.guests import CONSOLE_LOG
from tests.kernel.inside import Work
from tests.kernel.work import KERNEL_VPNS, OLD_CIPHERS, SMALLEST
from tests.lab.commands import lines
from tests.lab.conftest import descendants, running

VPNEVAL = [sys.executable, "-m", "runner"]
AT_WORK = ("run", "transport", *SMALLEST, "--vpn", "wireguard_go", "--out")
# What a kernel says on its console, the guest's as well as the emulator's own.
KERNEL_LINES = re.compile(r"SELinux|hostfs|Core dump limits|Checking |mmapper|Kernel panic|reboot: |\[ *\d+\.\d+\]")

pytestmark = pytest.mark.timeout(1200)


def vpneval(*argv: object, timeout: float = 1190) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*VPNEVAL, *map(str, argv)], capture_output=True, text=True, timeout=timeout)


def all_gone(processes: set[int]) -> None:
    """Wait until the kernel has ended all that was a guest: it does so by itself, but on a busy machine not at once."""
    wait_until(lambda: not running(processes), "every process of the guest gone", 20)


def trials(folder: Path, vpn: str) -> list[Trial]:
    return [trial for trial in load_run(folder)[1] if trial.vpn == vpn]


@pytest.fixture(scope="module")
def measured(begun: dict[str, Work]) -> tuple[Path, str]:
    """One run of the kernel's VPNs beside one that fails, and what it said on standard error."""
    done = begun["measured"].done()
    assert done.returncode == 1, f"a failed trial's exit code, carried out of the guest: {done.stderr}"
    assert json.loads(done.stdout)["trials"]["failed"] == 1, "--json prints JSON and nothing else"
    return begun["measured"].folder, done.stderr


@pytest.fixture(scope="module")
def ciphers(begun: dict[str, Work]) -> Work:
    return begun["ciphers"]


@pytest.fixture(scope="module")
def doctor(begun: dict[str, Work]) -> Work:
    return begun["doctor"]


@pytest.mark.smoke
@pytest.mark.parametrize("vpn", KERNEL_VPNS)
def test_a_vpn_of_the_kernel_is_up_proven_and_measured(measured: tuple[Path, str], vpn: str) -> None:
    (trial,) = trials(measured[0], vpn)
    assert trial.status == "ok", trial.reason
    assert trial.evidence is not None
    assert trial.evidence.data_path == KERNEL_VPNS[vpn]
    assert trial.encrypted
    (throughput,) = [found.value for found in trial.measurements if found.metric == "tcp_throughput"]
    assert throughput > 1e6
    plain = [trial.proof for trial in trials(measured[0], "none")]
    assert plain
    assert all(proof is not None and proof.marker_on_wan for proof in plain), "positive control"


@pytest.mark.smoke
def test_the_run_knows_its_kernel_and_says_nothing_of_its_console(measured: tuple[Path, str]) -> None:
    folder, said = measured
    run, _ = load_run(folder)
    assert run.lab["guest"] == "uml"
    assert run.lab["kernel"] != os.uname().release
    assert "--kernel" in run.invocations[-1].command_line
    assert "fails" in said, "the failed trial is told of"
    assert not KERNEL_LINES.search(said), said
    assert KERNEL_LINES.search((folder / CONSOLE_LOG).read_text()), "positive control: the console's log has them"


def test_old_ciphers_with_ipcomp(ciphers: Work) -> None:
    done = ciphers.done()
    assert done.returncode == 0, done.stderr
    found = {trial.params["cipher"]: trial for trial in trials(ciphers.folder, "ipsec")}
    assert set(found) == set(OLD_CIPHERS)
    for cipher, trial in found.items():
        assert trial.status == "ok", f"{cipher}: {trial.reason}"
        assert trial.evidence is not None
        assert trial.evidence.compression == "on"
        assert trial.encrypted == (cipher != "null")


class Terminal:
    """A vpneval run whose standard output and error are a terminal of 40 rows and 111 columns."""

    def __init__(self, *argv: object) -> None:
        self.master, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 111, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        self.process = subprocess.Popen(
            [*VPNEVAL, *map(str, argv)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm"},
        )
        os.close(theirs)
        os.set_blocking(self.master, False)
        self._said = b""

    def said(self) -> str:
        try:
            while data := os.read(self.master, 65536):
                self._said += data
        except OSError:  # nothing more now, or the last one who had it open is gone
            pass
        return self._said.decode(errors="replace")

    def ends(self) -> bool:
        self.said()
        return self.process.poll() is not None


@dataclass
class Interrupted:
    """A run in a terminal that Ctrl-C has ended after its first trial."""

    folder: Path
    code: int
    said: str
    kept: list[str]  # the lines of trials.jsonl just before
    left_over: set[int]


@pytest.fixture(scope="module")
def interrupted(uml: kernels.Uml, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    out = tmp_path_factory.mktemp("interrupted") / "run"
    terminal = Terminal(*AT_WORK, out)
    try:
        wait_until(lambda: len(lines(out)) >= 1 or terminal.ends(), "a trial", 400)
        kept = lines(out)
        children = descendants(terminal.process.pid)
        assert emulator(terminal.process.pid) in children, terminal.said()
        terminal.process.send_signal(signal.SIGINT)
        wait_until(terminal.ends, "the end", 90)
        with suppress(TimeoutError):
            all_gone(children)
        return Interrupted(out, terminal.process.returncode, terminal.said(), kept, running(children))
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)


def test_the_display_lives_and_ctrl_c_loses_nothing(interrupted: Interrupted) -> None:
    said = interrupted.said
    assert interrupted.code == 130, said
    assert "\x1b[" in said, "the display is drawn in place"
    assert "trials ·" in said, "and is the run's own"
    assert not KERNEL_LINES.search(said), said
    assert interrupted.kept
    assert lines(interrupted.folder)[: len(interrupted.kept)] == interrupted.kept
    run, _ = load_run(interrupted.folder)
    assert run.invocations[-1].outcome == "interrupted", "the guest's command has ended by itself"
    assert not interrupted.left_over


def test_a_folder_of_another_kernel_is_refused_inside_the_guest(interrupted: Interrupted, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(interrupted.folder, out)
    run = (out / "run.json").read_text()
    release = load_run(out)[0].lab["kernel"]
    assert f'"kernel": "{release}"' in run
    (out / "run.json").write_text(run.replace(f'"kernel": "{release}"', '"kernel": "6.99.0-other"'))
    done = vpneval(*AT_WORK, out)
    assert done.returncode == 2, done.stderr
    assert "was measured with kernel" in done.stderr
    assert "Traceback" not in done.stderr
    assert lines(out) == lines(interrupted.folder)


def measures_again(process: subprocess.Popen[str], out: Path, calls: int) -> bool:
    """Has the run at ``out`` been called more than ``calls`` times? Or has it ended, which it should not."""
    return len(load_run(out)[0].invocations) > calls or process.poll() is not None


@pytest.fixture(scope="module")
def going_on(
    interrupted: Interrupted, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[subprocess.Popen[str], Path]]]:
    """The interrupted run going on in new guests, two at once, the first trial being safe."""
    processes = []
    calls = len(load_run(interrupted.folder)[0].invocations)
    for name in ("one", "other"):
        out = tmp_path_factory.mktemp(name) / "run"
        shutil.copytree(interrupted.folder, out)
        argv = [*VPNEVAL, *AT_WORK, str(out)]
        processes.append((subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), out))
    for process, out in processes:
        wait_until(partial(measures_again, process, out, calls), "a guest at work", 300)
    yield list(processes)
    for process, _ in processes:
        process.kill()
        process.wait()


@pytest.fixture
def at_work(going_on: list[tuple[subprocess.Popen[str], Path]]) -> tuple[subprocess.Popen[str], Path]:
    """One of them, each for one test."""
    process, out = going_on.pop()
    assert process.poll() is None
    return process, out


def emulator(pid: int) -> int | None:
    """The PID of the User Mode Linux under ``pid``: of its processes the one that unshare(1) started."""

    def stat(process: int) -> tuple[str, int]:
        """Name and parent; of a process that has just gone, nothing."""
        try:
            fields = Path(f"/proc/{process}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "", 0
        return fields[fields.index("(") + 1 : fields.rindex(")")], int(fields.rpartition(")")[2].split()[1])

    seen = {child: stat(child) for child in descendants(pid)}
    found = [
        child
        for child, (name, parent) in seen.items()
        if name == "linux.uml" and seen.get(parent, ("", 0))[0] == "unshare"
    ]
    return found[0] if len(found) == 1 else None


def test_kill_9_leaves_nothing(at_work: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = at_work
    kept = lines(out)
    children = descendants(process.pid)
    assert emulator(process.pid) in children
    process.send_signal(signal.SIGKILL)
    process.wait()
    all_gone(children)
    assert lines(out)[: len(kept)] == kept


def test_a_guest_that_dies_in_the_middle(at_work: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = at_work
    kept = lines(out)
    children = descendants(process.pid)
    victim = emulator(process.pid)
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 4, said
    assert "guest kernel uml ended before the command did" in said
    assert f"--out {out}" in said
    assert "Traceback" not in said
    assert lines(out)[: len(kept)] == kept
    assert load_run(out)[0].invocations[-1].outcome.startswith("stopped: the guest kernel uml")
    all_gone(children)


@pytest.mark.smoke
def test_exit_codes_output_and_files_of_any_command(
    uml: kernels.Uml, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "open").mkdir()
    binary = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    script = f"""
        {sys.executable} -c '{binary}'
        echo to stderr >&2
        uname -r > {tmp_path}/open/kernel
        echo no > {tmp_path}/closed || echo closed >&2
        exit 7"""
    assert run_in(uml, ["sh", "-c", script], folders=[tmp_path / "open"]) == 7
    out, said = capfdbinary.readouterr()
    assert out == bytes(range(256)) * 1000
    assert said.startswith(b"to stderr\n")
    assert b"Read-only file system\nclosed\n" in said, "only the folders that were named can be written to"
    assert not (tmp_path / "closed").exists()
    assert (tmp_path / "open" / "kernel").read_text().strip() != os.uname().release
    assert run_in(uml, ["sh", "-c", "kill -9 $$"]) == 137


class Sluggish(kernels.Uml):
    """Does not boot in time, then does not boot at all, then boots."""

    def attempts(self, fd: int, folders: Sequence[Path]) -> Generator[Attempt, None, None]:
        yield Attempt("slow", ["sleep", "60"], 0.2, 1)
        yield Attempt("broken", ["sh", "-c", "echo no such kernel; exit 9"], 30, 1)
        yield from super().attempts(fd, folders)


def test_a_guest_that_does_not_boot_is_tried_again_and_says_why(uml: kernels.Uml) -> None:
    said: list[str] = []
    assert run_in(Sluggish(), ["sh", "-c", "exit 7"], say=said.append) == 7
    slow, broken = said
    assert slow.startswith("slow does not start here: not ready within 0.2 s (this machine's load: ")
    assert broken.startswith("broken does not start here: it ended after ")
    assert broken.endswith(" s with exit code 9")


def test_a_guest_that_powers_off_by_itself_says_so(uml: kernels.Uml, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="guest kernel uml ended before the command did"):
        run_in(uml, ["sh", "-c", "echo o > /proc/sysrq-trigger; sleep 20"], console_log=tmp_path / "console")
    assert (tmp_path / "console").read_text().strip()


def test_doctor_inside(doctor: Work) -> None:
    done = doctor.done()
    assert done.returncode == 0, done.stderr
    checks = {check["what"]: check for check in json.loads(done.stdout)}
    assert "this is uml" in checks["guest kernel"]["says"]
    for vpn in (*KERNEL_VPNS, "ipip"):
        assert checks[f"vpn {vpn} (comparable)"]["level"] == "ok", checks[f"vpn {vpn} (comparable)"]["says"]
    assert checks["vpn wireguard (comparable)"]["level"] == "warning", "UML 6.1 has no WireGuard"


@pytest.fixture(scope="module")
def both(begun: dict[str, Work]) -> Work:
    return begun["both"]


def test_what_the_hosts_kernel_lacks_is_a_second_ranking(both: Work) -> None:
    done, out = both.done(), both.folder
    assert done.returncode in (0, 1), done.stderr  # 1: on a busy machine, a UDP search may find nothing in its time
    (trial,) = trials(out / "host", "ipip")
    index = json.loads((out / "index.json").read_text())["runs"]
    if trial.status == "ok":
        assert [run["kernel"] for run in index] == ["host"], "nothing is lacking"
        pytest.skip("this machine's kernel has IPIP")
    assert [run["kernel"] for run in index] == ["host", "uml"]
    assert index[-1]["outcome"].startswith("complete"), "on the host there was plain IP alone"
    (found,) = [trial for trial in trials(out / "uml", "ipip") if trial.params["measure"] == "tcp"]
    assert found.status == "ok", found.reason
    assert found.evidence is not None
    assert found.evidence.data_path == "kernel: ipip"
    assert found.proof is not None
    assert found.proof.marker_on_wan
    assert not found.encrypted
    assert load_run(out / "host")[0].lab["kernel"] != load_run(out / "uml")[0].lab["kernel"]
    shown = json.loads(vpneval("report", out, "--format", "json").stdout)
    kernels_shown = [{fact["name"]: fact["value"] for fact in report["facts"]}["lab kernel"] for report in shown]
    assert kernels_shown == [load_run(out / name)[0].lab["kernel"] for name in ("host", "uml")]
