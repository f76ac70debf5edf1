"""What limited a throughput: one sentence from what the machines of the lab were busy with meanwhile.

The order of the questions is the order of their certainty. A quota says itself that it held somebody back; a shaped
port counts what it drops. A thread that had a core to itself all the time cannot be faster; one that was ready to run
and had none was held back by whoever had the cores. See decision 0037.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from runner.data.loads import Limit, MachineLoad, PortLoad, ProcessLoad

FULL = 0.8  # of the time: the begin and the end of a slice, in which queues fill and empty, are watched, too
HELD_BACK = 0.1  # of the time, by a quota
USED_UP = 0.3  # of the periods, by a quota
STOLEN = 0.1  # of the cores' time
FOREIGN = 0.1  # of the cores' time: less does not decide
WAITS = 0.1  # of the time, without a core: less is what any program waits
MOST = 0.5  # of all drops
LOST = 0.002  # of the packets at a shaped port
WAITED = 0.2  # of the packets at a shaped port
CARRIES = 0.1  # of a core: a VPN's program that has less does not carry the packets
NAMED = 3
NAMED_THREADS = 3
FOREIGN_NAMED = 2

Machines = Sequence[MachineLoad]


def judge(machines: Machines, *, generator_limited: bool = False) -> Limit | None:
    """The limit of a throughput; None where no machine was watched. ``generator_limited``: the search reported that the
    generator could offer no more."""
    if not machines:
        return None
    limit = (
        _quota(machines)
        or _shaper_limit(machines, certain=True)
        or _stolen(machines)
        or _full(machines)
        or _foreign(machines)
        or _generator(machines, generator_limited)
        or _softirq(machines)
        or _busy(machines)
        or _shaper_limit(machines, certain=False)
        or _queue(machines)
        or _nothing(machines)
    )
    return limit.model_copy(update={"evidence": [*evidence(machines)]})


def evidence(machines: Machines) -> Iterator[str]:
    """The figures behind the sentence, one in each line."""
    for machine in machines:
        cores = ", ".join(f"core {core.core} {percent(core.busy)}" for core in machine.cores)
        yield f"{machine.name}: {cores} busy, watched for {machine.seconds:.1f} s"
        for quota in machine.quotas:
            used_up = f"used up in {quota.used_up} of {quota.periods} periods"
            held = f"it held processes back for {quota.held_back_s:.2f} s"
            yield f"{_names(quota.nodes)}: a quota of {quota.cores:g} cores, {used_up}; {held}"
        for process in machine.processes[:NAMED]:
            waits = process.busiest.waiting if process.busiest else 0.0
            waited = f", waits {percent(waits)}" if waits >= WAITS else ""
            shares = [percent(thread.busy) for thread in (process.busiest, *process.others) if thread]
            by = f", its threads {', '.join(shares[:NAMED_THREADS])}" if len(shares) > 1 else ""
            yield f"{_owner_words(process)}: {percent(process.busy)} of a core{by}{waited}"
        for port in sorted(machine.ports, key=lambda port: -port.drops)[:NAMED]:
            if port.drops:
                yield f"{_port(port)}: {port.drops} of {port.packets} packets dropped"
        for node, count in machine.overflows.items():
            yield f"{node}: full socket buffers refused {count} datagrams"
        if machine.softnet_dropped:
            yield f"{machine.name}: the kernel dropped {machine.softnet_dropped} packets before it looked at them"
        if machine.softnet_squeezed:
            yield f"{machine.name}: {machine.softnet_squeezed} times the kernel left packets that had arrived for later"
        yield from _heat(machine)


def _heat(machine: MachineLoad) -> Iterator[str]:
    if machine.temperature_c is not None:
        yield f"{machine.name}: {machine.temperature_c:.0f} °C"
    if machine.heat_events:
        yield f"{machine.name}: cores were slowed down for their heat {machine.heat_events} times"
    if machine.clock_ratio is not None:
        yield f"{machine.name}: the fastest core ran at {percent(machine.clock_ratio)} of its highest frequency"


def percent(share: float) -> str:
    """The share of a core, or of the time, in per cent."""
    return f"{100 * share:.0f} %"


# --- The questions, in their order -----------------------------------------------------------------------------------


def _quota(machines: Machines) -> Limit | None:
    quotas = [(quota, machine.seconds) for machine in machines for quota in machine.quotas]
    for quota, seconds in sorted(quotas, key=lambda pair: -pair[0].held_back_s / pair[1]):
        held, used_up = min(1.0, quota.held_back_s / seconds), quota.used_up / max(1, quota.periods)
        if held >= HELD_BACK or used_up >= USED_UP:
            where = _names(quota.nodes)
            return Limit(sentence=f"{where}'s quota: throttled {percent(held)} of the time", where=where, kind="quota")
    return None


def _stolen(machines: Machines) -> Limit | None:
    machine = max(machines, key=_steal)
    if (stolen := _steal(machine)) < STOLEN:
        return None
    sentence = f"{machine.name}: the hypervisor took {percent(stolen)} of its cores' time under this load"
    return Limit(sentence=sentence, where=_node_name(machine), kind="steal")


def _foreign(machines: Machines) -> Limit | None:
    """Other programs, neither the VPN's nor ours, occupy the cores while our programs are ready to run."""
    contended = [machine for machine in machines if _idle(machine) <= 1 - FULL and _waits(machine) >= WAITS]
    for machine in contended:
        taken: dict[tuple[bool, str, str], list[float]] = {}
        for process in machine.processes:
            if process.role == "other":
                taken.setdefault((not process.node, process.node, process.name), []).append(process.busy)
        most = {key: busy for key, busy in taken.items() if sum(busy) >= FOREIGN * len(machine.cores)}
        if most:  # the lab's own first
            most = dict(sorted(most.items(), key=lambda group: (group[0][0], -sum(group[1])))[:FOREIGN_NAMED])
            programs = [
                f"{node or 'outside of the lab'}: {_several(len(busy), name)}, {percent(sum(busy))} of a core"
                for (_, node, name), busy in most.items()
            ]
            return Limit(sentence=f"{'; '.join(programs)} (not the VPN's)", where=min(most)[1], kind="foreign")
    for machine in contended:  # a node of ssh sees its own programs only
        beside = sum(core.busy for core in machine.cores) - sum(process.busy for process in machine.processes)
        if len(machine.nodes) == 1 and beside >= MOST * len(machine.cores):
            sentence = f"{machine.name}: programs outside of the lab, or the kernel's own, {percent(beside)} of a core"
            return Limit(sentence=sentence, where=machine.name, kind="foreign")
    return None


