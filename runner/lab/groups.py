"""A control group for each node of this machine: the kernel counts there what its processes cost (cgroups(7))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
_numbers = count(1)


def make_group(node: str) -> Path | None:
    """The folder of a new group below our own, in which a process is by writing 0 to its ``cgroup.procs``.

    None where we may not make one. The groups of runners that were killed are removed on the way.
    """
    for parent in _own():
        for old in parent.glob("vpneval.*.*.*"):
            if not Path("/proc", old.name.split(".")[1]).exists():
                with suppress(OSError):
                    old.rmdir()
        folder = parent / f"vpneval.{os.getpid()}.{next(_numbers)}.{node}"
        with suppress(OSError):
            folder.mkdir()
            return folder
    return None


def _own() -> Iterator[Path]:
    """The folders of the groups that we are in: version 2's, which counts without any controller, then version 1's."""
    with suppress(OSError):
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        for number, controllers, path in sorted(lines, key=lambda line: line[0] != "0"):
            mounts = ["", "unified"] if number == "0" else [controllers] if "cpuacct" in controllers.split(",") else []
            for folder in (GROUPS / mount / path.lstrip("/") for mount in mounts):
                if (folder / ("cpu.stat" if number == "0" else "cpuacct.usage")).exists():
                    yield folder


def cpu_s(group: Path) -> float:
    """CPU seconds, user and system, of all that has run in the group, to the microsecond. Raises OSError."""
    if (group / "cpuacct.usage").exists():  # version 1
        return int((group / "cpuacct.usage").read_text()) / 1e9
    usage = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(usage["usage_usec"]) / 1e6


def holds(group: Path, pid: int) -> bool:
    """Is the process in that group?"""
    with suppress(OSError):
        return f"/{group.name}\n" in Path(f"/proc/{pid}/cgroup").read_text()
    return False


def remove(group: Path) -> None:
    """Remove a group whose processes have gone; one that still has some is left to the next run."""
    with suppress(OSError):
        group.rmdir()
