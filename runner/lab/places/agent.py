"""The runner's end of a node on another machine: its commands travel as lines to the agent there.

The agent (``runner/lab/probes/agent.py``, where the lines are described) is the node's PID 1. So a command is one
process in the node. Through ssh it would be a session, a login shell, nsenter and the command: 10 times as much work,
which in an emulated VM is half a second of processor time.
"""

from __future__ import annotations

import io
import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from runner.lab.node import PATIENCE
from runner.lab.node.commands import KILLED, MOST_BYTES
from runner.lab.node.lines import Lines, UnheardError, put
from runner.lab.node.logs import LogFile
from runner.lab.readings.pauses import FarClock, boottime


def _latin_1(text: str) -> str:
    """The text, if each of its characters is a byte. Raises ValueError."""
    text.encode("latin-1")
    return text


TAKES_WITHIN_S = 30.0 * PATIENCE  # a line that is sent to it


class AgentGoneError(Exception):
    """The agent does not answer any more."""


class AgentAnswer(BaseModel):
    """A line of the agent's. It has what a command says, as Latin-1 text, or its exit code, or both; its clock, for a
    ping; or, at the end, what others have ``changed`` on the machine: kind -> how many."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: int = 0  # of a command; those count from 1
    changed: dict[str, Annotated[int, Field(ge=0)]] | None = None
    out: Annotated[str, AfterValidator(_latin_1)] = ""
    err: Annotated[str, AfterValidator(_latin_1)] = ""
    code: int | None = None
    awake_s: FiniteFloat | None = None


@dataclass
class RemoteCommand:
    """A command on the node: its output so far, and its exit code once ``ended`` is set."""

    number: int
    log: Path | None = None  # the file that gets all it says
    logs: dict[str, LogFile] = field(default_factory=dict)  # that file, for each of its streams
    # Without a log:
    said: dict[str, bytearray] = field(default_factory=lambda: {"out": bytearray(), "err": bytearray()})
    code: int | None = None  # None also where the agent went first
    awake_s: float | None = None  # the agent's clock, of a ping
    too_much: bool = False  # it has said more than MOST_BYTES, and was ended
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        if self.log is not None:
            self.logs = {stream: LogFile(self.log) for stream in self.said}

    def text(self, stream: str) -> str:
        """The output on that stream, with the newlines that Python's text mode makes."""
        return io.TextIOWrapper(io.BytesIO(self.said[stream]), "utf-8", "replace").read()


