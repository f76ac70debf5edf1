"""Judges which VPN suits the user's line: the answer, the bands of lines, and what would change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import partial

from questions.choose.judgement import Choice, Kin, SideBySide
from questions.choose.side_by_side import side_by_side
from runner.choice.answer import Words, answer, bands, changes, unsettled_lines
from runner.choice.candidates import candidates
from runner.choice.devices import devices, path_tcp_bps
from runner.choice.machine import FEWEST_ROUNDS, machine_state
from runner.choice.model import RATES_BPS
from runner.choice.musts import states, words_of
from runner.data.scale import no_scale
from runner.data.shipped_runs import shipped_beside, shipped_runs
from runner.data.trials import Run, Trial, VpnRecord
from runner.evidence.configurations import absent_vpns

DATAGRAMS = ("udp", "ladder")
FEWEST_INSTANCES = 2  # of the tunnels of each VPN


def choice(run: Run, trials: Sequence[Trial]) -> Choice:
    """The choice for the run's needs; without ``devices`` where the run has measured no ladder of any VPN yet. Nothing
    is said before FEWEST_ROUNDS passes of each ladder, in FEWEST_INSTANCES tunnels."""
    measured = devices(run, trials)
    machine = machine_state(trials, [*measured], real=not no_scale(run))
    few = machine.rounds < FEWEST_ROUNDS or _climbed_too_seldom(trials, measured)
    asked = [run.needs.line_bps] if run.needs.line_bps else [*RATES_BPS]
    if not measured:
        return Choice(needs=run.needs, unsettled=asked, early=True, machine=machine, is_made=False)
    climbers = {trial.vpn for trial in trials if trial.curve}
    known = states(run, trials, shipped_runs())
    words = words_of(known)
    every = [] if machine.forbids else bands(measured, words, run.needs, state=machine)
    stated = run.needs.line_bps and not machine.forbids
    said = answer(measured, words, run.needs, state=machine) if stated else None
    others, elsewhere = _unmeasured_candidates(run, trials)
    made = Choice(
        needs=run.needs,
        answer=said,
        bands=every,
        changes=changes(measured, words, said, every) if said else [],
        unsettled=asked if few else unsettled_lines(measured, words, run.needs, state=machine),
        # A VPN whose ladder fails is few for ever: in later tunnels all else has its turns again.
        early=few and len({trial.repetition for trial in trials if trial.curve}) <= FEWEST_INSTANCES,
        states=known,
        absent=absent_vpns(run, trials),
        partly=_partly(run, trials),
        others=[vpn for vpn in others if vpn not in elsewhere],
        elsewhere=elsewhere,
        kin=_kin(run, trials, sorted(measured)),
        path_tcp_bps=path_tcp_bps(run),
        machine=machine,
        scale=no_scale(run),
        fresh=[vpn for vpn, record in run.vpns.items() if record.after and vpn not in climbers],
        devices=measured,
        titles={vpn: record.title for vpn, record in run.vpns.items()},
    )
    return made.model_copy(update={"beside": _compare_named(made, run, trials, words)})


def _climbed_too_seldom(trials: Sequence[Trial], vpns: Container[str]) -> bool:
    """Has a ladder that carries anything been climbed too seldom, or in too few tunnels?"""
    known = [trial for trial in trials if trial.curve and trial.vpn in vpns]
    climbed = Counter[str]()
    for trial in known:
        climbed[trial.cell] += len(trial.curve[0].rounds)
    carrying = {trial.cell for trial in known if any(value.value for value in trial.measurements)}
    tunnels = {trial.repetition for trial in known}
    return min((climbed[cell] for cell in carrying), default=0) < FEWEST_ROUNDS or len(tunnels) < FEWEST_INSTANCES


def _compare_named(made: Choice, run: Run, trials: Sequence[Trial], words: Words) -> SideBySide | None:
    """The table of the named VPNs, in the order of the answer, or of the lines."""
    vpns = made.answer.named if made.answer else [vpn for band in made.bands for vpn in band.named]
    on = partial(answer, made.devices, words, state=made.machine)
    runs = [(run, trials), *shipped_beside()]
    return side_by_side([*dict.fromkeys(vpns)], on, made.needs, made.devices, made.states, runs)


def _unmeasured_candidates(run: Run, trials: Sequence[Trial]) -> tuple[list[str], list[str]]:
    """The VPNs that the run has not come to and that have every must in force; and those of them in the kernel, where
    nothing in the kernel was measured here. None where data planes have no scale."""
    if no_scale(run):
        return [], []
    records = {name: record for shipped, _ in reversed(shipped_runs()) for name, record in shipped.vpns.items()}
    others = [vpn for vpn in candidates(records, run.needs) if vpn not in run.vpns]
    measured = (run.vpns[trial.vpn] for trial in trials if trial.status == "ok")
    if any(record.dataplane == "kernel" and not record.reference for record in measured):
        return others, []
    return others, [vpn for vpn in others if records[vpn].dataplane == "kernel"]


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