def _shaper_limit(machines: Machines, *, certain: bool) -> Limit | None:
    """A port that keeps a rate drops most of all dropped packets, or makes most of its packets wait."""
    ports = [port for machine in machines for port in machine.ports]
    shaped = [port for port in ports if port.waited]
    if not shaped:
        return None
    port = max(shaped, key=lambda port: (port.drops, port.waited))
    dropped = sum(port.drops for port in ports) + sum(sum(machine.overflows.values()) for machine in machines)
    most = port.drops > 0 and port.drops >= MOST * dropped
    lost = most and port.drops >= LOST * port.packets
    if lost or (not certain and (most or (not dropped and port.waited >= WAITED * port.packets))):
        what = f"{port.drops} of {port.packets} packets dropped" if port.drops else f"{port.waited} packets had to wait"
        return Limit(sentence=f"the path: {what} at {_port(port)}", where=port.node, kind="path")
    return None


def _full(machines: Machines) -> Limit | None:
    """A thread of the VPN had a core to itself, or a process had all the cores that it may use."""
    if (process := _fullest(machines, "vpn")) is None or process.busiest is None:
        return None
    share = process.busy / len(process.allowed) if process.allowed else 0.0
    if process.threads > 1 and share >= FULL and process.busiest.busy < FULL * process.busy:
        cores = f"core {process.allowed[0]}" if len(process.allowed) == 1 else f"{len(process.allowed)} cores"
        sentence = f"{process.node}: {process.name}'s {process.threads} threads together, {percent(share)} of {cores}"
        return Limit(sentence=sentence, where=process.node, kind="process")
    which = (
        f"{process.name}'s only thread"
        if process.threads == 1
        else f"one of {process.name}'s {process.threads} threads"
    )
    sentence = f"{process.node}: {which}, {percent(process.busiest.busy)} of {_core(process)}"
    return Limit(sentence=sentence, where=process.node, kind="thread")


def _generator(machines: Machines, limited: bool) -> Limit | None:
    """This program's own sender or receiver is at its limit. On shared cores, the kernel's work for a packet at all
    nodes is charged to the program that sends it. Without a VPN's program on the way, no other program works."""
    if (process := _fullest(machines, "generator")) is None or process.busiest is None:
        return Limit(sentence="the generator: it could offer no more", kind="generator") if limited else None
    busy = f"{_owner_words(process)}, {percent(process.busiest.busy)} of {_core(process)}"
    carries = any(other.role == "vpn" and other.busy >= CARRIES for machine in machines for other in machine.processes)
    if not carries and any(map(_of_both_sites, machines)):
        whole = f"shared cores: {busy}, with the kernel's work of all nodes"
        return Limit(sentence=whole, where=process.node, kind="shared cores")
    return Limit(sentence=f"the generator: {busy}", where=process.node, kind="generator")


