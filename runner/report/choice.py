"""Which VPN for the user's line: the answer, the bands of lines, what would change it, and what was not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pydantic import Field, InstanceOf

from runner.choice.answer import Words, answer, bands, changes, unsettled
from runner.choice.candidates import candidates
from runner.choice.devices import Device, devices
from runner.choice.machine import MachineState, machine_state
from runner.choice.model import Answer, Band, Change
from runner.choice.musts import State, states, words_of
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.scale import NoScale, no_scale
from runner.data.shipped import shipped_beside, shipped_runs
from runner.data.trials import Run, Strict, Trial, VpnRecord
from runner.ranking.basis import comparable
from runner.report.side_by_side import SideBySide, side_by_side

DATAGRAMS = ("udp", "ladder")


class Kin(Strict):
    """A program that was measured, and a VPN that speaks the same protocol in the kernel and was not. ``lacks``: the
    musts that the latter does not have, as far as shipped runs and declarations tell."""

    vpn: str
    kernel: str
    lacks: list[Must] = []


class Choice(Strict):
    """The choice that a run allows. ``answer``: for the stated line, None where none is stated, or where the machine
    forbids one, and then no ``bands`` either; ``bands``: for every
    line; ``unsettled``: the asked lines that more of the same measurements would settle, bit/s; ``states``: VPN -> must
    -> what is known of it; ``absent``: VPNs that were asked for and not measured here, the kernel's first; ``partly``:
    those of which datagrams could not be measured -> why; ``others``:
    VPNs that the run has not come to and that have the musts, as far as shipped runs and declarations tell;
    ``kin``: of the programs that were measured; ``machine``: what it did beside, which may forbid an answer; ``scale``:
    why data planes are not compared; ``beside``: what is known of the named VPNs, where they are two or more.
    ``devices`` are what all of it was made from; they are not part of report.json."""

    needs: Needs
    answer: Answer | None
    bands: list[Band]
    changes: list[Change]
    unsettled: list[float]
    states: dict[str, dict[Must, State]]
    absent: list[str]
    partly: dict[str, str] = {}
    others: list[str] = []
    kin: list[Kin]
    machine: MachineState
    scale: NoScale | None = None
    beside: SideBySide | None = None
    devices: dict[str, InstanceOf[Device]] = Field(default={}, exclude=True)

    @property
    def named(self) -> set[str]:
        """The VPNs of the answer, or of all lines where none is stated."""
        return {*self.answer.named} if self.answer else {vpn for band in self.bands for vpn in band.named}


def choice(run: Run, trials: Sequence[Trial]) -> Choice | None:
    """The choice for the run's needs. None for a run that has measured no ladder of any VPN."""
    measured = devices(run, trials)
    if not measured:
        return None
    known = states(run, trials, shipped_runs())
    words = words_of(known)
    machine = machine_state(trials, [*measured], real=not no_scale(run))
    every = [] if machine.forbids else bands(measured, words, run.needs, state=machine)
    stated = run.needs.line_bps and not machine.forbids
    said = answer(measured, words, run.needs, state=machine) if stated else None
    made = Choice(
        needs=run.needs,
        answer=said,
        bands=every,
        changes=changes(measured, words, said, every) if said else [],
        unsettled=unsettled(measured, words, run.needs, state=machine),
        states=known,
        absent=_absent(run, trials),
        partly=_partly(run, trials),
        others=_others(run),
        kin=_kin(run, trials, sorted(measured)),
        machine=machine,
        scale=no_scale(run),
        devices=measured,
    )
    return made.model_copy(update={"beside": _beside(made, run, trials, words)})


def _beside(made: Choice, run: Run, trials: Sequence[Trial], words: Words) -> SideBySide | None:
    """The table of the named VPNs, in the order of the answer, or of the lines."""
    vpns = made.answer.named if made.answer else [vpn for band in made.bands for vpn in band.named]
    on = partial(answer, made.devices, words, state=made.machine)
    runs = [(run, trials), *shipped_beside()]
    return side_by_side([*dict.fromkeys(vpns)], on, made.needs, made.devices, made.states, runs)


def _others(run: Run) -> list[str]:
    """The VPNs that the run has not come to and that have every must in force. None where data planes have no scale."""
    if no_scale(run):
        return []
    records = {name: record for shipped, _ in reversed(shipped_runs()) for name, record in shipped.vpns.items()}
    return [vpn for vpn in candidates(records, run.needs) if vpn not in run.vpns]


def _absent(run: Run, trials: Sequence[Trial]) -> list[str]:
    """The VPNs without a number, those of the kernel's data path first."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    absent = [vpn for vpn in comparable(run) if vpn not in measured]
    return sorted(absent, key=lambda vpn: (run.vpns[vpn].dataplane != "kernel", vpn))


def _partly(run: Run, trials: Sequence[Trial]) -> dict[str, str]:
    """Of the VPNs that join networks and were measured, those that carry no datagrams of the length that was asked for,
    and why."""
    measured = {trial.vpn for trial in trials if trial.status == "ok" and run.vpns[trial.vpn].carries != "tcp"}
    return {
        trial.vpn: trial.reason
        for trial in trials
        if trial.status == "unsupported" and trial.vpn in measured and trial.params.get("measure") in DATAGRAMS
    }


def _kin(run: Run, trials: Sequence[Trial], judged: Sequence[str]) -> list[Kin]:
    """The kin of the judged programs: of the VPNs that were asked for, or else of all that are known."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    every = {name: record for shipped, _ in reversed(shipped_runs()) for name, record in shipped.vpns.items()}
    known = states(run.model_copy(update={"vpns": every | run.vpns}), trials, shipped_runs())
    found = []
    for vpn in judged:
        twins = _in_kernel(run.vpns, run.vpns[vpn]) or _in_kernel(every, run.vpns[vpn])
        for kernel in () if measured & {*twins} else twins:
            lacks = [must for must, state in known[kernel].items() if state.word == "no"]
            found.append(Kin(vpn=vpn, kernel=kernel, lacks=lacks))
    return found


def _in_kernel(records: Mapping[str, VpnRecord], own: VpnRecord) -> list[str]:
    """The VPNs of the kernel that speak a program's protocol."""
    if own.dataplane != "userspace" or not own.speaks:
        return []
    return [name for name, record in records.items() if (record.speaks, record.dataplane) == (own.speaks, "kernel")]
