"""Commands of vpneval that a test runs to their end, or beside itself until something has come."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.lab.node import wait_until

VPNEVAL = [sys.executable, "-m", "runner"]


def vpneval(*argv: object, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*VPNEVAL, *map(str, argv)], capture_output=True, text=True, timeout=timeout)


def lines(folder: Path) -> list[str]:
    """The trials on the disk; a line that is being written, which a guest does in pieces, is none yet."""
    path = folder / "trials.jsonl"
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def start(out: Path, *argv: object) -> subprocess.Popen[str]:
    """A run that goes on beside the test, in ``out``."""
    command = [*VPNEVAL, "run", *map(str, argv), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], condition: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
    """As wait_until; a run that has ended meanwhile fails the test at once, with its last words."""

    def seen() -> bool:
        if condition():
            return True
        if (code := process.poll()) is not None:
            pytest.fail(f"{what}: the run has ended with {code} before it: {''.join(process.communicate())[-2000:]}")
        return False

    wait_until(seen, what, deadline_s)


def measuring(out: Path) -> bool:
    """Is a run inside its first trial?"""
    return any("iperf3 --client" in path.read_text() for path in out.glob("logs/*/commands.log"))
