"""What stands in /proc (proc(5)): the processes that this process sees, those of its nodes among them; and the texts
of its files, whether they are this machine's or come from a node. A program that runs in a node as a lone file
(``runner/lab/probes``) reads there by itself.

A function that takes a PID raises one of ``GONE`` where the process has ended, and PermissionError where it is another
user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runner.lab.node import LabNode

TICK_S = 0.01  # USER_HZ is 100 on every Linux
GONE = (FileNotFoundError, ProcessLookupError)  # a process that ended while we looked
FOREIGN = (*GONE, PermissionError)  # or one that is in no node of ours
# Packets and errors of IP, UDP and TCP, refusals of IPsec (Documentation/networking/xfrm_proc.rst), and of interfaces.
NETWORK = ("/proc/net/snmp", "/proc/net/snmp6", "/proc/net/xfrm_stat", "/proc/net/dev")
OF_INTERFACES = (
    *("rx_bytes", "rx_packets", "rx_errors", "rx_dropped"),  # the first of each half of /proc/net/dev
    *("tx_bytes", "tx_packets", "tx_errors", "tx_dropped"),
)


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


# --- texts ------------------------------------------------------------------------------------------------------


def cpu_ticks(stat: str) -> tuple[int, ...]:
    """Ticks since boot of all CPUs, from /proc/stat: user, nice, system, idle, I/O wait, IRQ, soft IRQ, stolen. Empty
    where the text has none."""
    ticks = stat.partition("\n")[0].split()[1:9]
    return tuple(map(int, ticks)) if len(ticks) == 8 else ()


def context_switches(stat: str) -> int:
    """Context switches since boot, from /proc/stat."""
    return next(int(line.split()[1]) for line in stat.splitlines() if line.startswith("ctxt "))


def memory_of(meminfo: str, kind: str) -> int:
    """Bytes of a kind of memory, ``MemTotal`` or ``MemAvailable``, from /proc/meminfo. Raises KeyError."""
    return 1024 * int(dict(re.findall(r"^(\w+): +(\d+) kB", meminfo, re.MULTILINE))[kind])


def first_processor(cpuinfo: str) -> dict[str, str]:
    """The fields of /proc/cpuinfo, of several processors the first one's."""
    lines = (line.partition(":") for line in reversed(cpuinfo.splitlines()) if ":" in line)
    return {name.strip(): value.strip() for name, _, value in lines}


def algorithms(crypto: str) -> list[Mapping[str, str]]:
    """The kernel's drivers of its algorithms, from /proc/crypto (proc_crypto(5)), the one that it takes first."""
    entries = (dict(re.findall(r"^(\w+)\s*: (.*)$", entry, re.MULTILINE)) for entry in crypto.split("\n\n"))
    usable = [entry for entry in entries if "name" in entry and entry.get("internal") != "yes"]
    return sorted(usable, key=lambda entry: (int(entry["priority"]), entry["driver"]), reverse=True)


def counters(text: str) -> dict[str, int]:
    """Every counter in the texts of NETWORK and of /proc/net/netstat by its name: ``UdpInErrors``,
    ``XfrmInStateSeqError``, ``wan0 rx_packets``. The lines are pairs of names and values, or a name and a value, or an
    interface."""
    values: dict[str, int] = {}
    names: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        first, *rest = line.replace(":", ": ", 1).split()
        if first.startswith(("Xfrm", "Ip6", "Udp6")):
            values[first] = int(rest[0])
        elif first.endswith(":") and rest and not rest[0].lstrip("-").isdigit():
            names = rest
        elif first.endswith(":") and len(rest) == 16:
            halves = zip(OF_INTERFACES, (*rest[:4], *rest[8:12]), strict=True)
            values |= {f"{first[:-1]} {name}": int(value) for name, value in halves}
        elif first.endswith(":") and len(rest) == len(names):
            values |= {first[:-1] + name: int(value) for name, value in zip(names, rest, strict=True)}
    return values
