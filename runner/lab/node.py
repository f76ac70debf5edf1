"""A node: a machine of the lab, as plugins and measurements see it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C",
}
# Every deadline for something to happen on a node is multiplied by this; a slow guest kernel sets it.
PATIENCE = float(os.environ.get("VPNEVAL_PATIENCE", "1"))


@dataclass(frozen=True)
class Completed:
    """A command that has ended: its exit code and its output as text."""

    code: int
    stdout: str
    stderr: str


class Process(Protocol):
    """A command that runs in the background on a node, its output in a log file of the trial."""

    log: Path

    def alive(self) -> bool:
        """Is it still running?"""

    def stop(self) -> None:
        """End it now, with what it started."""

    def wait(self, timeout: float) -> int:
        """Its exit code. Raises TimeoutError after ``timeout`` seconds."""


class Node(Protocol):
    """What a plugin and a measurement may ask of a machine, whatever kind of machine it is."""

    name: str

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Run a command to its end. Raises CommandError on a non-zero exit (if ``check``) or a time-out (s)."""

    def spawn(self, *argv: str, log: str) -> Process:
        """Start a command in the background, its output in the trial's log file ``log``."""

    def logged(self, log: str) -> str:
        """What the command that was spawned with this ``log`` has said so far."""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file on the node, its folder made as needed. The content is never logged. Raises CommandError."""

    def defer(self, *argv: str) -> None:
        """Name the command that undoes a change, for a node that would not take its changes with it."""


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 15.0, pause_s: float = 0.02) -> None:
    """Poll ``condition`` until it holds; TimeoutError naming ``what`` after ``deadline_s`` × PATIENCE seconds."""
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {deadline_s:g} s")
        time.sleep(pause_s)
