"""What gateways with cores of their own would carry, by what the VPN's programs cost on shared ones.

Shared cores rank the VPNs by the CPU time of everything together; separate gateways rank them by the busiest thread. A
thread cannot be in two places. A program that needs c seconds for a byte on shared cores carries at least 1/c on a core
of its own, and up to GAINS times that: it sleeps and is woken up less, takes more packets at a time, and has the core,
its caches and its other hyperthread to itself (decision 0037 has the measurements). What several threads share
can grow to all the cores of a gateway, and need not grow at all.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from runner.data.kinds import Strict
from runner.data.loads import MachineLoad, ProcessLoad, Role
from runner.data.numbers import lead

CARRIES = 0.1  # of a core: less does not carry the packets
ONE = 0.9  # of what its process costs: then the thread does it all
GAINS = 3.0  # on a core of its own, at most: 0.9 to 2.9 were measured, from loads of half of the throughput and more
VPN: Role = "vpn"


class Apart(Strict):
    """What separate gateways of the same kind would carry: between ``low_bps`` and ``high_bps`` of payload, and the
    program that decides it (of ``node``; ``threads``: how many of it are at work)."""

    low_bps: float
    high_bps: float
    node: str
    program: str
    threads: int


def on_own_cores(trials: Sequence[Sequence[MachineLoad]], here_bps: float = 0.0) -> Apart | None:
    """The predicted rates on separate gateways: the median over the loads of a cell's trials. ``here_bps``: what shared
    cores carried.

    Gateways with more cores carry no less than shared ones, so that the lower end is ``here_bps`` at least. None where
    no prediction can be made: no program of the VPN carries the packets (the kernel does), the gateways have cores of
    their own already, or shared cores carried more than the upper end, so that the loads are not those of that rate.
    """
    predictions = [prediction for loads in trials if (prediction := _share_apart(loads)) is not None]
    if not predictions:
        return None
    low_bps, high_bps = (
        statistics.median(bounds) for bounds in zip(*[(a.low_bps, a.high_bps) for a in predictions], strict=True)
    )
    if lead(high_bps, here_bps) < 0:
        return None
    middle = min(predictions, key=lambda prediction: abs(prediction.low_bps - low_bps))
    return middle.model_copy(update={"low_bps": max(low_bps, here_bps), "high_bps": high_bps})


def overtakings(here_bps: Mapping[str, float], there: Mapping[str, Apart]) -> tuple[list[tuple[str, str]], ...]:
    """Pairs of VPNs (slower here, faster here) whose order would change on separate gateways: certainly, and possibly.

    ``here_bps``: what was measured; ``there``: the predictions of those that have one.
    """
    order = sorted(there.keys() & here_bps.keys(), key=lambda vpn: (here_bps[vpn], vpn))
    pairs = [(slower, faster) for i, slower in enumerate(order) for faster in order[i + 1 :]]
    surely = [(a, b) for a, b in pairs if lead(there[a].low_bps, there[b].high_bps) > 0]
    perhaps = [(a, b) for a, b in pairs if lead(there[a].high_bps, there[b].low_bps) > 0 and (a, b) not in surely]
    return surely, perhaps


def _share_apart(loads: Sequence[MachineLoad]) -> Apart | None:
    if len(loads) != 1 or not loads[0].carried_bytes or len(loads[0].nodes) < 2:
        return None
    machine = loads[0]
    carriers = [program for program in machine.processes if program.role == VPN and program.busy >= CARRIES]
    predictions = [_share_of(program, machine) for program in carriers]
    for node in {program.node for program in carriers}:  # all of a gateway's programs together have its cores
        own = [program for program in carriers if program.node == node]
        high = max(_bounds(machine, own, len(machine.cores)))
        predictions.append(Apart(low_bps=high, high_bps=high, node=node, program=own[0].name, threads=_threads(own)))
    if not predictions:
        return None
    slowest = min(predictions, key=lambda prediction: (prediction.high_bps, prediction.low_bps))
    return slowest.model_copy(update={"low_bps": min(prediction.low_bps for prediction in predictions)})


def _share_of(process: ProcessLoad, machine: MachineLoad) -> Apart:
    alone = process.busiest is None or process.busiest.busy >= ONE * process.busy
    low, high = _bounds(machine, [process], 1 if alone else min(process.threads, len(machine.cores)))
    threads = 1 if alone else process.threads
    return Apart(low_bps=low, high_bps=high, node=process.node, program=process.name, threads=threads)


def _bounds(machine: MachineLoad, programs: Sequence[ProcessLoad], cores: int) -> tuple[float, float]:
    """Two payload rates (bit/s) of these programs: the rate at which they fill one core at the cost measured here, and
    the rate at which they fill ``cores`` cores of their own at the lowest cost to expect there."""
    bits_per_core_s = 8 * machine.carried_bytes / machine.seconds / sum(program.busy for program in programs)
    return bits_per_core_s, GAINS * bits_per_core_s * cores


def _threads(processes: Sequence[ProcessLoad]) -> int:
    return sum(process.threads for process in processes)
