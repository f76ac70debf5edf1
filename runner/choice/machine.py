"""What else the machine did while a run was measured: enough of it forbids an answer."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from runner.data.kinds import Strict
from runner.data.loads import MachineLoad
from runner.data.trials import Trial

CALM, BUSY = 0.1, 0.4  # of the CPU time that other programs and the hypervisor had, in the middle slice
DISTURBED = 0.15  # from here on a cost, and that a line is not carried, is probable at most
FEWEST_ROUNDS = 4  # of each ladder: fewer tell no spread
TOLD = 3  # programs that are named
Forbids = Literal["busy", "few"]


class Program(Strict):
    """A program outside of the lab, and how many cores' worth of CPU time it had."""

    name: str
    cores: float


class MachineState(Strict):
    """What the machine did beside the run. ``stolen``: the share of the CPU time that the hypervisor took; ``foreign``:
    that programs outside of the lab had; ``programs``: the largest of these; ``rounds``: how often each ladder of the
    VPN that was measured most was climbed at least; ``real``: it is no emulated machine, on which nothing takes as long
    as elsewhere."""

    stolen: float = 0.0
    foreign: float = 0.0
    programs: list[Program] = []
    rounds: int = FEWEST_ROUNDS
    real: bool = True

    @property
    def taken_share(self) -> float:
        """The share of the CPU time that the lab could not have."""
        return self.stolen + self.foreign

    @property
    def calm(self) -> bool:
        """Was the machine left alone, and is it a real one? Else what is not carried here may be carried elsewhere."""
        return max(self.stolen, self.foreign) <= CALM and self.real

    @property
    def is_disturbed(self) -> bool:
        """Was so much taken that the lab's own CPU time and rates are doubtful?"""
        return self.taken_share > DISTURBED

    @property
    def forbids(self) -> Forbids | None:
        """Why the run allows no answer; None where it does."""
        return "busy" if self.taken_share > BUSY else "few" if self.rounds < FEWEST_ROUNDS else None


def machine_state(trials: Sequence[Trial], vpns: Sequence[str], *, real: bool = True) -> MachineState:
    """The state of the machine, from all ``trials`` of a run, of which the ladders of ``vpns`` are judged. ``real``: is
    it no emulated one?"""
    steal = [trial.noise.steal_ratio for trial in trials if trial.noise and trial.noise.steal_ratio is not None]
    loads = [load for trial in trials for load in trial.loads if load.cores]
    climbed: dict[str, Counter[str]] = {vpn: Counter() for vpn in vpns}
    for trial in trials:
        if trial.curve and trial.vpn in climbed and trial.status == "ok":
            climbed[trial.vpn][trial.cell] += max(len(rung.rounds) for rung in trial.curve)
    ladders = [trial.noise.foreign_ratio for trial in trials if trial.noise and trial.noise.foreign_ratio is not None]
    return MachineState(
        stolen=statistics.median(steal or [0.0]),
        foreign=statistics.median([*map(foreign_share, loads), *ladders] or [0.0]),
        programs=_programs(loads),
        real=real,
        rounds=max((min(of.values()) for of in climbed.values() if of), default=0),
    )


def foreign_share(load: MachineLoad) -> float:
    """The share of a machine's CPU time that programs outside of the lab had."""
    outside = [process.busy for process in load.processes if process.role == "other" and not process.node]
    return sum(outside) / len(load.cores) if load.cores else 0.0


def _programs(loads: Sequence[MachineLoad]) -> list[Program]:
    cores = dict[str, float]()
    for load in loads:
        for process in load.processes:
            if process.role == "other" and not process.node:
                cores[process.name] = cores.get(process.name, 0.0) + process.busy / len(loads)
    largest = sorted(cores.items(), key=lambda item: -item[1])[:TOLD]
    return [Program(name=name, cores=round(share, 3)) for name, share in largest]
