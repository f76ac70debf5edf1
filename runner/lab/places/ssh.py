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
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.data.errors import CannotRunHere, LabError
from runner.lab import probes
from runner.lab.node import ENVIRONMENT, PATIENCE, Completed
from runner.lab.node.answers import own_words
from runner.lab.node.commands import TOO_MUCH, Dialogue, SaidTooMuch, outputs
from runner.lab.node.held import HeldNode, shown
from runner.lab.node.namespaces import NSENTER, kill_group
from runner.lab.places import keys
from runner.lab.places.agent import Agent, AgentGoneError, AgentProcess, RemoteCommand
from runner.lab.places.inventory import MachineEntry
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

TELLS = ("-o", "LogLevel=INFO")  # whatever a configuration says: QUIET would hide why it fails
OLDEST_PYTHON = (3, 10)  # on the other machines: mypy checks the probes by it (tests/unit/lab/test_probes_python.py)
APART_S = 60.0  # clocks; what is made here is valid from now on
MARK = "vpneval-begins"
INTRODUCTION = f"""echo "{MARK}$(id -u -n)|$(date +%s)|$(python3 -c 'import sys; print(*sys.version_info[:2])')\""""


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


class Connection:
    """One OpenSSH connection, on which every command to the machine travels (ssh_config(5) ControlMaster)."""

    def __init__(self, name: str, machine: MachineEntry, folder: Path) -> None:
        """Start to connect; ``folder`` is private to the run. The connection goes with the runner."""
        self.name, self.machine = name, machine
        self.sudo: tuple[str, ...] = ()
        self.diagnose: Callable[[], str] = lambda: ""  # why it may not answer, where somebody knows
        self._socket, self._said = folder / name, folder / f"{name}.log"
        self._options = [
            *machine.options_of_ssh(),
            *("-o", f"ControlPath={self._socket}", "-o", "ControlPersist=no", "-o", "BatchMode=yes"),
            *(
                "-o",
                "RequestTTY=no",
                "-o",
                "RemoteCommand=none",
                "-o",
                "ForwardAgent=no",
                "-o",
                "ForwardX11=no",
                "-o",
                "ClearAllForwardings=yes",
            ),
        ]
        with self._said.open("wb") as log_file:
            self._master = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "ssh", *TELLS, *self._options, "-o", "ControlMaster=yes", "-N"),
                    *("-o", "ConnectTimeout=10"),
                    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6"),
                    machine.address,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log_file,
                start_new_session=True,
            )

    def wait_ready(self, *, as_root: bool = True) -> None:
        """Wait until ssh has logged in and may become root; unless ``as_root``, it then stays whoever it is. Raises
        CannotRunHere with ssh's or sudo's own words."""
        end = time.monotonic() + 20 * PATIENCE
        if lack := keys.missing(self.machine):
            self.close()
            raise CannotRunHere(f"{self.name}: {lack}")
        while not self._socket.exists():
            if self._master.poll() is not None or time.monotonic() > end:
                self.close()
                words = [*self.machine.options_of_ssh(), self.machine.address]
                why = keys.trouble(words, self._said.read_text(errors="replace"))
                hint = why or f"Try: {shlex.join(['ssh', *TELLS, *words])} true"
                raise CannotRunHere(f"{self.name} cannot be reached: {self.said()}. {hint}")
            time.sleep(0.02)
        user = self._introduction()
        if user != "root":
            self.sudo = ("sudo", "-n")
            done = self.run("true")
            if done.code != 0 and not as_root:
                self.sudo = ()
            elif done.code != 0:
                allow = [f"{user} ALL=(ALL) NOPASSWD: ALL"]
                if re.search(r"\btty\b", done.stderr, re.IGNORECASE):  # sudoers(5), requiretty
                    allow.append(f"Defaults:{user} !requiretty")
                raise CannotRunHere(
                    f"{self.name}: {user} may not become root: {own_words(done.stderr)}. Allow it there, as root: "
                    f"printf '%s\\n' {shlex.join(allow)} > /etc/sudoers.d/vpneval (and: apt-get install sudo)"
                )

    def _introduction(self) -> str:
        """The user that ssh logs in as. Raises CannotRunHere where the machine's shell, Python or clock does not
        fit."""
        before = time.time()
        output, after = self.run("sh", "-c", INTRODUCTION).stdout, time.time()
        beside, _, answer = output.partition(MARK)
        if greeting := beside.strip():
            raise CannotRunHere(
                f"{self.name}: its shell says {greeting[:80]!r} before any command's answer. Let only "
                "interactive shells say so. Look into ~/.bashrc, ~/.profile and /etc/bash.bashrc there, "
                "and put this line first: case $- in *i*) ;; *) return ;; esac"
            )
        user, clock, version = [*answer.strip().split("|"), "", "", ""][:3]
        if not re.fullmatch(r"[A-Za-z0-9_.-]+[$]?", user) or not re.fullmatch(r"[0-9]{1,12}", clock):
            raise CannotRunHere(f"{self.name}: sh, id and date do not answer there, but {answer.strip()[:80]!r}")
        python = re.findall(r"\b[0-9]{1,3}\b", version)  # none: the look at the machine says that it is missing
        if python and tuple(map(int, python)) < OLDEST_PYTHON:
            needed = ".".join(map(str, OLDEST_PYTHON))
            raise CannotRunHere(f"{self.name} has Python {'.'.join(python)}; vpneval needs {needed} or newer there")
        apart_s = max(before - int(clock) - 1, int(clock) - after)
        if apart_s > APART_S:
            raise CannotRunHere(
                f"{self.name}'s clock and this machine's are {apart_s:.0f} s apart, so that certificates may not be "
                "valid yet; set them, for example with: timedatectl set-ntp true"
            )
        return user

    def said(self) -> str:
        """The last line that ssh itself wrote."""
        lines = [line.strip() for line in self._said.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "no answer"

    def plain_argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The local command that runs ``argv`` on the machine, as the user that ssh logs in as."""
        # A client that finds no master must fail, not connect by itself.
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR")
        return ["ssh", *only, *self._options, *(["-t"] if tty else []), self.machine.address, shlex.join(argv)]

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The local command that runs ``argv`` on the machine as root, with a node's environment."""
        settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return self.plain_argv(*self.sudo, "env", "-i", *settings, *argv, tty=tty)

    def run(self, *argv: str, timeout: float = 20.0 * PATIENCE, as_root: bool = True) -> Completed:
        """Run a command on the machine itself, outside of any node. Raises LabError when it does not answer."""
        command = self.argv(*argv) if as_root else self.plain_argv(*argv)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
            try:
                stdout, stderr = outputs(process, timeout)
            except subprocess.TimeoutExpired as late:
                raise LabError(f"{self.name} did not answer within {timeout:g} s") from late
            except SaidTooMuch as endless:
                raise LabError(f"{self.name}, asked {shown(argv)[:80]}: {TOO_MUCH}") from endless
        return Completed(process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    def alive(self) -> bool:
        """Is the OpenSSH master still there?"""
        return self._master.poll() is None

    def close(self) -> None:
        """Close the connection: whatever is still held through it ends."""
        self._master.terminate()
        try:
            self._master.wait(5)
        except subprocess.TimeoutExpired:
            kill_group(self._master)
            self._master.wait()


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
        self._agent = Agent(self._holder)
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
        self._agent.listen(self._lost)

    def _lost(self) -> None:
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
        self.log(f"[{self.name}] {shown(argv)}")
        if argv == self._last[0]:
            # A poll. On a slow machine it would take the processor from what it waits for: most of the time is that's.
            time.sleep(POLLS_REST * self._last[1])
        started = time.monotonic()
        job = self._start(*argv, input=input)
        try:
            in_time = job.ended.wait(timeout * PATIENCE)
        except BaseException:
            self._agent.kill(job)
            raise
        if not in_time:
            self._end(job)
        if job.code is None:
            raise self._gone()
        if job.too_much:
            raise self.failed(argv, Completed(job.code, "", TOO_MUCH))
        self._last = argv, time.monotonic() - started
        done = Completed(job.code, job.text("out"), hide(job.text("err")))
        if not in_time:
            raise self.failed(argv, replace(done, stdout=""), timeout * PATIENCE)
        if check and done.code != 0:
            raise self.failed(argv, done)
        return done

    def talk(self, *argv: str) -> Dialogue:
        """As Node.talk, in an ssh session of its own."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv(*argv), stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def end(self, process: Any) -> None:
        """Kill such a session."""
        kill_group(process)

    def defer(self, *argv: str) -> None:
        """As Node.defer: in a node of its own network nothing; else the machine itself runs it when the node ends."""
        if self.lent.network == "machine":
            self._agent.defer(argv)

    @property
    def changed(self) -> Mapping[str, int]:
        """How much others have changed in the machine's network, by kind; known once the node has ended."""
        return self._agent.changed

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """As Node.write, by install(1)."""
        self.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, input=text)

    def cpu_s(self) -> None:
        """None: CPU time is not counted on another machine."""

    def spent(self) -> None:
        """None: CPU time is not counted on another machine."""

    def spawn(self, *argv: str, log: str) -> AgentProcess:
        """As Node.spawn. Raises LabError too."""
        self.log(f"[{self.name}] {shown(argv)} &")
        path = self.logs / f"{self.name}-{log}.log"
        process = AgentProcess(self._start(*argv, log=path), path, self._end)
        self.background.append(process)
        return process

    def _start(self, *argv: str, input: str | None = None, log: Path | None = None) -> RemoteCommand:
        try:
            return self._agent.start(*argv, input=input, log=log)
        except AgentGoneError as gone:
            raise self._gone() from gone

    def _end(self, job: RemoteCommand) -> None:
        """Kill a command that is running on the node, with what it started."""
        self._agent.kill(job)
        job.ended.wait(ANSWERS_WITHIN_S)

    def _gone(self) -> LabError:
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

    def lost(self) -> str:
        """The sentence that says why the node has ended, as its machine reports it; empty while the node answers within
        ANSWERS_WITHIN_S."""
        if self._culprit is not None:
            return str(self._gone()) if self._culprit is self else ""
        return "" if self._agent.answers(ANSWERS_WITHIN_S) else str(self._gone())

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
