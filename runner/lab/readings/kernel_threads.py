"""CPU time of the kernel's own threads, which are in no control group of a node: WireGuard leaves its work to them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

KTHREADD = "2"  # the process that all of them come from
LISTED_FOR_S = 5.0  # a look at every process of a busy machine takes as long as a tenth of a rung of the ladder
NS = 1e-9


@dataclass
class KernelThreads:
    """The kernel threads that can be seen in ``proc``; none in a container with processes of its own."""

    proc: Path = Path("/proc")
    _ns: dict[str, int] = field(default_factory=dict)  # of each, also of those that have ended
    _listed: float = -LISTED_FOR_S

    def seconds(self) -> float:
        """CPU seconds so far (schedstats, first number), of those there were at the last list."""
        if time.monotonic() - self._listed >= LISTED_FOR_S:
            self._list()
        for pid in self._ns:
            with suppress(OSError, IndexError, ValueError):  # it has ended, or this kernel counts no such time
                self._ns[pid] = int((self.proc / pid / "schedstat").read_text().split()[0])
        return sum(self._ns.values()) * NS

    def _list(self) -> None:
        for process in self.proc.iterdir():
            if process.name.isdigit() and process.name not in self._ns:
                with suppress(OSError, IndexError):
                    if (process / "stat").read_text().rpartition(")")[2].split()[1] == KTHREADD:
                        self._ns[process.name] = 0
        self._listed = time.monotonic()
