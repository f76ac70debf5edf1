"""A node on another machine: namespaces there, held through OpenSSH, with the machine's ports moved into them.

The node is as on this machine, with the other machine's own root under it. What it changes is therefore
in namespaces, and goes with them, but for one thing: the ports that were moved into it. The program that makes
the node (``runner/lab/probes/agent.py``) stays outside of it, and puts them back as they were when the node ends,
however it ends: the runner lets it go, the connection breaks, or the runner is silent for ``SILENCE_S``. It is the
watchdog.

The node's PID 1, which that program has forked, runs the commands: one process each, and no ssh session.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from runner.data.errors import LabError
from runner.lab import probes
from runner.lab.node import PATIENCE, Completed
from runner.lab.node.commands import TOO_MUCH, Dialogue
from runner.lab.node.held import HeldNode, command_line
from runner.lab.node.namespaces import NSENTER, kill_group
from runner.lab.places.agent import Agent, AgentGoneError, AgentProcess, RemoteCommand
from runner.lab.places.connection import Connection
from runner.lab.redaction import hide

SILENCE_S = 30  # a node that has not heard from its runner for so long ends
HEARTBEAT_S = 5
UNDO_WITHIN_S = 20.0 * PATIENCE
POLLS_REST = 4  # times as long as the command took
ANSWERS_WITHIN_S = 5.0 * PATIENCE

# Reads the agent's program from standard input, its length before it, and runs it: as an argument ps(1) would show it.
BOOT = """import os
def read(n):
    text = b""
    while len(text) < n and (more := os.read(0, n - len(text))): text += more
    return text
