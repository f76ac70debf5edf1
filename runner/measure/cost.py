"""What the traffic costs the machines that carry it: CPU time."""

from __future__ import annotations

from pathlib import Path


def cpu_seconds() -> float:
    """CPU seconds this machine has spent so far in user, system, interrupt and softirq (proc_stat(5)).

    The nodes of a namespace lab share this machine, so that this is the whole lab, the generators included.
    """
    user, nice, system, _idle, _iowait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / 100  # USER_HZ is 100 on every Linux
