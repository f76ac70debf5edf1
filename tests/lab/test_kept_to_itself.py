"""What vpneval makes is for nobody else to write, and a crash writes no core dump: keys are in it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL

OPEN = "umask 0; ulimit -Hc unlimited; ulimit -Sc unlimited; "
CRASH = "cd /tmp; ulimit -c; sh -c 'kill -SEGV $$'; ls"
PROGRAM = "import sys; from runner.cli.main import keep_to_itself; {}; exec(sys.argv[1])"
DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE


def writable_by_others(folder: Path) -> list[Path]:
    paths = [folder, *folder.rglob("*")]
    return [path for path in paths if not path.is_symlink() and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)]


@pytest.mark.smoke
def test_whatever_the_umask_is_nobody_else_may_write(image: Image, tmp_path: Path) -> None:
    out, cache = tmp_path / "a" / "b" / "tunnel", tmp_path / "cache"
    command = [*VPNEVAL, "recipe", "wireguard_go", "--write", str(out)]
    subprocess.run(["bash", "-c", f'{OPEN}exec "$@"', "bash", *command], check=True, capture_output=True, timeout=120)
    report = [*VPNEVAL, "report", "results/examples", "--format", "html"]
    own = {**os.environ, "VPNEVAL_CACHE": str(cache)}
    shown = ["bash", "-c", f'{OPEN}exec "$@"', "bash", *report]
    subprocess.run(shown, check=True, capture_output=True, timeout=120, env=own)
    assert list(cache.glob("vega-*.js"))
    assert not writable_by_others(tmp_path / "a")
    assert not writable_by_others(cache)
    subprocess.run(["bash", "-c", f"{OPEN}mkdir {tmp_path}/open"], check=True)
    assert writable_by_others(tmp_path / "open"), "the control"


@pytest.mark.smoke
def test_a_daemon_that_crashes_leaves_no_core_dump(lab: Lab) -> None:
    """Its control: what crashes with the limits that it was started with leaves one, where the kernel's pattern is a
    file in the folder."""
    assert lab.nodes["gw1"].run("bash", "-c", CRASH, check=False).stdout.split() == ["0"]


@pytest.mark.smoke
@pytest.mark.parametrize("kept", [True, False])
def test_the_process_that_has_the_keys_is_not_dumped(kept: bool, tmp_path: Path) -> None:
    program = PROGRAM.format("keep_to_itself()" if kept else "pass")
    argv = ["bash", "-c", f'{OPEN}cd {tmp_path}; exec "$@"', "bash", sys.executable, "-c", program]
    own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    asked = subprocess.run([*argv, DUMPABLE], capture_output=True, text=True, env=own, timeout=60)
    assert asked.stdout.strip() == ("0" if kept else "1"), asked.stderr
    subprocess.run([*argv, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"], env=own, timeout=60)
    if Path("/proc/sys/kernel/core_pattern").read_text()[0] not in "|/":
        assert bool(list(tmp_path.glob("*core*"))) is not kept
