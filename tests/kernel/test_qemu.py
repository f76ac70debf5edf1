"""``--kernel qemu``: Debian's own kernel, with WireGuard in it. Minutes in software emulation, so not in `.ci/run`."""

import os
from pathlib import Path

import pytest

from runner import kernels
from runner.errors import CannotRunHere
from runner.image import open_image
from runner.kernels.boot import run_in
from runner.lab import check_machine
from runner.store import load_run
from tests.kernel.test_uml import KERNEL_LINES, vpneval

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def qemu() -> kernels.Qemu:
    guest = kernels.Qemu("trixie")
    try:
        check_machine()
        guest.prepare(print)
        open_image(say=print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    return guest


def test_exit_code_output_and_files_of_any_command(
    qemu: kernels.Qemu, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "open").mkdir()
    script = f"uname -r > {tmp_path}/open/kernel; modprobe wireguard && echo to stderr >&2; touch {tmp_path}/no; exit 7"
    assert run_in(qemu, ["sh", "-c", script], folders=[tmp_path / "open"], console_log=tmp_path / "console") == 7
    out, said = capfd.readouterr()
    assert out == ""
    assert said.startswith("to stderr\n")
    assert "Read-only file system" in said
    release = (tmp_path / "open" / "kernel").read_text().strip()
    assert release == qemu.image.name.removeprefix("vmlinuz-") != os.uname().release


def test_wireguard_of_the_kernel_is_up_proven_and_measured(qemu: kernels.Qemu, tmp_path: Path) -> None:
    out = tmp_path / "run"
    smallest = ("--profile", "smallest", "--kernel", "qemu:trixie")
    done = vpneval("run", "reference", *smallest, "--vpn", "wireguard", "--out", out, timeout=1700)
    assert done.returncode == 0, done.stderr
    assert not KERNEL_LINES.search(done.stderr), done.stderr
    run, trials = load_run(out)
    assert run.lab["guest"] in ("qemu-kvm", "qemu-tcg")
    assert run.lab["kernel"] == qemu.image.name.removeprefix("vmlinuz-")
    (trial,) = [trial for trial in trials if trial.vpn == "wireguard"]
    assert trial.status == "ok", trial.reason
    assert trial.evidence is not None
    assert trial.evidence.data_path == "kernel: wireguard"
    assert trial.encrypted
