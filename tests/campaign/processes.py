"""The processes of a case. A process number alone is none: the kernel gives it to another process later."""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path

from tests.lab.conftest import running


def start_time(pid: int) -> int | None:
    """When it began, in clock ticks since the boot (proc_pid_stat(5), field 22); None where it has gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


class Processes:
    """Those that a case has started."""

    def __init__(self) -> None:
        self._began: dict[int, int] = {}

    def add(self, pids: Iterable[int]) -> None:
        """Take these as the case's own, as far as they are there; of one that is known, the first start counts as long
        as it runs."""
        for pid in pids:
            if (began := start_time(pid)) is not None and pid not in self.left({pid}):
                self._began[pid] = began

    def left(self, among: Set[int] | None = None) -> set[int]:
        """Those that still run."""
        known = {pid for pid in self._began if among is None or pid in among}
        return {pid for pid in running(known) if start_time(pid) == self._began[pid]}

    def left_groups(self) -> list[str]:
        """The control groups of nodes that they have made and not removed. Who has one's number today made its own."""
        names = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders if name.startswith("vpneval.")]
        own = {str(pid) for pid, began in self._began.items() if start_time(pid) in (None, began)}
        return [name for name in names if name.split(".")[1] in own]
