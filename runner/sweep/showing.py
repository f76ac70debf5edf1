"""What a choice still takes on trust, and the trials that show it: that what is named carries its line without a break,
musts that are declared or unknown, and what TCP in TCP carries where the path loses packets."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from runner.catalogue import load_experiment, load_run
from runner.choice.answer import RATES_BPS, answer
from runner.choice.devices import LOSSY, Device, devices
from runner.choice.grade import WATCHED, Grade, graded
from runner.choice.musts import SHOWN_BY, states, words_of
from runner.choice.thresholds import USUAL
from runner.data.errors import UsageError
from runner.data.levels import BASELINE
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.numbers import real
from runner.data.shipped import shipped_runs
from runner.data.trials import Run, Trial
from runner.data.wan import in_range
from runner.design.experiment import Experiment
from runner.sweep.coming_in import Rest, bring_in, carry_on, chooses, is_settled
from runner.sweep.request import Request
from runner.sweep.settings import Stage

LINE_ROOM = 1.5  # times the line is the WAN's rate: what carries 1.25 of the demand fits
STEADY_BPS = "steady_bps"
WATCH_S, ALONE_S = 45.0, 34.0  # that it takes, with plain IP's stretch and two tunnels, and without
LEFT, LATE_S = 0.4, 12.0  # of a deadline's time, at most, is left for that; a round may end so late
LOSSY_S, LOSSY_MOST_S = 8, 25.0  # for CUBIC to find its rate; with the tunnel and the probe of its WAN


def use(rest: Rest, stage: Stage) -> None:
    """Use the time that is left. Until the deadline of the conductor's own stage, when every asked line has its answer:
    show what the named VPNs are trusted with, bring in others that may suit, and show the same of those. Then, until
    that of ``stage``, watch what is named first."""
    _show(rest)
    bring_in(rest)
    _show(rest)
    rest.before.stage = stage
    _watch(rest)
    _show(rest)


def before_watching(stage: Stage) -> Stage:
    """The stage of a choice whose deadline leaves time to watch what will be named."""
    if stage.deadline is None or not may_watch(stage.request):
        return stage
    room = int((LEFT * (stage.deadline - time.monotonic()) - LATE_S) / WATCH_S)
    vpns = min(room, 1 if stage.request.needs.line_bps else 2)
    return replace(stage, deadline=stage.deadline - LATE_S - vpns * WATCH_S) if vpns > 0 else stage


def may_watch(request: Request) -> bool:
    """Does a run of this request watch what it names? Only where somebody says how long it may take."""
    return chooses(request) and request.asked.deadline_s is not None and request.asked.farm is None


def _watch(rest: Rest) -> None:
    """Watch what is named first, one VPN after another, and who is then named first, as long as there is time."""
    before, request = rest.before, rest.request
    experiment, limit_bps = load_experiment("steady"), request.limits.get("max_rate_bps")
    while may_watch(request) and not before.outcome.stopped:
        assert before.stage.deadline is not None
        run, trials = load_run(before.store.folder)
        known = {vpn.name: vpn for vpn in [*request.vpns, *request.later]}
        most_bps = min(request.profile.udp.max_rate_bps, limit_bps or math.inf)
        rates = {vpn: rate_bps for vpn, rate_bps in watch_list(run, trials, most_bps).items() if vpn in known}
        left_s = before.stage.deadline - time.monotonic()
        if not rates or left_s < ALONE_S:
            return
        name, rate_bps = next(iter(rates.items()))
        levels = {STEADY_BPS: [f"{rate_bps:.0f}"]}
        before.watcher.say(f"{name} is watched at {rate_bps / 1e6:.3g} Mbit/s without a break.")
        turns = [known[BASELINE], known[name]] if left_s >= WATCH_S else [known[name]]
        asked = replace(request, experiments=[experiment], vpns=turns, chosen=levels, later=[], repetitions=1)
        tried = len(before.store.trials)
        carry_on(rest, asked)
        if len(before.store.trials) == tried:
            return


def watch_list(run: Run, trials: Sequence[Trial], limit_bps: float = math.inf) -> dict[str, float]:
    """The VPNs that are named for an asked line and that nobody has watched at such a rate, each with the rate, bit/s
    of payload: for the highest line that it fits, at most ``limit_bps``, because what is clean there is so below. Those
    that are first for the most lines come first. VPNs that carry TCP only cannot be watched."""
    made, words = devices(run, trials), words_of(states(run, trials, shipped_runs()))
    rates, first, others = dict[str, tuple[bool, float]](), Counter[str](), Counter[str]()
    for line_bps in [run.needs.line_bps] if run.needs.line_bps else RATES_BPS:
        needs = run.needs.model_copy(update={"line_bps": line_bps})
        for place, vpn in enumerate(answer(made, words, needs).named):
            one = graded(made[vpn], needs, USUAL)
            if run.vpns[vpn].carries != "tcp" and math.isfinite(one.datagrams_bps):
                fits = bool(np.median(one.grade) == Grade.FITS)
                rates[vpn] = max((fits, min(one.datagrams_bps, limit_bps)), rates.get(vpn, (False, 0.0)))
                (others if place else first)[vpn] += 1
    tried = dict[str, float]()
    for trial in trials:
        tried[trial.vpn] = max(tried.get(trial.vpn, 0.0), real(trial.params.get(STEADY_BPS, "0")))
    order = [vpn for counts in (first, others) for vpn, _ in counts.most_common()]
    return {vpn: rates[vpn][1] for vpn in order if tried.get(vpn, 0.0) < WATCHED * rates[vpn][1]}


def _show(rest: Rest) -> None:
    """Only in labs that vpneval makes: between somebody's gateways it attacks nothing that it was not asked to. Not in
    a guest kernel, where nobody knows how long a trial takes at most."""
    if rest.before.stage.rig.stands == 1 or rest.record.lab.get("guest") or not is_settled(rest):
        return
    run, trials = load_run(rest.before.store.folder)
    experiment = load_experiment("musts")
    for must, vpns in on_trust(run, trials).items():
        levels, longest_s = SHOWN_BY[must]
        _try(rest, _only(experiment, levels), vpns, longest_s, f"whether they have {must}")
    if on_path := lossy(run.needs):
        wan = replace(_only(load_experiment("wan"), LOSSY), base="recommended", wan=on_path, vary={})
        _try(rest, wan, tcp_in_tcp(run, trials), LOSSY_MOST_S, "what TCP in TCP carries on a path that loses as yours")


def on_trust(run: Run, trials: Sequence[Trial]) -> dict[Must, list[str]]:
    """The musts in force that a trial could show, each with the VPNs of which nobody has tried it, and which are named,
    or would be if they had all of these musts."""
    words = words_of(states(run, trials, shipped_runs()))
    untried = {must for must in SHOWN_BY if must in run.needs.must}
    hoped = {vpn: own | {must: "declared" for must in untried if own[must] == "unknown"} for vpn, own in words.items()}
    suit = _named(devices(run, trials), hoped, run.needs)
    by_must = {must: [vpn for vpn in suit if words[vpn][must] in ("declared", "unknown")] for must in SHOWN_BY}
    return {must: vpns for must, vpns in by_must.items() if must in untried and vpns}


def lossy(needs: Needs) -> dict[str, str]:
    """The conditions of a WAN that loses as the stated path does, with LINE_ROOM. Empty where that loses nothing; where
    nobody has stated line, round trip and loss, so that what vpneval assumes would decide; and where no WAN is so."""
    if not needs.line_bps or not needs.path_rtt_ms or (needs.path_loss_ratio or 0.0) < USUAL.tcp_in_tcp_loss_ratio:
        return {}
    wanted = {
        "wan_rate_bps": LINE_ROOM * needs.line_bps,
        "wan_delay_ms": needs.path_rtt_ms / 2,
        "wan_loss_ratio": needs.path_loss_ratio,
    }
    try:
        return {factor: in_range(factor, f"{value:.10g}") for factor, value in wanted.items()}
    except UsageError:
        return {}


def tcp_in_tcp(run: Run, trials: Sequence[Trial]) -> list[str]:
    """The VPNs that carry TCP in TCP and are named, or would be if the path lost nothing."""
    made, words = devices(run, trials), words_of(states(run, trials, shipped_runs()))
    clean = {vpn: replace(device, tcp_in_tcp=False) for vpn, device in made.items()}
    return [vpn for vpn in _named(clean, words, run.needs) if made[vpn].tcp_in_tcp]


def _named(made: Mapping[str, Device], words: Mapping[str, Mapping[Must, str]], needs: Needs) -> list[str]:
    """The VPNs that are named for any line that is asked for."""
    lines = [needs.line_bps] if needs.line_bps else RATES_BPS
    said = (answer(made, words, needs.model_copy(update={"line_bps": line})) for line in lines)
    return [*dict.fromkeys(vpn for one in said for vpn in one.named)]


def _only(experiment: Experiment, levels: Mapping[str, str]) -> Experiment:
    """The experiment with the one measurement that has these levels."""
    return replace(experiment, traffic=tuple(each for each in experiment.traffic if levels.items() <= each.items()))


def _try(rest: Rest, experiment: Experiment, vpns: Sequence[str], longest_s: float, what: str) -> None:
    """Measure this with as many of these VPNs as there is time for, once each, one after another."""
    before, request = rest.before, rest.request
    assert before.stage.deadline is not None
    known = {vpn.name: vpn for vpn in [*request.vpns, *request.later] if vpn.name != BASELINE}
    profile = replace(request.profile, rounds=0, duration_s=LOSSY_S)
    asked = replace(request, experiments=[experiment], vpns=[known[vpn] for vpn in vpns], profile=profile, chosen={})
    tried = {trial.cell for trial in before.store.trials}
    fresh = {cell.vpn for cell in asked.cells if cell.key not in tried}
    room = int((before.stage.deadline - time.monotonic()) / longest_s)
    turns = [known[vpn] for vpn in vpns if vpn in fresh][:room]
    if turns and not before.outcome.stopped:
        names = ", ".join(vpn.name for vpn in turns)
        before.watcher.say(f"The answer is settled. A trial of each of {names} shows {what}.")
        carry_on(rest, replace(asked, vpns=turns, later=[], repetitions=1))
