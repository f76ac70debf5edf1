"""Whether two systems may be set against each other by what they cost in a run (runner/data/scale.py).

Where data planes have no common scale, one in user space looks up to fifteen times as slow, or as fast, beside one in
the kernel, whatever encrypts. And of two in user space, the one with more system calls does. What stands there: the
kernel's data plane against itself, one VPN's settings against each other, counts, and what a timer sets (decision
0075).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from runner.data.scale import no_scale
from runner.data.trials import Run

# What a number is made from; ``programs``: what programs of the hosts send and read, a system call for each datagram.
Basis = Literal["count", "ratio", "share", "time", "timer", "programs"]
COSTS: tuple[Basis, ...] = ("ratio", "share", "time", "programs")  # what a system call weighs in
PLAIN_IP = "plain IP"  # a system without a plugin, whose packets the kernel alone carries
NO_SCALE = (
    "a system call and the kernel's own work do not cost here in the proportion that they have on a machine, so that "
    "data planes cannot be compared"
)


def one_scale(run: Run, systems: Collection[str]) -> bool:
    """May these systems be set against each other by what they cost in this run? A system without a plugin is a program
    of the gateway, in user space."""
    alone = len({*systems}) < 2 or {plane_of(run, name) for name in systems} == {"kernel"}
    return alone or no_scale(run) is None


def plane_of(run: Run, system: str) -> str:
    """The data plane of a system: what its plugin declared, as the run has it."""
    if system in run.vpns:
        return run.vpns[system].dataplane
    return "kernel" if system == PLAIN_IP else "userspace"
