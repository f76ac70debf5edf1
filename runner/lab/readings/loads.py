"""Readers on every machine of a lab, and what happened there between two readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from runner.data.loads import CoreLoad, MachineLoad, PortLoad, ProcessLoad, QuotaLoad, ThreadLoad
from runner.lab.node.answers import understood
from runner.lab.node.probing import ask_probe, probe
from runner.lab.probes.loads import Reader
from runner.lab.shape.site_to_site import Lab

Reading = dict[str, Any]
SHARED = "this machine"
ALL = ""  # in place of a thread: the process, with threads that have ended
WORTH_A_LINE = 0.01  # of a core: who has less is left out
PATIENCE_S = 10.0


@contextmanager
def reading(lab: Lab) -> Iterator[Callable[[], dict[str, Reading]]]:
    """A function that reads every machine of the lab: its name -> the counters (see probes/loads.py).

    Raises MeasurementError where a machine does not answer.
    """
    gateways = [site.name for site in lab.sites]
    if lab.shared_kernel:
        reader = Reader({name: node.pid for name, node in lab.nodes.items()}, gateways)
        try:
            yield lambda: {SHARED: reader.read()}
        finally:
            reader.close()
        return
    with ExitStack() as stack:
        probes = {
            name: stack.enter_context(probe(node, "loads", name, ready="ready")) for name, node in lab.nodes.items()
        }
        yield lambda: {name: ask_probe(running, "loads", {}, PATIENCE_S) for name, running in probes.items()}


class LoadWatch:
    """Sums up what has happened on the machines of a lab, over all the pieces of time that were ``add``-ed."""

    def __init__(self) -> None:
        self._machines: dict[str, _Sums] = {}

    def add(self, before: Mapping[str, Reading], after: Mapping[str, Reading], carried_bytes: float = 0.0) -> None:
        """A piece of time, between two readings of the same lab, and the payload that came through it meanwhile. Raises
        CannotRunHere where a machine says what is no reading."""
        for name in after:
            sums = self._machines.setdefault(name, _Sums())
            with understood(name):
                sums.add(before[name], after[name])
            sums.carried_bytes += carried_bytes

    def machine_loads(self) -> list[MachineLoad]:
        """The load of each machine; none where nothing was added."""
        loads = []
        for name, sums in self._machines.items():
            with understood(name):
                loads.append(sums.load(name))
        return loads


class _Sums:
    """One machine's counters, summed over the pieces of time in which it was watched."""

    def __init__(self) -> None:
        self.seconds, self.looks, self.carried_bytes = 0.0, 0, 0.0
        self.ticks: dict[str, Counter[int]] = {}
        self.spent: Counter[tuple[str, str]] = Counter()  # (process, thread or "") -> seconds on a core
        self.waited: Counter[tuple[str, str]] = Counter()
        self.modes: dict[str, Counter[int]] = {}  # process -> ticks in the program, and in the kernel
        self.on: dict[tuple[str, str], set[int]] = {}
        self.seen: dict[str, Reading] = {}
        self.ports: Counter[tuple[str, str, str, str]] = Counter()  # node, port, discipline or "", what
        self.quotas: dict[str, tuple[float, list[float]]] = {}
        self.overflows: Counter[str] = Counter()
        self.softnet = [0, 0]
        self.nodes: list[str] = []
        self.temperature_c: float | None = None
        self.heat_events: int | None = None
        self.clock_ratio: float | None = None

    def add(self, before: Reading, after: Reading) -> None:
        self.seconds += after["at_s"] - before["at_s"]
        self.looks += 1
        self.nodes = list(after["ports"])
        self.temperature_c, self.clock_ratio = after["temperature_c"], after["clock_ratio"]
        if after["heat_events"] is not None and before["heat_events"] is not None:
            self.heat_events = (self.heat_events or 0) + after["heat_events"] - before["heat_events"]
        for core, ticks in after["cores"].items():
            spent = zip(ticks, before["cores"].get(core, ticks), strict=True)
            self.ticks.setdefault(core, Counter()).update({i: max(0, b - a) for i, (b, a) in enumerate(spent)})
        for pid, process in after["processes"].items():
            self._process(pid, before["processes"].get(pid, {}), process)
        for node, ports in after["ports"].items():
            for port, counters in ports.items():
                self._port(node, port, before["ports"].get(node, {}).get(port), counters)
        for nodes, (cores, *counters) in after["groups"].items():
            then = before["groups"].get(nodes, [0, 0, 0, 0])[1:]
            sums = self.quotas.get(nodes, (0, [0.0, 0.0, 0.0]))[1]
            self.quotas[nodes] = cores, [a + c - b for a, b, c in zip(sums, then, counters, strict=True)]
        for node, count in after["overflows"].items():
            self.overflows[node] += count - before["overflows"].get(node, count)
        self.softnet = [a + c - b for a, b, c in zip(self.softnet, before["softnet"], after["softnet"], strict=True)]

    def _process(self, pid: str, then: Reading, now: Reading) -> None:
        if then.get("name") != now["name"]:  # it began, or its number has another one now
            then = {}
        self.seen[pid] = now
        if then:  # outside of the lab, one that began meanwhile is seen the next time
            self.spent[pid, ALL] += now["spent_s"] - then["spent_s"]
        elif "threads" in now:
            self.spent[pid, ALL] += now["spent_s"]
        if "threads" not in now:
            return
        for thread, (ran_s, waited_s, core, *ticks) in now["threads"].items():
            ran_then_s, waited_then_s, _, *ticks_then = then.get("threads", {}).get(thread, (0.0, 0.0, core, 0, 0))
            self.modes.setdefault(pid, Counter()).update({i: ticks[i] - ticks_then[i] for i in (0, 1)})
            self.spent[pid, thread] += ran_s - ran_then_s
            self.waited[pid, thread] += waited_s - waited_then_s
            self.on.setdefault((pid, thread), set()).add(int(core))

    def _port(self, node: str, port: str, then: Reading | None, now: Reading) -> None:
        if then is None:
            return
        self.ports[node, port, "", "packets"] += now["packets"] - then["packets"]
        self.ports[node, port, "", "drops"] += now["dropped"] - then["dropped"]
        for queue, old in zip(now["queues"], then["queues"], strict=False):
            if queue[0] == old[0]:
                for what, b, a in zip(("packets", "drops", "waited"), queue[2:], old[2:], strict=True):
                    self.ports[node, port, queue[0], what] += b - a

    def load(self, name: str) -> MachineLoad:
        return MachineLoad(
            name=name,
            nodes=self.nodes,
            seconds=round(self.seconds, 3),
            looks=self.looks,
            carried_bytes=round(self.carried_bytes),
            cores=[_core(int(core), ticks) for core, ticks in self.ticks.items()],
            processes=sorted(self._processes(), key=lambda process: -process.busy),
            ports=[*self._ports()],
            quotas=[
                QuotaLoad(
                    nodes=nodes.split(),
                    cores=cores,
                    periods=int(sums[0]),
                    used_up=int(sums[1]),
                    held_back_s=round(sums[2], 3),
                )
                for nodes, (cores, sums) in self.quotas.items()
                if sums[0]
            ],
            overflows={node: count for node, count in self.overflows.items() if count},
            softnet_dropped=self.softnet[0],
            softnet_squeezed=self.softnet[1],
            temperature_c=self.temperature_c,
            heat_events=self.heat_events,
            clock_ratio=None if self.clock_ratio is None else round(self.clock_ratio, 3),
        )

    def _processes(self) -> Iterator[ProcessLoad]:
        by_process: dict[str, list[tuple[str, str]]] = {}
        for key in self.spent:
            by_process.setdefault(key[0], []).append(key)
        for pid, threads in by_process.items():
            spent: dict[tuple[str, str], float] = {key: self.spent[key] for key in threads if key[1] != ALL}
            spent[pid, ALL] = max(0.0, self.spent[pid, ALL] - sum(spent.values()))  # of threads that have ended
            busy = sum(spent.values()) / self.seconds
            if busy < WORTH_A_LINE:
                continue
            last = self.seen[pid]
            busiest, *others = sorted(spent, key=lambda key: -spent[key])
            worth = [key for key in others if spent[key] / self.seconds >= WORTH_A_LINE]
            yield ProcessLoad(
                node=last["node"],
                name=last["name"],
                role=last["role"],
                busy=round(busy, 4),
                user=_user(self.modes.get(pid, Counter())),
                threads=len(last.get("threads", [0])),
                allowed=last.get("allowed", []),
                busiest=self._thread(busiest, spent[busiest]) if last["node"] else None,
                others=[self._thread(key, spent[key]) for key in worth] if last["node"] else [],
            )

    def _thread(self, key: tuple[str, str], spent_s: float) -> ThreadLoad:
        on = self.on.get(key, set())
        return ThreadLoad(
            busy=round(spent_s / self.seconds, 4),
            waiting=round(self.waited[key] / self.seconds, 4),
            core=next(iter(on)) if len(on) == 1 else None,
        )

    def _ports(self) -> Iterator[PortLoad]:
        for node, port, queue in dict.fromkeys(key[:3] for key in self.ports):
            counts = {what: self.ports[node, port, queue, what] for what in ("packets", "drops", "waited")}
            if counts["drops"] or counts["waited"]:
                yield PortLoad(node=node, port=port, queue=queue, **counts)


def _user(modes: Counter[int]) -> float | None:
    return round(modes[0] / modes.total(), 3) if modes.total() else None


def _core(core: int, ticks: Counter[int]) -> CoreLoad:
    total = max(1, sum(ticks.values()))
    user, system, irq, softirq, steal = (round(ticks[i] / total, 4) for i in range(5))
    return CoreLoad(core=core, user=user, system=system, irq=irq, softirq=softirq, steal=steal)
