"""What a container's profile or a limit refuses is one sentence that says what and what to do, or is done otherwise."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab import machine
from runner.lab.places import rootless
from tests.refused import CALLS

FILE = """
import os
from runner.lab.node.commands import file_of
print(os.read(file_of("a key"), 99).decode())
try:
    os.memfd_create("x")
except OSError:
    print("refused")
"""
# The same of the agent, whose file is a program: its head, without what it does.
AGENTS = """
import os, runner.lab.probes
source = runner.lab.probes.source("agent").partition("\\nos.umask(")[0]
names = {"__name__": "agent"}
exec(source, names)
print(os.read(names["file_of"]("a key"), 99).decode())
"""
NEEDS = platform.machine() in CALLS and os.geteuid() == 0
pytestmark = pytest.mark.skipif(not NEEDS, reason="it needs root, and x86_64 or arm64")


def without(calls: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.refused", calls, *argv],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_file_in_memory_without_memfd_create() -> None:
    assert without("memfd_create", sys.executable, "-c", FILE).stdout.split("\n") == ["a key", "refused", ""]
    assert without("memfd_create", sys.executable, "-c", AGENTS).stdout == "a key\n"


def test_no_file_in_memory_at_all_is_a_sentence() -> None:
    argv = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$@"', "sh"]
    done = without("memfd_create", *argv, sys.executable, "-c", FILE)
    assert "CannotRunHere: this machine allows no file in memory (memfd_create: Operation not permitted" in done.stderr


def test_without_prlimit_a_lab_says_so_and_what_needs_none_works() -> None:
    vpneval = (sys.executable, "-P", "-m", "runner")
    shown = without("prlimit", *vpneval, "list", "vpns")
    assert shown.returncode == 0, shown.stderr
    refused = without("prlimit", *vpneval, "lab", "shell", "gw1", "-c", "true")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "vpneval: this machine does not let vpneval forbid core dumps (prlimit: " in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("kind", machine.NAMESPACES)
def test_which_limit_of_namespaces_is_reached(kind: str) -> None:
    program = "from runner.lab import machine; print(machine.advice('unshare: No space left on device'))"
    limit = f'echo 0 > /proc/sys/user/max_{kind}_namespaces; exec "$@"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh", sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert f"user.max_{kind}_namespaces is 0, and all are in use. Allow more" in done.stdout, done.stderr
    assert f"sysctl -w user.max_{kind}_namespaces=15000" in done.stdout


def test_a_disk_that_is_full_is_no_limit_of_namespaces() -> None:
    assert machine.advice("/mnt/upper: No space left on device") == ""


def test_a_limit_of_user_namespaces_that_is_reached(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("7\n")
    said = rootless.explain("unshare: unshare failed: No space left on device", tmp_path)
    assert said.startswith("user.max_user_namespaces is 7 here, and all are in use; allow more with: sudo sysctl")
