"""A node: a machine of the lab, as plugins and measurements see it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.lab.node.commands import Dialogue
from runner.lab.node.groups import GroupSpent

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


class Runs(Protocol):
    """A machine that runs commands, and is asked for nothing else."""

    name: str

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Run a command to its end. Raises CommandError on a non-zero exit (if ``check``) or a time-out (s)."""


class Node(Runs, Protocol):
    """What a plugin may ask of a machine, whatever kind of machine it is."""

    def spawn(self, *argv: str, log: str) -> Process:
        """Start a command in the background, its output in the trial's log file ``log``."""

    def read_log(self, log: str) -> str:
        """The output so far of the command that was spawned with this ``log``."""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file on the node, its folder made as needed. The content is never logged. Raises CommandError."""

    def defer(self, *argv: str) -> None:
        """Name the command that undoes a change, before the change is made: on somebody's gateway nothing else is taken
        back. A deferred ``sysctl`` gives back the value that is there now."""


class LabNode(Node, Protocol):
    """A node of a lab, whatever kind of machine it is: what the lab and the instruments ask of it as well."""

    pid: int  # of the process that holds the node, on the machine that it is on
    log: Callable[[str], object]  # gets every command, without secrets
    environment: Mapping[str, str]  # of the commands
    days: int  # how long certificates that are made there are valid; 0: as plugins have it
    lasts_s: int  # the same of gateways' certificates that a test wants to expire; 0: as ``days`` says
    has_ca: bool  # the CA of an earlier time is there, to sign again
    background: list[Process]  # what ``spawn`` has started
    makes_keys: bool  # commands there may print new keys, so errors omit their output

    @property
    def logs(self) -> Path:
        """The folder of the logs of what is started here. Raises RuntimeError before ``log_to`` has named one."""

    def log_to(self, folder: Path) -> None:
        """Send the logs of what is started from now on to ``folder``."""

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The runner's own command that runs ``argv`` on the node; ``tty``: somebody will type into it."""

    def talk(self, *argv: str) -> Dialogue:
        """Start a command whose standard streams are pipes of the runner's: for a dialogue with a probe."""

    def end(self, process: Any) -> None:
        """Kill what ``talk`` has started, with what that has started, and wait until all has gone."""

    def ended_commands(self) -> dict[str, str]:
        """The background commands that have ended by themselves: the name of the log -> how, in words."""

    def cpu_s(self) -> float | None:
        """CPU seconds so far, user and system, of all processes of the node; None where they are not counted."""

    def cpu_times(self) -> GroupSpent | None:
        """The same CPU seconds, divided into user mode and kernel."""

    def stood_still_s(self, *, ask: bool = True) -> float:
        """Seconds so far in which its machine, if that is another one, stood still; without ``ask``: as far as is
        known."""

    def wait_ready(self) -> None:
        """Wait until the node can be used. Raises LabError, and CannotRunHere where its machine does not allow it."""

    def why_ended(self) -> str:
        """The sentence that says why the node has ended; empty while it is there."""

    def release(self) -> None:
        """Let the node go, without waiting for it."""

    def stop(self) -> None:
        """Let the node go, and wait until it is gone."""


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 15.0, pause_s: float = 0.02) -> None:
    """Poll ``condition`` until it holds; TimeoutError naming ``what`` after ``deadline_s`` × PATIENCE seconds."""
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"gave up after {deadline_s:g} s: no sign of {what}")
        time.sleep(pause_s)


@contextmanager
def told_late(say: Callable[[str], object], text: str, after_s: float) -> Iterator[None]:
    """Tell ``say`` the ``text`` where the block is still at work after ``after_s`` seconds."""
    late = threading.Timer(after_s, say, [text])
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
