"""A control group for each node of this machine: the kernel counts there what its processes cost (cgroups(7))."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

GROUPS = Path("/sys/fs/cgroup")
TRIES = 9


@dataclass(frozen=True)
class Group:
    """A control group's folder, which no other run removes as long as the descriptor ``lock`` is open."""

    folder: Path
    lock: int

    def remove(self) -> None:
        """Remove a group whose processes have gone; one that still has some is left to the next run."""
        with suppress(OSError):
            self.folder.rmdir()
        with suppress(OSError):
            os.close(self.lock)


def make_group(node: str) -> Group | None:
    """Make a control group below the runner's own. A process joins it by writing 0 to its ``cgroup.procs``.

    Returns None where the kernel does not allow one.
    """
    for parent in _own_groups():
        with suppress(OSError):
            return claim(parent, node)
    return None


def claim(parent: Path, name: str) -> Group:
    """Make a group below ``parent`` that is this process's own until it ends. Groups that killed runs have left are
    removed on the way. Raises OSError.

    A lock tells them apart (flock(2)): a process number says nothing to a run in another PID namespace.
    """
    for old in parent.glob("vpneval.*"):
        with suppress(OSError), _folder_lock(old, fcntl.LOCK_EX | fcntl.LOCK_NB):
            old.rmdir()
    for _ in range(TRIES):
        folder = Path(mkdtemp(prefix=f"vpneval.{os.getpid()}.{name}.", dir=parent))
        with suppress(FileNotFoundError):  # another run has removed it, before it was locked
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return Group(folder, lock)
            os.close(lock)
    raise OSError(errno.EBUSY, "other runs remove each control group that is made", str(parent))


@contextmanager
def _folder_lock(folder: Path, how: int) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


def _own_groups() -> Iterator[Path]:
    """The folders of this process's groups: version 2's, which counts without any controller, then version 1's."""
    with suppress(OSError):
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        for number, controllers, path in sorted(lines, key=lambda line: line[0] != "0"):
            mounts = ["", "unified"] if number == "0" else [controllers] if "cpuacct" in controllers.split(",") else []
            for folder in (GROUPS / mount / path.lstrip("/") for mount in mounts):
                if (folder / ("cpu.stat" if number == "0" else "cpuacct.usage")).exists():
                    yield folder


@dataclass(frozen=True)
class GroupSpent:
    """CPU seconds of everything that has run in a group, in user mode and in the kernel.

    Their sum is known to the microsecond. The kernel divides it by samples at its clock ticks, 100 or more a second.
    """

    user_s: float
    system_s: float

    @property
    def all_s(self) -> float:
        """The sum of both."""
        return self.user_s + self.system_s

    def __add__(self, more: GroupSpent) -> GroupSpent:
        return GroupSpent(self.user_s + more.user_s, self.system_s + more.system_s)

    def __sub__(self, before: GroupSpent) -> GroupSpent:
        return GroupSpent(self.user_s - before.user_s, self.system_s - before.system_s)


def group_cpu(group: Path) -> GroupSpent:
    """The CPU seconds of the group so far. Raises OSError."""
    if (group / "cpuacct.usage").exists():  # version 1 has the ticks of both, and the exact sum
        ticks = dict(line.split() for line in (group / "cpuacct.stat").read_text().splitlines())
        user, system = int(ticks["user"]), int(ticks["system"])
        all_s = int((group / "cpuacct.usage").read_text()) / 1e9
        user_s = all_s * user / (user + system) if user + system else 0.0
        return GroupSpent(user_s, all_s - user_s)
    usage = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return GroupSpent(int(usage["user_usec"]) / 1e6, int(usage["system_usec"]) / 1e6)


def holds(group: Path, pid: int) -> bool:
    """Is the process in that group?"""
    with suppress(OSError):
        return f"/{group.name}\n" in Path(f"/proc/{pid}/cgroup").read_text()
    return False
