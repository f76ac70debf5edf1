"""On which scale a kernel measures what a system costs: whether two systems may be set against each other there.

A system of the kernel's data plane makes no system call for a packet, one in user space makes several. In User Mode
Linux a system call costs 50 to 90 times what it costs on its host, and the kernel's way of a packet the same, so that
one in user space looks ten to fifteen times as slow beside one in the kernel, whatever encrypts. And of two in user
space, the one with more calls does. What stands there: the kernel's data plane against itself, one VPN's settings
against each other, counts, and what a timer sets (docs/decisions/0075).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from runner.data.trials import Run

Basis = Literal["count", "ratio", "share", "time", "timer"]  # what a number is made from
COSTS: tuple[Basis, ...] = ("ratio", "share", "time")  # what a system call weighs in
UNFAIR = ("uml",)  # guests that make a system call dearer than the kernel's own work (lab.guest)
PLAIN_IP = "plain IP"  # a system without a plugin, whose packets the kernel alone carries
NO_SCALE = (
    "a system call costs many times as much in this guest as on a machine, and the kernel's own work does not, so that "
    "data planes cannot be compared here"
)


def one_scale(run: Run, systems: Collection[str]) -> bool:
    """May these systems be set against each other by what they cost in this run? A system without a plugin is a program
    of the gateway, in user space."""
    if run.lab.get("guest") not in UNFAIR:
        return True
    return len({*systems}) < 2 or {plane_of(run, name) for name in systems} == {"kernel"}


def plane_of(run: Run, system: str) -> str:
    """The data plane of a system: what its plugin declared, as the run has it."""
    if system in run.vpns:
        return run.vpns[system].dataplane
    return "kernel" if system == PLAIN_IP else "userspace"
