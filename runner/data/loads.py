"""What the machines of a lab were busy with while a throughput was measured, and the sentence that says what limits it.

Shares of cores are in cores: 0.5 is half of one core's time, 1.7 is more than one core can give.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runner.data.kinds import Count, Line, Real, Strict, Text, Whole

Role = Literal["vpn", "generator", "kernel", "other"]
Kind = Literal[
    "quota",
    "steal",
    "foreign",
    "path",
    "thread",
    "process",
    "generator",
    "kernel",
    "shared cores",
    "queue",
    "none found",
]


class CoreLoad(Strict):
    """One core: shares of its time (0 to 1) in programs, in the kernel for them, in interrupts, in the kernel's work
    for packets (softirq), and what the hypervisor took."""

    core: Whole
    user: Real
    system: Real
    irq: Real
    softirq: Real
    steal: Real

    @property
    def busy(self) -> float:
        """The share of its time in which it was not idle."""
        return self.user + self.system + self.irq + self.softirq + self.steal


class ThreadLoad(Strict):
    """One thread: the share of a core that it had (``busy``), the share of the time in which it was ready to run and
    had none (``waiting``), and the ``core`` that it was on whenever it was looked at; None where that changed."""

    busy: Real
    waiting: Real = 0.0
    core: Whole | None = None


class ProcessLoad(Strict):
    """One process: of which node ("" is outside of the lab), whose it is, its cores' worth, and its busiest thread.

    ``user``: the share of its time in the program itself and not in the kernel, None where that is not known.
    ``role``: ``vpn``, ``generator`` (this program's own), ``kernel`` (a thread of its), or ``other``. ``threads``: how
    many it has; ``allowed``: the cores that it may use, none told for a process outside of the lab. ``others``: of a
    process of the lab, its further threads with a hundredth of a core and more, the busiest first.
    """

    node: Line
    name: Line
    role: Role
    busy: Real
    user: Real | None = None
    threads: Whole = 1
    allowed: list[Whole] = []
    busiest: ThreadLoad | None = None
    others: list[ThreadLoad] = []


class PortLoad(Strict):
    """A port that dropped packets or made them wait. ``queue``: its queueing discipline that did, "" where it was the
    port's driver; ``waited``: how often that discipline held a packet back to keep its rate (overlimits)."""

    node: Line
    port: Line
    queue: Line = ""
    packets: Whole
    drops: Whole
    waited: Whole = 0


class QuotaLoad(Strict):
    """A control group with a CPU quota: the nodes in it, its ``cores``, its periods, those in which the quota was used
    up, and for how long it held processes back, seconds."""

    nodes: list[Line]
    cores: Real
    periods: Whole
    used_up: Whole
    held_back_s: Real


class MachineLoad(Strict):
    """One machine of the lab during a measurement: ``nodes`` that it holds, and ``seconds`` that it was watched for, in
    ``looks`` pieces; ``carried_bytes``: payload that came through the tunnel in that time (of a packet rate the whole
    packets), 0 where that is not known.

    ``processes`` are those with a hundredth of a core and more. ``overflows``: datagrams that a full socket buffer
    refused, by node. ``softnet_dropped`` and ``softnet_squeezed``: packets that the kernel dropped before it looked at
    them, and how often it had no time to take all that had arrived. Where the machine tells: ``temperature_c`` at the
    end, ``heat_events`` (how often a core was slowed down for its heat), and ``clock_ratio``, the fastest core's
    frequency over the highest, at the end.
    """

    name: Line
    nodes: list[Line]
    seconds: Annotated[Real, Field(gt=0)]
    looks: Whole = 1
    carried_bytes: Count = 0
    cores: list[CoreLoad]
    processes: list[ProcessLoad] = []
    ports: list[PortLoad] = []
    quotas: list[QuotaLoad] = []
    overflows: dict[Line, Whole] = {}
    softnet_dropped: Whole = 0
    softnet_squeezed: Whole = 0
    temperature_c: Real | None = None
    heat_events: Whole | None = None
    clock_ratio: Real | None = None


class Limit(Strict):
    """What limits a throughput: one sentence, where (a node, "" where it is no single one), of which kind, and the
    figures that say so."""

    sentence: Text
    where: Line = ""
    kind: Kind
    evidence: list[Line] = []