exec(read(int(read(8))), {"__name__": "agent"})"""


@dataclass(frozen=True)
class Lent:
    """A machine's ports that a node gets, and how they are made again what they were before. ``cable``, ``uncable``,
    ``network``: as the agent takes them, see ``runner/lab/probes/agent.py``."""

    ports: Mapping[str, str]  # the name in the lab -> the machine's own
    restore: str = ""
    restore6: str = ""
    sysctls: str = ""
    cable: str = ""
    uncable: str = ""
    network: str = ""


class SshNode(HeldNode):
    """A node of namespaces on another machine."""

    environment: Mapping[str, str] = (
        os.environ
    )  # ssh wants HOME and perhaps an agent; the command's own environment is fixed

    def __init__(
        self,
        name: str,
        connection: Connection,
        lent: Lent,
        log: Callable[[str], object] = lambda line: None,
        root: Path = Path("/"),
    ) -> None:
        """``root``: the folder on the machine that is below the node's own root."""
        self.connection, self.lent = connection, lent
        for lab_name, own in lent.ports.items():
            log(f"[{name}'s machine] ip link set dev {own} netns {name} name {lab_name}")
        super().__init__(name, log, self._hold(name, root))
        self.companions: Mapping[str, SshNode] = {}  # the lab's nodes: none is of use without the others
        self._culprit: SshNode | None = None  # the one of them that went first
        self._last: tuple[tuple[str, ...], float] = (), 0.0  # the last command, and the seconds that it took
        self._agent = Agent(self._holder, self.heard)
        self._released = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def _hold(self, name: str, root: Path) -> subprocess.Popen[str]:
        node = {"name": name, "root": str(root), "silence_s": SILENCE_S}
        holder = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *self.connection.argv("python3", "-IS", "-c", BOOT, json.dumps(node | vars(self.lent))),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert holder.stdin is not None
        program = probes.source("agent")
        if self.lent.network == "machine":
            program = probes.source("undo") + program
        with suppress(BrokenPipeError):  # wait_ready() says why
            holder.stdin.write(f"{len(program.encode()):8}{program}")
            holder.stdin.flush()
        return holder

    def wait_ready(self) -> None:
        """As Node.wait_ready."""
        super().wait_ready()
        self._agent.listen(self._abandon_lab)
        self._agent.answers(ANSWERS_WITHIN_S)  # so that what follows is compared with its clock

    def _abandon_lab(self) -> None:
        """The node has gone. If nobody released it, stop waiting for the commands on all nodes of the lab."""
        if not self._released.is_set():
            for node in (self, *self.companions.values()):
                node._culprit = node._culprit or self
                node._agent.abandon()

    def _beat(self) -> None:
        """Tell the node that its runner is there, until the node is released."""
        while not self._released.wait(HEARTBEAT_S):
            self._agent.beat()

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The local command that runs ``argv`` inside the node, in an ssh session of its own."""
        return self.connection.argv(*NSENTER, str(self.pid), *argv, tty=tty)

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """As Node.run. Raises LabError where the machine has failed, not the command."""
        self.log(f"[{self.name}] {command_line(argv)}")
        if argv == self._last[0]:
            # A poll. On a slow machine it would take the processor from what it waits for: most of the time is that's.
            time.sleep(POLLS_REST * self._last[1])
        started = time.monotonic()
        job = self._start(*argv, input=input)
        with ExitStack() as interrupted:
            interrupted.callback(self._agent.kill, job)
            in_time = job.ended.wait(timeout * PATIENCE)
            interrupted.pop_all()
        if not in_time:
            self._end(job)
        if job.code is None:
            raise self._gone_error()
        if job.too_much:
            raise self.command_error(argv, Completed(job.code, "", TOO_MUCH))
        self._last = argv, time.monotonic() - started
        done = Completed(job.code, job.text("out"), hide(job.text("err")))
        if not in_time:
            raise self.command_error(argv, replace(done, stdout=""), timeout * PATIENCE)
        if check and done.code != 0:
            raise self.command_error(argv, done)
        return done

    def talk(self, *argv: str) -> Dialogue:
        """As Node.talk, in an ssh session of its own."""
        pipe = subprocess.PIPE
        return Dialogue(
            subprocess.Popen(self.argv(*argv), stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True),
            self.name,
        )

    def end(self, process: Dialogue) -> None:
        """Kill such a session."""
        kill_group(process.process)

    def defer(self, *argv: str) -> None:
        """As Node.defer: in a node of its own network nothing; else the machine itself runs it when the node ends."""
        if self.lent.network == "machine":
            self._agent.defer(argv)

    @property
    def network_changes(self) -> Mapping[str, int]:
        """How much others have changed in the machine's network, by kind; known once the node has ended."""
        return self._agent.changed

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """As Node.write, by install(1)."""
        self.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, input=text)

    def cpu_s(self) -> None:
        """None: CPU time is not counted on another machine."""

    def cpu_times(self) -> None:
        """None: CPU time is not counted on another machine."""

    def spawn(self, *argv: str, log: str) -> AgentProcess:
        """As Node.spawn. Raises LabError too."""
        self.log(f"[{self.name}] {command_line(argv)} &")
        path = self.logs / f"{self.name}-{log}.log"
        process = AgentProcess(self._start(*argv, log=path), path, self._end)
        self.background.append(process)
        return process

    def _start(self, *argv: str, input: str | None = None, log: Path | None = None) -> RemoteCommand:
        try:
            return self._agent.start(*argv, input=input, log=log)
        except AgentGoneError as gone:
            raise self._gone_error() from gone

    def _end(self, job: RemoteCommand) -> None:
        """Kill a command that is running on the node, with what it started."""
        self._agent.kill(job)
        job.ended.wait(ANSWERS_WITHIN_S)

    def _gone_error(self) -> LabError:
        culprit = self._culprit or self
        if broken := culprit._agent.broken:
            return LabError(f"{culprit.whole_name} {broken}")
        why = culprit.connection.diagnose()
        gone = f"{culprit.whole_name} does not answer any more"
        return LabError(f"{gone} ({why})" if why else gone)

    @property
    def whole_name(self) -> str:
        """The node, and the address of its machine."""
        return f"{self.name} ({self.connection.machine.address})"

    def stood_still_s(self, *, ask: bool = True) -> float:
        """As LabNode.stood_still_s. A machine that does not answer yet is waited for as long as it may come back."""
        if ask:
            self._agent.answers(SILENCE_S)
        return self._agent.clock.stood_still_s

    def why_ended(self) -> str:
        """The sentence that says why the node has ended, as its machine reports it; empty while the node answers within
        ANSWERS_WITHIN_S."""
        if self._culprit is not None:
            return str(self._gone_error()) if self._culprit is self else ""
        return "" if self._agent.answers(ANSWERS_WITHIN_S) else str(self._gone_error())

    def release(self) -> None:
        """Let the node go."""
        self._released.set()
        self._agent.hang_up()

    def stop(self) -> None:
        """Let the node go and wait until the machine is as before. Raises LabError where that is not certain."""
        self.release()
        trouble = ""
        try:
            if code := self._holder.wait(UNDO_WITHIN_S):
                trouble = self._last_words()[-500:] or f"its connection ended with {code}"
        except subprocess.TimeoutExpired:
            kill_group(self._holder)
            self._holder.wait()
            trouble = f"no answer within {UNDO_WITHIN_S:g} s"
        self._agent.heard_all(ANSWERS_WITHIN_S)
        if trouble:
            raise LabError(
                f"{self.name} ({self.connection.machine.address}) did not confirm that its ports are restored: "
                f"{trouble}. A machine that is alive restores them by itself, within {SILENCE_S + 10} s"
            )
