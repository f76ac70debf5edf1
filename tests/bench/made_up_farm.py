"""Blocks of a farm as a machine would answer with them, of made-up numbers; and a farm in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runner.data.trials import Cell, ExperimentRecord, Machine, Run, Slice, Trial
from runner.farm.block import pack
from runner.farm.coordinator import JobResult, SchedulerLost
from runner.sweep.conductor import ROUNDS_OF_A_BLOCK
from tests.unit.synthetic import CBC, METRICS, PLAIN, TCP, make_run, make_trial

VPNS = {"none": 10e9, "openvpn": 250e6, "wireguard_go": 570e6, "ssh_tun": 350e6}  # bit/s
NOISE = 0.02  # of a slice
MACHINE = Machine(
    cpu="Made-up CPU @ 2.0 GHz",
    cores=2,
    memory_bytes=8 << 30,
    kernel="6.18.0",
    image="trixie 0123",
    versions="0.1.0 ab",
)


def cells() -> list[Cell]:
    return [Cell(vpn=vpn, params=(PLAIN if vpn == "none" else CBC) | TCP) for vpn in VPNS]


def run_of(blocks: int) -> Run:
    experiment = ExperimentRecord(
        name="transport",
        question="Which is the fastest?",
        method="Made up.",
        source="",
        factors={},
        metrics=["tcp_throughput"],
        cells=cells(),
    )
    run = make_run(tuple(VPNS), (experiment,), blocks)
    own = {"configurations": {"comparable": dict(CBC)}}
    vpns = {name: one.model_copy(update=own) for name, one in run.vpns.items()}
    return run.model_copy(update={"vpns": vpns, "metrics": {"tcp_throughput": METRICS["tcp_throughput"]}})


def block_of(
    number: int, rounds: int = 8, speeds: Mapping[str, float] = VPNS, seed: int | None = None
) -> tuple[list[Trial], list[Slice]]:
    """The trials and the slices of a block; the same whenever it is asked for."""
    rng = np.random.default_rng(number if seed is None else seed)
    trials, slices = [], []
    together = np.exp(rng.normal(0, 0.1, rounds))  # what moves all alike
    first = ROUNDS_OF_A_BLOCK * (number - 1) + 1
    for cell in cells():
        values = [float(x) for x in speeds[cell.vpn] * together * np.exp(rng.normal(0, NOISE, rounds))]
        trial = make_trial(cell.vpn, cell.params, number, {"tcp_throughput": float(np.mean(values))})
        numbers = list(range(first, first + rounds))
        found = trial.measurements[0].model_copy(update={"samples": values, "rounds": numbers})
        trials.append(trial.model_copy(update={"measurements": [found], "log": f"logs/r{number}-{cell.vpn}"}))
        slices += [
            Slice(
                trial=trial.id, number=at + 1, round=round_, at_s=at, duration_s=0.2, values={"tcp_throughput": value}
            )
            for at, (round_, value) in enumerate(zip(numbers, values, strict=True))
        ]
    return trials, slices


def packed(
    run: Run, trials: Sequence[Trial], slices: Sequence[Slice], more: Mapping[str, bytes] | None = None
) -> bytes:
    """An answer with these."""
    return pack({**files_of(run, trials, slices), **(more or {})})


def files_of(run: Run, trials: Sequence[Trial], slices: Sequence[Slice]) -> dict[str, bytes]:
    """The files of a run folder."""
    return {
        "run.json": run.model_dump_json().encode(),
        "trials.jsonl": "".join(one.model_dump_json() + "\n" for one in trials).encode(),
        "slices.jsonl": "".join(one.model_dump_json() + "\n" for one in slices).encode(),
        **{f"{trial.log}/commands.log": b"[gw1] ip link add\n" for trial in trials if trial.log},
    }


@dataclass
class Fake:
    """A machine of `PaperWorkers`: what it is, and what it does with each block."""

    name: str
    machine: Machine = MACHINE
    has: list[int] = field(default_factory=list)
    says: Callable[[int], str] = lambda block: ""  # the error that it raises
    silent: bool = False
    images: dict[str, Any] = field(default_factory=dict)
    introduces: Callable[..., Any] | None = None  # what it says of itself instead, from what it is asked to do
    answers: Callable[[int], bytes] = lambda number: packed(run_of(1), *block_of(number))
    measured: list[int] = field(default_factory=list)

    def introduction(self, job: object, work: Callable[..., Any], *args: Any) -> JobResult:
        if self.introduces is None:
            facts = {"name": self.name, "machine": self.machine.model_dump(), "has": self.has, "images": self.images}
            return JobResult(job, result=facts)
        try:
            return JobResult(job, result=self.introduces(work, *args))
        except Exception as error:
            return JobResult(job, error=str(error))


@dataclass
class PaperWorkers:
    """Workers that answer at once, in the process of the coordinator. ``events``: after so many answers, do this."""

    machines: dict[str, Fake]
    events: dict[int, Callable[[PaperWorkers], None]] = field(default_factory=dict)
    lost: bool = False
    reconnects: int = 0
    _waiting: list[tuple[int, JobResult]] = field(default_factory=list)
    _jobs: int = 0
    _answered: int = 0
    stored: list[int] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)  # what each introduction was asked with

    def addresses(self) -> set[str]:
        if self.lost:
            raise SchedulerLost
        return set(self.machines)

    def start(self, address: str, work: Callable[..., Any], *args: Any, lab: bool) -> object:
        self._jobs += 1
        job, machine = self._jobs, self.machines[address]
        if not lab:
            self.asked.append(args)
            self._waiting.append((job, machine.introduction(job, work, *args)))
            return job
        number = args[1]
        self.stored += args[4]
        if machine.silent:
            return job
        if error := machine.says(number):
            self._waiting.append((job, JobResult(job, error=error)))
        else:
            machine.measured += [number] * (number not in machine.has)
            self._waiting.append((job, JobResult(job, result=machine.answers(number))))
        return job

    def answers(self, within_s: float) -> list[JobResult]:
        if not self._waiting:
            return []
        self._answered += 1
        if event := self.events.pop(self._answered, None):
            event(self)
        if not self._waiting:
            return []
        return [self._waiting.pop(0)[1]]

    def cancel(self, job: object) -> None:
        self._waiting = [one for one in self._waiting if one[0] != job]

    def reconnect(self) -> None:
        self.lost, self._waiting, self.reconnects = False, [], self.reconnects + 1
