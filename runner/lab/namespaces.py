"""The namespace node, which looks like a host.

A namespace node is a process that holds net, mount, PID, UTS and IPC namespaces of its own, with the lab
image as its root under a copy-on-write tmpfs overlay. The runner holds that process by a pipe and a
parent-death signal: when the runner goes, however it goes, the kernel removes every daemon, interface
and mount of the node. There is nothing to clean up by construction.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runner.data.errors import CommandError, LabError
from runner.lab.logs import LogPipe, settle
from runner.lab.node import ENVIRONMENT, PATIENCE, Completed
from runner.lab.redaction import hide

GONE_WITHIN_S = 5.0
# What PID 1 of a node does, before it becomes the loop that holds the node and reaps its orphans.
# It reports its PID as the host sees it (the old /proc is still mounted then), and ends with the runner,
# because the pipe on its standard input then ends. Where the runner is on another machine, the pipe may never end,
# so that it must also hear from it every SILENCE seconds. Two lists for mount(8), because each process costs 2 ms
# here and 100 ms in a guest kernel. Source: unshare(1), pivot_root(2), fstab(5).
INIT = r"""
set -eu
read -r pid _ < /proc/self/stat
mount -t tmpfs -o size=4g,mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir="$ROOT",upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mkdir -p proc sys dev run tmp .old
echo "\
proc  $PWD/proc proc  defaults 0 0
sysfs $PWD/sys  sysfs defaults 0 0
tmpfs $PWD/dev  tmpfs mode=755,size=16m 0 0
tmpfs $PWD/run  tmpfs mode=755 0 0
tmpfs $PWD/tmp  tmpfs mode=1777 0 0" >/mnt/first
mount -a -T /mnt/first
mkdir -p dev/net dev/pts dev/shm run/lock run/sshd
binds="devpts $PWD/dev/pts devpts newinstance,ptmxmode=0666 0 0
tmpfs $PWD/dev/shm tmpfs mode=1777 0 0"
for device in null zero full random urandom tty net/tun ppp; do
  [ -w /dev/$device ] || continue
  : >dev/$device
  binds="$binds
/dev/$device $PWD/dev/$device none bind 0 0"
done
if [ -d /lib/modules ]; then
  [ -d lib/modules ] || mkdir -p lib/modules
  binds="$binds
