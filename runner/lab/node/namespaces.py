"""The namespace node, which looks like a host.

A namespace node is a process that holds net, mount, PID, UTS and IPC namespaces of its own, with the lab
image as its root under a copy-on-write tmpfs overlay. The runner holds that process by a socket and a
parent-death signal: when the runner goes, however it goes, the kernel removes every daemon, interface
and mount of the node. There is nothing to clean up by construction.

That process, ``runner/lab/probes/agent.py``, runs the commands. Each request brings the descriptors that the command
gets, so a command is one process, a child of the node's. The agent writes files itself, without a process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from runner.data.errors import InstrumentError
from runner.lab import probes
from runner.lab.node import ENVIRONMENT, PATIENCE, Completed, groups, proc
from runner.lab.node.commands import KILLED, TOO_MUCH, AgentLine, Command, Dialogue, SaidTooMuch, file_of
from runner.lab.node.held import HeldNode, command_line
from runner.lab.node.logs import LogPipe
from runner.lab.redaction import hide

GONE_WITHIN_S = 5.0
FIRST_ID = 1_900_000_000  # of a node with users of its own; above those that systemd gives (systemd.io/UIDS-GIDS)
OURS = ("host", "wan", "lan", "ca")  # nodes on which no VPN runs: instruments and the path
AGENT = str(Path(probes.__file__).with_name("agent.py"))
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")
# Not --all: an ordinary user may not enter a cgroup namespace, not even the one it is in.
NSENTER = ("nsenter", "--net", "--mount", "--uts", "--ipc", "--pid", "--target")


class NamespaceNode(HeldNode):
    """A node made of namespaces. Start it from the main thread: the parent-death signal follows the thread."""

    # Root of a node on which a VPN runs is no root of this machine; for all nodes of this process.
    confined = False

    def __init__(self, name: str, root: Path, log: Callable[[str], object] = lambda line: None) -> None:
        self._group = groups.make_group(name)
        super().__init__(name, log, self._hold(name, root))

    def _hold(self, name: str, root: Path) -> subprocess.Popen[str]:
        """Start the process that holds the node, until its standard input ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line = AgentLine(ours)
        node: dict[str, str] = {
            "name": name,
            "root": str(root),
            "group": str(self._group.folder if self._group else ""),
        }
        if self.confined and os.geteuid() == 0 and not name.startswith(OURS):
            node["users"] = str(FIRST_ID)
        with theirs:
            return subprocess.Popen(
                # Die with the runner; kill PID 1, and with it the node, when unshare dies.
                ["setpriv", "--pdeathsig", "KILL", *UNSHARE, sys.executable, "-IS", AGENT, json.dumps(node)],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                start_new_session=True,
                text=True,
            )

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The host's command that runs ``argv`` inside the node and dies with the runner (nsenter(1)).

        ``tty``: somebody will type into it; here it has this process's terminal in any case.
        """
        # setpriv, because a killed nsenter would leave its child behind.
        users = ["--user"] if self.has_own_users() else []
        return [*NSENTER, str(self.pid), *users, "setpriv", "--pdeathsig", "KILL", *argv]

    def has_own_users(self) -> bool:
        """Is root of the node another user than this process?"""
        return os.readlink(f"/proc/{self.pid}/ns/user") != os.readlink("/proc/self/ns/user")

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Run a command to its end. Raises CommandError on a non-zero exit (if ``check``) or a time-out.

        A daemon that goes into the background must not keep this command's pipes: start daemons with
        ``spawn``, or with an option that makes them close their standard streams.
        """
        return self._run(argv, check, timeout, input)

    def _run(self, argv: tuple[str, ...], check: bool, timeout: float, input: str | None, **request: Any) -> Completed:
        """As ``run``. A ``request`` asks the agent itself to do what ``argv`` would do."""
        self.log(f"[{self.name}] {command_line(argv)}")
        process = self._begin(
            argv, file_of(input) if input is not None else os.open(os.devnull, os.O_RDONLY), **request
        )
        with ExitStack() as undo:  # whatever ends the waiting for it
            undo.callback(process.close)
            undo.callback(self.end, process)
            try:
                stdout, stderr = process.communicate(timeout=timeout * PATIENCE)
            except subprocess.TimeoutExpired as late:
                undo.pop_all()
                self.end(process)
                stderr = ""
                with suppress(subprocess.TimeoutExpired, SaidTooMuch):
                    _, stderr = process.communicate(timeout=20)
                process.close()
                raise self.command_error(argv, Completed(-1, "", stderr), timeout * PATIENCE) from late
            except SaidTooMuch as endless:
                raise self.command_error(argv, Completed(KILLED, "", TOO_MUCH)) from endless
            undo.pop_all()
        assert process.returncode is not None
        done = Completed(process.returncode, stdout, hide(stderr))
        if check and done.code != 0:
            raise self.command_error(argv, done)
        return done

    def _begin(self, argv: Sequence[str], stdin: int, **request: Any) -> Command:
        """Start a command that reads from ``stdin``, which is closed here, and whose outputs are pipes."""
        pipes = [os.pipe(), os.pipe()]
        process = self._line.start(argv, self.environment, stdin, *(theirs for _, theirs in pipes), **request)
        for theirs in (stdin, *(theirs for _, theirs in pipes)):
            os.close(theirs)
        process.stdout, process.stderr = (open(ours, errors="replace") for ours, _ in pipes)  # noqa: SIM115
        return process

    def talk(self, *argv: str) -> Dialogue:
        """Start a command whose standard streams are pipes of the runner's: for a dialogue with a probe."""
        theirs, ours = os.pipe()
        process = self._begin(argv, theirs)
        process.stdin = open(ours, "w")  # noqa: SIM115
        return Dialogue(process, self.name)

    def end(self, process: Any) -> None:
        """Kill a command that is running on the node, with what it started, and wait a moment until all that has gone:
        a daemon holds its ports and locks until then."""
        self._line.kill(process.process if isinstance(process, Dialogue) else process, GONE_WITHIN_S)

    def spawn(self, *argv: str, log: str) -> NamespaceProcess:
        """Start a command in the background, its output in the trial's log file ``log``."""
        self.log(f"[{self.name}] {command_line(argv)} &")
        path = self.logs / f"{self.name}-{log}.log"
        pipe = LogPipe(path)
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            popen = self._line.start(argv, self.environment, nothing, pipe.entry, pipe.entry)
        finally:
            os.close(nothing)
            pipe.follow()
        process = NamespaceProcess(popen, path, self.end, pipe.settle)
        self.background.append(process)
        return process

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file on the node, its folder made as needed. The content is never logged."""
        # The agent writes it as this command would: in the node, where a link cannot lead out of it.
        argv = ("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path)
        self._run(argv, True, 30.0, text, path=path, mode=mode)

    def cpu_s(self) -> float | None:
        """CPU seconds so far, user and system, of all processes of the node, to the microsecond.

        None where they are not counted: on another machine, where this user may not make a control group, or where the
        node has been moved to another group.
        """
        spent = self.cpu_times()
        return spent.all_s if spent else None

    def cpu_times(self) -> groups.GroupSpent | None:
        """The same CPU seconds, divided into user mode and kernel. Raises InstrumentError where somebody has removed
        the group."""
        if self._group is None:
            return None
        try:
            os.stat(self._group.folder)
            return groups.group_cpu(self._group.folder) if groups.holds(self._group.folder, self.pid) else None
        except OSError as gone:
            raise InstrumentError(
                f"the control group of the node {self.name} is gone, so its CPU time is unknown: {gone}"
            ) from gone

    def why_ended(self) -> str:
        """The sentence that says why the node has ended; empty while the process that holds it is there."""
        if self._holder.poll() is None:
            return ""
        return f"the node {self.name} is gone: somebody ended it, or memory ran out"

    def release(self) -> None:
        """Let the node go: PID 1 ends with its pipe, and the kernel ends everything else in it."""
        self._line.close()

    def stop(self) -> None:
        """Let the node go, and wait until it is gone."""
        self.release()
        try:
            self._holder.wait(5)
        except subprocess.TimeoutExpired:
            self._holder.kill()  # --kill-child takes PID 1 along
            self._holder.wait()
        for process in self.background:
            process.stop()
        if self._group is not None:
            self._group.remove()


class NamespaceProcess:
    """A background command in a namespace node, a ``Process``."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes] | Command,
        log: Path,
        end: Callable[[Any], None] = lambda process: kill_group(process),
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        """``settle`` logs the command's output so far."""
        self._popen, self.log, self._end, self._settle = popen, log, end, settle

    def alive(self) -> bool:
        """Is it still running?"""
        return self._popen.poll() is None

    def stop(self) -> None:
        """End it now, with what it started."""
        if self.alive():
            self._end(self._popen)
        self._popen.wait()
        self._settle()

    def wait(self, timeout: float) -> int:
        """Its exit code. Raises TimeoutError after ``timeout`` seconds."""
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"still running after {timeout:g} s") from late
        self._settle()
        return code


def kill_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill a process of this machine with what it started, and wait a moment until all has gone.

    The processes that it started go first, and it reaps them. If all were killed at once, the orphans would fall to the
    machine's PID 1: some take a second to reap them, and those of some containers never do.
    """
    end = time.monotonic() + GONE_WITHIN_S
    while (behind := processes_of(process.pid).keys() - {process.pid}) and time.monotonic() < end:
        for pid in behind:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    while any(processes_of(process.pid).values()) and time.monotonic() < end:
        time.sleep(0.002)


def processes_of(group: int) -> dict[int, bool]:
    """The processes of a group, and whether each still holds anything. A zombie holds nothing, unless it has threads
    that are yet to end, as a killed Go program has for a while. See proc_pid_stat(5)."""
    holds = {}
    for pid in proc.pids():
        with suppress(OSError):  # gone
            state, _, its_group, *rest = proc.stat_of(pid)
            if int(its_group) == group:
                holds[pid] = state not in "ZX" or int(rest[14]) > 1
    return holds
