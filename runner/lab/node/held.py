"""What every kind of node has in common: a process holds the node until its input ends, and the trial has the node's
logs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runner.data.errors import CannotRunHere, CommandError, LabError
from runner.lab import machine
from runner.lab.node import ENVIRONMENT, PATIENCE, Completed, Process
from runner.lab.node.lines import CHUNK, Lines, UnheardError, readable
from runner.lab.node.logs import log_text
from runner.lab.redaction import hide

READY_WITHIN_S = 60.0 * PATIENCE  # a node that is made
LAST_WORDS_S = 5.0


class HeldNode:
    """A node that a process holds. Each subclass has its own way to run commands."""

    environment: Mapping[str, str] = ENVIRONMENT  # of the commands
    days = 0  # how long certificates that are made there are valid; 0: as plugins have it
    lasts_s = 0  # the same of gateways' certificates that a test wants to expire
    has_ca = False  # the CA of an earlier time is there, to sign again
    makes_keys = False  # commands here may print new keys, so errors omit their output

    def __init__(self, name: str, log: Callable[[str], object], holder: subprocess.Popen[str]) -> None:
        self.name, self.log, self.pid = name, log, 0
        self._logs: Path | None = None  # set for each trial, see log_to()
        self.background: list[Process] = []
        assert holder.stdout is not None
        self._holder, self.heard = holder, Lines(holder.stdout.fileno(), self.whole_name)

    def wait_ready(self) -> None:
        """Wait until the node has its root and says so. Raises LabError with the kernel's reason, or where the node is
        not there within READY_WITHIN_S; CannotRunHere where this machine does not allow it."""
        try:
            answer = self.heard.next(READY_WITHIN_S).decode(errors="replace").strip()
        except UnheardError as unheard:
            if unheard.why == "late":
                self._holder.kill()
                raise LabError(f"{self.whole_name} did not come up within {READY_WITHIN_S:g} s") from None
            answer = "" if unheard.why == "ended" else "a line without an end"
        if not re.fullmatch(r"[0-9]{1,10}", answer):
            reason = self._last_words() or f"it says {answer[:80]!r}, exit code {self._holder.returncode}"
            if advice := machine.advice(reason):
                raise CannotRunHere(advice)
            raise LabError(f"{self.whole_name} did not come up: {reason}")
        self.pid = int(answer)

    @property
    def whole_name(self) -> str:
        """The node as a sentence names it."""
        return f"node {self.name}"

    def _last_words(self) -> str:
        """What the process that holds the node says at its end, which it is brought to, if it does not end by
        itself."""
        assert self._holder.stderr is not None
        try:
            self._holder.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()
        pipe = self._holder.stderr.fileno()
        return os.read(pipe, CHUNK).decode(errors="replace").strip() if readable([pipe], LAST_WORDS_S) else ""

    @property
    def logs(self) -> Path:
        """The folder of the logs of what is started here. Raises RuntimeError before ``log_to`` has named one: the lab
        works, and the caller, perhaps a plugin, has made a mistake."""
        if self._logs is None:
            raise RuntimeError(f"the node {self.name} has no folder for logs: name one with log_to() before spawn()")
        return self._logs

    def log_to(self, folder: Path) -> None:
        """Send the logs of what is started from now on to ``folder``."""
        self._logs = folder

    def command_error(self, argv: Sequence[str], done: Completed, timeout_s: float = 0) -> CommandError:
        """The error of a command that failed, without secrets. With ``timeout_s``: it did not end within this time."""
        code = None if timeout_s else done.code
        if self.makes_keys:
            return CommandError(self.name, argv[:1], code, done.stderr, timeout_s)
        return CommandError(self.name, [hide(word) for word in argv], code, hide(done.stderr or done.stdout), timeout_s)

    def ended_commands(self) -> dict[str, str]:
        """The background commands that have ended by themselves: the name of the log -> how, in words."""
        over = [process for process in self.background if not process.alive()]
        return {process.log.stem.removeprefix(f"{self.name}-"): how_it_ended(process.wait(1)) for process in over}

    def read_log(self, log: str) -> str:
        """The output so far of the command that was spawned with this ``log``."""
        return log_text(self.logs / f"{self.name}-{log}.log")

    def stood_still_s(self, *, ask: bool = True) -> float:
        """Always 0: the node is on the runner's machine, whose pauses are watched once for all nodes."""
        return 0.0

    def defer(self, *argv: str) -> None:
        """Do nothing: a change in this node is gone when the node is."""


def how_it_ended(code: int) -> str:
    """An exit code in words; a negative one is a signal's number."""
    return f"exit status {code}" if code >= 0 else f"signal {-code}"


def command_line(argv: Sequence[str]) -> str:
    """``argv`` as a user would type it, without secrets."""
    return shlex.join(hide(word) for word in argv)
