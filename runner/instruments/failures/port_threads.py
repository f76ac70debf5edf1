"""A kernel thread for each port of a lab, which is charged with what the kernel does with the packets of that port.

The kernel receives, decrypts, encrypts and forwards a packet on behalf of whatever runs at that moment, and charges
that. With threaded NAPI a thread of the port does it (Documentation/networking/napi.rst; Linux 5.12). A veth has one if
it joins segments (GRO) and its other end does not send joined ones (no TSO), as network cards on a wire do. Every port
of the lab gets one: a thread that sends to a port without one does that port's work, too.

The threads have a real-time priority, so that they go on until they have no packet left (sched(7)). User Mode Linux
tells time to its scheduler in ticks of 10 ms and charges each to who runs at its end; a thread that is changed for
another one at every tick would be charged with too many or too few.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from runner.lab.node import proc
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import Topology

THREADED = 'for port; do ethtool -K "$port" tso off gro on && echo 1 >"/sys/class/net/$port/threaded" || exit; done'


def give_threads(lab: Lab, topology: Topology) -> Mapping[str, Sequence[int]]:
    """Give every port a thread. Node -> the PIDs of its threads; empty where this process does not see the kernel's
    threads, as in a container. Raises CommandError where the kernel cannot do it, PermissionError without privilege."""
    threads = {}
    for name, node in lab.nodes.items():
        before = _threads()
        node.run("sh", "-c", THREADED, "sh", *(port.name for port in topology.ports(name)))
        threads[name] = sorted(_threads() - before)
    if not all(threads.values()):
        return {}
    for pid in (pid for pids in threads.values() for pid in pids):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    return threads


def _threads() -> set[int]:
    """The PIDs of all ports' threads that this process sees: "napi/PORT-NUMBER"."""
    found = set()
    for pid in proc.pids():
        with suppress(OSError):
            if proc.name_of(pid).startswith("napi/"):
                found.add(pid)
    return found


def thread_s(pids: Sequence[int]) -> float:
    """The CPU seconds of these threads so far, to 10 ms each (proc_pid_stat(5)). Raises OSError where one has ended."""
    return sum(map(proc.spent_s, pids))
