"""Whether what a lab measures is one scale for data planes: for VPNs in the kernel, and for programs in user space.

A VPN of the kernel makes no system call for a packet, a program makes several. So both can be set against each other
only where a system call and a packet cost in about the proportion that they have on machines. An emulated machine has
another one: in User Mode Linux a call costs 50 to 400 times as much as on its host, a packet the same; where QEMU
computes the processor (without KVM), a packet costs 25 to 50 times as much, a call 3 times (decision 0075).

It is told by what was measured (runner/lab/readings/calibration.py); where nobody could measure, by the guest that
vpneval started, and by the names of processor and hypervisor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from runner.data.kinds import Strict
from runner.data.trials import Run

# uml: User Mode Linux; emulation: a processor that QEMU computes, without KVM; costs: nothing but what was measured.
Kind = Literal["uml", "emulation", "costs"]
KINDS: tuple[Kind, ...] = ("uml", "emulation", "costs")  # of several machines, the first is told
GUESTS: Mapping[str, Kind] = {"uml": "uml", "qemu-tcg": "emulation"}  # that are no scale, where nothing was measured
FAIR = 3.0  # times by which a guest may have made the one dearer than the other
# A system call over a packet, where no host is beside. Measured: 0.30 to 0.46 on Xeons and EPYCs; 10 to 250 in User
# Mode Linux; 0.02 to 0.064 in emulation. The ends are in the middle between, by the logarithm.
MACHINES = (0.14, 2.2)
COMPUTED = ("QEMU TCG CPU", "ARM, implementer 0x00")  # how processors' names begin that nothing but a program has
# So do those of a model that KVM can have, too: its guests then keep time by kvm-clock (no TSC of theirs is stable).
GENERIC, BY_KVM = "QEMU Virtual CPU", "kvm-clock"


class NoScale(Strict):
    """That a run's data planes cannot be set against each other, by what ``kind`` of machine; ``machines``: which of
    the lab's, where they are machines of their own, else empty."""

    kind: Kind
    machines: list[str] = []


def no_scale(run: Run) -> NoScale | None:
    """Why data planes cannot be set against each other by what they cost or carry in this run; None where they can. Of
    a farm, one such machine is enough."""
    found = (no_scale_of(lab) for lab in (run.lab, *(machine.lab for machine in run.machines.values())))
    return next((one for one in found if one), None)


def no_scale_of(lab: Mapping[str, Any]) -> NoScale | None:
    """The same of one lab, by its facts (``lab`` of run.json)."""
    if times := costs_beside_host(lab):
        call, packet = times
        return None if 1 / FAIR <= call / packet <= FAIR else NoScale(kind=GUESTS.get(lab.get("guest", ""), "costs"))
    if kind := GUESTS.get(lab.get("guest", "")):
        return NoScale(kind=kind)
    every = _table(lab.get("machines"))
    if len(every) <= 1:
        here = _table(next(iter(every.values()), None))
        own = _kind({**here, **lab, "calibration": _table(lab.get("calibration")).get("here")})
        return NoScale(kind=own) if own else None
    # Of older runs, the first gateway's clock stands for all.
    kinds = {name: _kind({"clock_source": lab.get("clock_source"), **_table(own)}) for name, own in every.items()}
    named = [name for name, kind in kinds.items() if kind]
    return NoScale(kind=min(filter(None, kinds.values()), key=KINDS.index), machines=named) if named else None


def costs_beside_host(lab: Mapping[str, Any]) -> tuple[float, float] | None:
    """How many times what it costs on its host a system call costs in the lab's guest kernel, and a packet; None where
    that was not measured."""
    kernels = _table(lab.get("calibration"))
    here, host = _costs(kernels.get("here")), _costs(kernels.get("host"))
    return (here[0] / host[0], here[1] / host[1]) if here and host else None


def _kind(machine: Mapping[str, Any]) -> Kind | None:
    """What a machine is that is no scale. Names that only an emulated one has are certain; what was measured is surer
    than the others."""
    cpu = str(machine.get("cpu", ""))
    if cpu == "UML":
        return "uml"
    if cpu.startswith(COMPUTED):
        return "emulation"
    generic = cpu.startswith(GENERIC) and machine.get("clock_source") != BY_KVM
    likely: Kind | None = "emulation" if generic or machine.get("virtualization") == "qemu" else None
    if costs := _costs(machine.get("calibration")):
        return None if MACHINES[0] <= costs[0] / costs[1] <= MACHINES[1] else likely or "costs"
    return likely


def _costs(measured: object) -> tuple[float, float] | None:
    """What a system call and a packet cost in a kernel, µs; None where either was not measured."""
    costs = [_table(measured).get(name) for name in ("system_call_us", "packet_us")]
    call, packet = (float(cost) if isinstance(cost, int | float) else math.nan for cost in costs)
    return (call, packet) if 0 < call < math.inf and 0 < packet < math.inf else None


def _table(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