def _softirq(machines: Machines) -> Limit | None:
    for machine in machines:
        for core in machine.cores:
            if core.softirq + core.irq >= FULL:
                share = percent(core.softirq + core.irq)
                sentence = f"{machine.name}: the kernel's work for packets (softirq), {share} of core {core.core}"
                return Limit(sentence=sentence, where=_node_name(machine), kind="kernel")
    return None


def _busy(machines: Machines) -> Limit | None:
    """All cores of a machine are busy, and no program has one to itself."""
    machine = min(machines, key=_idle)
    if _idle(machine) > 1 - FULL or not machine.processes:
        return None
    most = " and ".join(
        f"{_owner_words(process)} ({percent(process.busy)} of one)" for process in machine.processes[:2]
    )
    who = "shared cores" if _of_both_sites(machine) else machine.name
    sentence = f"{who}: {_all_cores(len(machine.cores))} busy, most by {most}"
    return Limit(sentence=sentence, where=_node_name(machine), kind="shared cores")


def _queue(machines: Machines) -> Limit | None:
    """No program is busy all the time, and still packets are dropped: a queue is too short for bursts."""
    dropped: Counter[str] = Counter()
    for machine in machines:
        for port in machine.ports:
            dropped[f"{port.node}\0{port.drops} packets dropped at {_port(port)}"] += port.drops
        for node, count in machine.overflows.items():
            dropped[f"{node}\0{count} datagrams refused by full socket buffers of {node}"] += count
    if not dropped or not (top := dropped.most_common(1)[0])[1]:
        return None
    where, what = top[0].split("\0")
    return Limit(sentence=f"a queue: {what}", where=where, kind="queue")


def _nothing(machines: Machines) -> Limit:
    processes = [
        process for machine in machines for process in machine.processes if process.role in ("vpn", "generator")
    ]
    busiest = max(processes, key=lambda process: process.busy, default=None)
    most = f"; the busiest program, {_owner_words(busiest)}, had {percent(busiest.busy)} of a core" if busiest else ""
    return Limit(sentence=f"none found: no core, queue or quota was used up{most}", kind="none found")


# --- Words -----------------------------------------------------------------------------------------------------------


def _fullest(machines: Machines, role: str) -> ProcessLoad | None:
    """The process of that role that has most of the cores that it can have; None where that is not nearly all."""
    processes = [process for machine in machines for process in machine.processes if process.role == role]
    fullest = max(processes, key=_fullness, default=None)
    return fullest if fullest is not None and _fullness(fullest) >= FULL else None


def _fullness(process: ProcessLoad) -> float:
    """The share of what the process can have: of one core for its busiest thread, or of all the cores that it may
    use."""
    thread = process.busiest.busy if process.busiest else 0.0
    return max(thread, process.busy / len(process.allowed) if process.allowed else 0.0)


def _core(process: ProcessLoad) -> str:
    """The core that the process's busiest thread was on."""
    core = process.busiest.core if process.busiest else None
    core = process.allowed[0] if len(process.allowed) == 1 else core
    return "a core" if core is None else f"core {core}"


def _owner_words(process: ProcessLoad) -> str:
    return f"{process.node}'s {process.name}" if process.node else f"{process.name} outside of the lab"


def _several(number: int, name: str) -> str:
    return name if number == 1 else f"{number} × {name}"


def _port(port: PortLoad) -> str:
    return f"{port.node}'s port {port.port}" + (f" ({port.queue})" if port.queue else "")


def _names(nodes: Sequence[str]) -> str:
    return " and ".join(nodes)


def _all_cores(cores: int) -> str:
    return "its only core" if cores == 1 else "both cores" if cores == 2 else f"all {cores} cores"


def _of_both_sites(machine: MachineLoad) -> bool:
    """Does the machine hold both gateways, as in a lab of namespaces?"""
    return {"gw1", "gw2"} <= {*machine.nodes}


def _node_name(machine: MachineLoad) -> str:
    return machine.nodes[0] if len(machine.nodes) == 1 else ""


def _idle(machine: MachineLoad) -> float:
    """The share of the machine's cores' time that is left."""
    return 1 - sum(core.busy for core in machine.cores) / len(machine.cores)


def _waits(machine: MachineLoad) -> float:
    """For how much of the time our programs and the VPN's were ready to run without a core, summed over them."""
    ours = [process.busiest for process in machine.processes if process.role in ("vpn", "generator")]
    return sum(thread.waiting for thread in ours if thread)


def _steal(machine: MachineLoad) -> float:
    return sum(core.steal for core in machine.cores) / len(machine.cores)
