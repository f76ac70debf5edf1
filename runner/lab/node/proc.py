"""The processes that this process sees in /proc (proc(5)), those of its nodes among them.

Each function raises one of ``GONE`` where the process has ended, and PermissionError where it is another user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.lab.node import LabNode

TICK_S = 0.01  # USER_HZ is 100 on every Linux
GONE = (FileNotFoundError, ProcessLookupError)  # a process that ended while we looked
FOREIGN = (*GONE, PermissionError)  # or one that is in no node of ours


def pids() -> list[int]:
    """All processes. No glob of what is in their folders: it fails where one goes meanwhile."""
    return [int(number) for number in os.listdir("/proc") if number.isdigit()]


def of_nodes(nodes: Sequence[LabNode]) -> list[tuple[str, int]]:
    """Node and PID of all processes of ``nodes``, that which holds each node among them. A PID namespace tells whose a
    process is (pid_namespaces(7))."""
    names = {os.stat(f"/proc/{node.pid}/ns/pid").st_ino: node.name for node in nodes}
    pairs = []
    for pid in pids():
        with suppress(*FOREIGN):
            if name := names.get(os.stat(f"/proc/{pid}/ns/pid").st_ino):
                pairs.append((name, pid))
    return pairs


def name_of(pid: int) -> str:
    """Its name, at most 15 characters."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def argv_of(pid: int) -> list[str]:
    """Its command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def stat_of(pid: int) -> list[str]:
    """The fields of proc_pid_stat(5) from the state on, which is the third there."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def spent_s(pid: int, *, children: bool = False) -> float:
    """Its CPU time, user and system, in ticks of 10 ms; with that of its ``children`` that it has waited for."""
    return sum(int(field) for field in stat_of(pid)[11 : 15 if children else 13]) * TICK_S


def threads_of(pid: int) -> list[int]:
    """Its threads; none where it has ended."""
    with suppress(*GONE):
        return [int(number) for number in os.listdir(f"/proc/{pid}/task")]
    return []


def thread_file(pid: int, thread: int, name: str) -> str:
    """What stands in this file of one of its threads: ``status``, ``schedstat``."""
    return Path(f"/proc/{pid}/task/{thread}/{name}").read_text()


def memory_bytes(pid: int, *kinds: str) -> int:
    """Its memory of these kinds together (proc_pid_smaps(5): ``Pss``, ``Private_Dirty``, ``Swap``)."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(kb) for kb in re.findall(rf"^(?:{'|'.join(kinds)}): +(\d+) kB", rollup, re.MULTILINE))