class Agent:
    """The agent of one node, spoken to through the process that holds the node. Every call is thread-safe."""

    def __init__(self, holder: subprocess.Popen[str], heard: Lines) -> None:
        """``heard``: what comes from it, whose first line has been read."""
        self._holder, self._heard = holder, heard
        self._jobs: dict[int, RemoteCommand] = {}  # those that run, and those with a log
        self._lock = threading.Lock()
        self._gone = False
        self._started = 0
        self._listener: threading.Thread | None = None
        self.broken = ""  # what it did that no agent does, as a clause
        self.changed: dict[str, int] = {}  # by others, as the undo counts it at the end: kind -> how many
        self.clock = FarClock()

    def listen(self, lost: Callable[[], None]) -> None:
        """Begin to read the agent's answers; the node must be ready. ``lost`` is called when the agent has gone, or
        says what no agent says (``broken``)."""
        self._listener = threading.Thread(target=self._listen, args=(lost,), daemon=True)
        self._listener.start()

    def start(self, *argv: str, input: str | None = None, log: Path | None = None) -> RemoteCommand:
        """Start a command, with ``input`` to read; ``log`` gets its output. Raises AgentGoneError."""
        return self._ask(log, argv=argv, input=input)

    def kill(self, job: RemoteCommand) -> None:
        """End a command, with its process group. Returns at once."""
        if not job.ended.is_set():
            self._kill(job.number)

    def answers(self, within_s: float) -> bool:
        """Does the agent answer within this time? If so, its clock is looked at."""
        asked_s = boottime()
        try:
            job = self._ask(None, ping=True)
        except AgentGoneError:
            return False
        if not job.ended.wait(within_s) or job.code != 0:
            return False
        if job.awake_s is not None:
            self.clock.saw(asked_s, job.awake_s, boottime())
        return True

    def defer(self, argv: Sequence[str]) -> None:
        """Name the command that takes back what the next command makes in the machine's network. Returns at once."""
        with self._lock:
            self._started += 1
        with suppress(AgentGoneError):  # whoever makes the change is told
            self._send(json.dumps({"id": self._started, "defer": argv}))

    def beat(self) -> None:
        """Tell the agent that the runner is there."""
        with suppress(AgentGoneError):
            self._send("")

    def abandon(self) -> None:
        """Wait for no more answers: the running commands end without an exit code."""
        with self._lock:
            self._gone = True
            left = list(self._jobs.values())
        for job in left:
            for log in job.logs.values():
                log.flush()
            job.ended.set()

    def heard_all(self, within_s: float) -> None:
        """Wait until everything is read that the agent, and the undo after it, have said."""
        if self._listener is not None:
            self._listener.join(within_s)

    def hang_up(self) -> None:
        """Close the line to the agent: its node ends."""
        assert self._holder.stdin is not None
        with self._lock, suppress(OSError):
            self._holder.stdin.close()

    def _ask(self, log: Path | None, **request: Any) -> RemoteCommand:
        with self._lock:
            self._started += 1
            job = self._jobs[self._started] = RemoteCommand(self._started, log=log)
        self._send(json.dumps({"id": job.number, **request}))
        return job

    def _send(self, line: str) -> None:
        assert self._holder.stdin is not None
        try:
            with self._lock:
                if self._gone:
                    raise AgentGoneError
                self._put((line + "\n").encode(), self._holder.stdin.fileno())
        except (OSError, ValueError) as closed:  # ValueError: the node has been let go meanwhile
            raise AgentGoneError from closed

    def _kill(self, number: int) -> None:
        with suppress(AgentGoneError):
            self._send(json.dumps({"id": number, "kill": True}))

    def _put(self, data: bytes, pipe: int) -> None:
        """Write all of it. Raises AgentGoneError where the machine takes nothing for too long."""
        try:
            put(pipe, data, TAKES_WITHIN_S)
        except TimeoutError as stalled:
            self._gone, self.broken = True, f"takes nothing that is sent to it, for {TAKES_WITHIN_S:g} s"
            raise AgentGoneError from stalled

    def _listen(self, lost: Callable[[], None]) -> None:
        """Hear every answer. After one that is none, hear no more: the machine is told so by a closed pipe."""
        assert self._holder.stdout is not None
        line = b""
        try:
            while True:
                line = self._heard.next(None)
                self._hear(AgentAnswer.model_validate_json(line))
        except UnheardError as unheard:
            if unheard.why == "endless":
                self.broken = str(unheard).removeprefix(f"{self._heard.who} ") + ", which no agent does"
        except (ValidationError, KeyError):
            self.broken = f"answers {line[:80].decode(errors='replace')!r}, which is no agent's answer"
        self._holder.stdout.close()
        self.abandon()
        lost()

    def _hear(self, answer: AgentAnswer) -> None:
        if answer.changed is not None:
            self.changed = answer.changed
            return
        if (job := self._jobs.get(answer.id)) is None:
            if not 0 < answer.id <= self._started:
                raise KeyError(answer.id)
            return  # the children of one that has ended still say something
        for stream, text in (("out", answer.out), ("err", answer.err)):
            if stream in job.logs:
                job.logs[stream].write(text.encode("latin-1"))
            else:
                job.said[stream] += text.encode("latin-1")
        if sum(map(len, job.said.values())) > MOST_BYTES:
            self._silence(job)
        elif answer.code is not None:
            for log in job.logs.values():
                log.flush()
            job.code, job.awake_s = answer.code, answer.awake_s
            if not job.logs:  # of a daemon, what its children say is logged
                del self._jobs[job.number]
            job.ended.set()

    def _silence(self, job: RemoteCommand) -> None:
        """End a command that says too much, and keep nothing of it. From another thread: the machine may take nothing
        while nobody hears it."""
        job.too_much, job.code = True, KILLED
        job.said = {stream: bytearray() for stream in job.said}
        del self._jobs[job.number]
        threading.Thread(target=self._kill, args=(job.number,), daemon=True).start()
        job.ended.set()


class AgentProcess:
    """A background command of a node on another machine, a ``Process``."""

    def __init__(self, job: RemoteCommand, log: Path, kill: Callable[[RemoteCommand], None]) -> None:
        self._job, self.log, self._kill = job, log, kill

    def alive(self) -> bool:
        """Is the command still running, as far as the agent has reported?"""
        return not self._job.ended.is_set()

    def stop(self) -> None:
        """End the command now, with what it started."""
        self._kill(self._job)

    def wait(self, timeout: float) -> int:
        """Its exit code, 255 where the node went first. Raises TimeoutError after ``timeout`` seconds."""
        if not self._job.ended.wait(timeout):
            raise TimeoutError(f"still running after {timeout:g} s")
        return 255 if self._job.code is None else self._job.code