/lib/modules $PWD/lib/modules none bind 0 0"
fi
echo "$binds" >/mnt/second
mount -a -T /mnt/second
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd; for f in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${f%:*} dev/${f#*:}; done
pivot_root . .old
umount -l /.old
rmdir /.old
hostname "$NAME"
printf '127.0.0.1 localhost %s\n' "$NAME" > /etc/hosts
ip link set lo up
echo "$pid"
exec bash -c 'while read -r ${SILENCE:+-t "$SILENCE"} _; do :; done' "$NAME"
"""
UNSHARE = ("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
# Not --all: an ordinary user may not enter a cgroup namespace, not even the one it is in.
NSENTER = ("nsenter", "--net", "--mount", "--uts", "--ipc", "--pid", "--target")


class NamespaceNode:
    """A node made of namespaces. Start it from the main thread: the parent-death signal follows the thread."""

    environment: Mapping[str, str] = ENVIRONMENT  # of the host's command that ``argv`` gives
    makes_keys = False  # what is said there may be a key that nobody knows of yet: errors do not quote it

    def __init__(self, name: str, root: Path, log: Callable[[str], object] = lambda line: None) -> None:
        self.name = name
        self.log = log
        self._logs: Path | None = None  # set for each trial, see log_to()
        self._background: list[NamespaceProcess] = []
        self._holder = self._hold(root)
        self.pid = 0

    def _hold(self, root: Path) -> subprocess.Popen[str]:
        """Start the process that holds the node, until its standard input ends."""
        return subprocess.Popen(
            # Die with the runner; kill PID 1, and with it the node, when unshare dies.
            ["setpriv", "--pdeathsig", "KILL", *UNSHARE, "bash", "-c", INIT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "ROOT": str(root), "NAME": self.name},
            start_new_session=True,
            text=True,
        )

    def wait_ready(self) -> None:
        """Wait until the node has its root and says so. Raises LabError with the kernel's reason."""
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        answer = self._holder.stdout.readline().strip()
        if not answer.isdigit():
            self._holder.wait()
            reason = self._holder.stderr.read().strip() or f"exit code {self._holder.returncode}"
            raise LabError(f"node {self.name} did not come up: {reason}")
        self.pid = int(answer)

    @property
    def logs(self) -> Path:
        """The folder of the logs of what is started here. Raises LabError before ``log_to`` has named one."""
        if self._logs is None:
            raise LabError(f"the node {self.name} has no folder for logs: name one with log_to() before spawn()")
        return self._logs

    def log_to(self, folder: Path) -> None:
        """Send the logs of what is started from now on to ``folder``."""
        self._logs = folder

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The host's command that runs ``argv`` inside the node and dies with the runner (nsenter(1)).

        ``tty``: somebody will type into it; here it has this process's terminal in any case.
        """
        # setpriv, because a killed nsenter would leave its child behind.
        return [*NSENTER, str(self.pid), "setpriv", "--pdeathsig", "KILL", *argv]

    def job(self, *argv: str) -> list[str]:
        """The host's command that runs ``argv`` so that ``end`` ends it whole."""
        return self.argv(*argv)

    def end(self, process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
        """Kill a command that is running on the node, with what it started."""
        kill_group(process)

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Run a command to its end. Raises CommandError on a non-zero exit (if ``check``) or a time-out.

        A daemon that goes into the background must not keep this command's pipes: start daemons with
        ``spawn``, or with an option that makes them close their standard streams.
        """
        self.log(f"[{self.name}] {shown(argv)}")
        process = subprocess.Popen(
            self.job(*argv),
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            stdout, stderr = process.communicate(input, timeout=timeout * PATIENCE)
        except subprocess.TimeoutExpired as late:
            self.end(process)
            stderr = ""
            with suppress(subprocess.TimeoutExpired):  # a machine that is gone does not close its end
                _, stderr = process.communicate(timeout=20)
            raise self._failed(argv, Completed(-1, "", stderr), timeout * PATIENCE) from late
        except BaseException:
            self.end(process)
            process.wait()
            raise
        done = Completed(process.returncode, stdout, hide(stderr))
        if check and done.code != 0:
            raise self._failed(argv, done)
        return done

    def _failed(self, argv: Sequence[str], done: Completed, timeout_s: float = 0) -> CommandError:
        """The error that says so, without secrets; with a ``timeout_s`` it is that which the command did not keep."""
        code = None if timeout_s else done.code
        if self.makes_keys:
            return CommandError(self.name, argv[:1], code, done.stderr, timeout_s)
        return CommandError(self.name, [hide(word) for word in argv], code, hide(done.stderr or done.stdout), timeout_s)

    def spawn(self, *argv: str, log: str, stdin: int = subprocess.DEVNULL) -> NamespaceProcess:
        """Start a command in the background, its output in the trial's log file ``log``."""
        self.log(f"[{self.name}] {shown(argv)} &")
        path = self.logs / f"{self.name}-{log}.log"
        pipe = LogPipe(path)
        try:
            popen = subprocess.Popen(
                self.job(*argv),
                stdin=stdin,
                stdout=pipe.entry,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        finally:
            pipe.follow()
        process = NamespaceProcess(popen, path, self.end, pipe.settle)
        self._background.append(process)
        return process

    def logged(self, log: str) -> str:
        """What the command that was spawned with this ``log`` has said so far."""
        path = self.logs / f"{self.name}-{log}.log"
        settle()
        return path.read_text(errors="replace") if path.exists() else ""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file on the node, its folder made as needed. The content is never logged."""
        # Through install(1), because a path through /proc/PID/root would follow absolute links out of the node.
        self.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, input=text)

    def defer(self, *argv: str) -> None:
        """Nothing: what is changed in this node goes with it."""

    def lost(self) -> str:
        """Why the node is no more: a sentence; empty while the process that holds it is there."""
        if self._holder.poll() is None:
            return ""
        return f"the node {self.name} is gone: somebody ended it, or memory ran out"

    def release(self) -> None:
        """Let the node go: PID 1 ends with its pipe, and the kernel ends everything else in it."""
        assert self._holder.stdin is not None
        with suppress(BrokenPipeError):
            self._holder.stdin.close()

    def stop(self) -> None:
        """Let the node go, and wait until it is gone."""
        self.release()
        try:
            self._holder.wait(5)
        except subprocess.TimeoutExpired:
            self._holder.kill()  # --kill-child takes PID 1 along
            self._holder.wait()
        # Only now: these are nsenters, and each had to reap its child in the node first.
        for process in self._background:
            process.stop()


class NamespaceProcess:
    """A background command in a namespace node, a ``Process``."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        log: Path,
        end: Callable[[subprocess.Popen[bytes]], None] | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        """``settle`` writes down what it has said by now."""
        self._popen, self.log, self._end, self._settle = popen, log, end or kill_group, settle

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
    """Kill a command with what it started, and wait a moment: a daemon holds its ports and locks until it is gone,
    which is some milliseconds after the nsenter in front of it.

    First what is behind nsenter, which reaps it and ends. Killed at once, its orphan falls to PID 1 of the machine, and
    the node cannot end before that has reaped it: some take a second, and those of some containers never do.
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
    """The processes of a group: does each still hold anything? It does unless it is a zombie, and not one with threads
    that are yet to end, as a killed Go program is for a while. See proc_pid_stat(5)."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            pid, _, fields = stat.read_text().partition(" ")
            state, _, its_group, *rest = fields.rpartition(")")[2].split()
            if int(its_group) == group:
                found[int(pid)] = state not in "ZX" or int(rest[14]) > 1
    return found


def shown(argv: Sequence[str]) -> str:
    """argv as one would type it, without secrets."""
    return shlex.join(hide(word) for word in argv)
