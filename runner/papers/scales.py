"""On which scale a kernel measures what a system costs: whether two systems may be set against each other there.

A system of the kernel's data plane makes no system call for a packet, one in user space makes several. In User Mode
Linux a system call costs 50 to 400 times what it costs on its host, and the kernel's way of a packet about the same, so
that one in user space looks ten to fifteen times as slow beside one in the kernel, whatever encrypts. And of two in
user space, the one with more calls does. What stands there: the kernel's data plane against itself, one VPN's settings
against each other, counts, and what a timer sets (decision 0075).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from runner.data.trials import Run

# What a number is made from; ``programs``: what programs of the hosts send and read, a system call for each datagram.
Basis = Literal["count", "ratio", "share", "time", "timer", "programs"]
COSTS: tuple[Basis, ...] = ("ratio", "share", "time", "programs")  # what a system call weighs in
# Guests in which the costs of a system call and of a packet are not those of a machine, where a run has no calibration:
# in User Mode Linux a call is 50 to 400 times too dear beside a packet, in software emulation a packet 10 to 20 times.
UNFAIR = ("uml", "qemu-tcg")
FAIR = 3.0  # times by which the one may be dearer
PLAIN_IP = "plain IP"  # a system without a plugin, whose packets the kernel alone carries
NO_SCALE = (
    "a system call and the kernel's own work do not cost in this guest as many times what they cost on its host, so "
    "that data planes cannot be compared here"
)


def one_scale(run: Run, systems: Collection[str]) -> bool:
    """May these systems be set against each other by what they cost in this run? A system without a plugin is a program
    of the gateway, in user space."""
    if fair(run):
        return True
    return len({*systems}) < 2 or {plane_of(run, name) for name in systems} == {"kernel"}


def fair(run: Run) -> bool:
    """Does the run's kernel ask as many times its host's price for a system call as for a packet? By the run's
    calibration; without one, by the kind of guest."""
    if times := costs_beside_host(run):
        call, packet = times
        return 1 / FAIR <= call / packet <= FAIR
    return run.lab.get("guest") not in UNFAIR


def costs_beside_host(run: Run) -> tuple[float, float] | None:
    """How many times what it costs on its host a system call costs in the run's guest kernel, and a packet, by the
    run's calibration (runner/lab/readings/calibration.py); None where it has none."""
    kernels = run.lab.get("calibration", {})
    costs = [kernels.get(name, {}).get(cost) for cost in ("system_call_us", "packet_us") for name in ("here", "host")]
    if not all(costs):
        return None
    call, host_call, packet, host_packet = map(float, costs)
    return call / host_call, packet / host_packet


def plane_of(run: Run, system: str) -> str:
    """The data plane of a system: what its plugin declared, as the run has it."""
    if system in run.vpns:
        return run.vpns[system].dataplane
    return "kernel" if system == PLAIN_IP else "userspace"
