"""The run's question, asked while it goes on; and the steps that it asks for in the time that is left: further trials,
and VPNs that nobody named."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runner.catalogue import load_experiment, load_run
from runner.data.asked import AskedRun
from runner.data.errors import LabError, PluginError
from runner.data.levels import BASELINE
from runner.data.store import Store
from runner.data.trials import Run
from runner.design.experiment import Experiment
from runner.design.question import Evidence, Going, Left, Step
from runner.lab.software.image import Image
from runner.sweep.conductor import Conductor
from runner.sweep.request import Request
from runner.sweep.run_record import describe, measured_vpns, membership, wanted_metrics
from runner.sweep.settings import Stage
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Vpn


def look_at(folder: Path, request: Request, left_s: float, share: float) -> Going:
    """Which cells go on, says the run's question; ``share`` of the run's time is over."""
    evidence = Evidence(*load_run(folder), request.weights, share)
    return request.question.going(evidence, request.question.judge(evidence), request.cells, left_s)


def comes_in(request: Request, store: Store, record: Run) -> bool:
    """Do all VPNs of the request come into a run that has others, and are compared with these? ``record`` then says
    so."""
    tried = {trial.vpn for trial in store.trials}
    fresh = {vpn.name for vpn in request.vpns} - {BASELINE}
    if not request.question.latecomers or not request.asked.deadline_s or BASELINE not in tried or tried & fresh:
        return False
    begun = max(trial.repetition for trial in store.trials)
    record.vpns.update({name: record.vpns[name].model_copy(update={"after": begun}) for name in fresh})
    return True


def without_kept(stage: Stage) -> Stage:
    """The stage with a deadline before the time that the question keeps for the run's end."""
    request = stage.request
    if stage.deadline is None:
        return stage
    kept_s = request.question.kept_s(with_seen_needs(request), stage.deadline - time.monotonic())
    return replace(stage, deadline=stage.deadline - kept_s)


def with_seen_needs(request: Request) -> AskedRun:
    """What was asked for, with what was seen of the needs."""
    return request.asked.with_changes(needs=request.needs)


@dataclass
class Rest:
    """What the rest of a run's time is used with: who has measured ``before``, what was asked for, run.json's
    ``record`` so far, and the images. ``refused``: VPNs that cannot run here; ``given_up``: the keys of cells that
    a step has asked for, and of which no trial came."""

    before: Conductor
    request: Request
    record: Run
    image: Image
    gateway_images: Mapping[str, Image]
    refused: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)

    @property
    def later(self) -> list[Vpn]:
        """The VPNs that nobody named and that may come in."""
        gone = measured_vpns(self.before.store) | self.refused
        return [vpn for vpn in self.request.later if vpn.name not in gone]

    @property
    def vpns(self) -> dict[str, Vpn]:
        """Every VPN that the run may measure, by its name."""
        return {vpn.name: vpn for vpn in [*self.request.vpns, *self.request.later]}


def use(rest: Rest, stage: Stage) -> None:
    """Take the steps that the run's question asks for, as long as there is time until the deadline of ``stage``. What
    is kept of it beyond that of the conductor's own stage is for the steps that it is kept for, while there are any
    of them."""
    before = rest.before
    if stage.deadline is None or before.stage.deadline is None:
        return
    kept_s = stage.deadline - before.stage.deadline
    before.stage = stage
    while not before.outcome.stopped:
        tried = len(before.store.trials)
        request = _next(rest, stage.deadline - time.monotonic(), kept_s)
        if request is None:
            return
        if request.vpns:
            carry_on(rest, request)
            if len(before.store.trials) == tried:
                rest.given_up |= {cell.key for cell in request.cells}


def _next(rest: Rest, left_s: float, kept_s: float) -> Request | None:
    """The request for the first step for which there is time; None where there is none; without VPNs where none of its
    own can run here, so that the next step is looked for."""
    question, request = rest.request.question, rest.request
    evidence = Evidence(*load_run(rest.before.store.folder), request.weights)
    own_lab = rest.before.stage.rig.stands != 1 and not rest.record.lab.get("guest")
    most_bps = min(request.profile.udp.max_rate_bps, request.limits.get("max_rate_bps") or float("inf"))
    left = Left([vpn.name for vpn in rest.later], most_bps, own_lab)
    wished = question.steps(evidence, question.judge(evidence), left)
    steps = [(step, asked) for step in wished if (asked := _untried_request(rest, step)).vpns]
    keeps = any(step.kept and left_s >= step.each_s for step, _ in steps)
    for step, asked in sorted(steps, key=lambda pair: pair[0].kept):
        time_s = left_s - kept_s * (keeps and not step.kept)
        if room := int(time_s / step.each_s) if time_s > 0 else 0:
            return _begin(rest, step, asked, room, time_s)
    return None


def _untried_request(rest: Rest, step: Step) -> Request:
    """The request for a step, with those of its VPNs of which it has not been tried."""
    request, known = rest.request, rest.vpns
    vpns = [known[name] for name in step.vpns if name in known]
    if step.experiment:
        profile = request.profile
        if step.duration_s is not None:
            profile = replace(profile, rounds=0, duration_s=step.duration_s)
        levels = {factor: [level] for factor, level in step.levels.items()}
        request = replace(
            request, experiments=[_experiment(step)], vpns=vpns, profile=profile, chosen=levels, later=[], repetitions=1
        )
        tried = {trial.cell for trial in rest.before.store.trials} | rest.given_up
    else:
        tried = rest.given_up
    untried = {cell.vpn for cell in replace(request, vpns=vpns).cells if cell.key not in tried}
    vpns = [vpn for vpn in vpns if vpn.name in untried]
    return replace(request, vpns=vpns)


def _experiment(step: Step) -> Experiment:
    """The step's experiment, with the measurements that have its levels, on its path."""
    experiment = load_experiment(step.experiment)
    traffic = tuple(each for each in experiment.traffic if step.only.items() <= each.items())
    on_path = {"base": "recommended", "wan": step.wan, "vary": {}} if step.wan else {}
    return replace(experiment, traffic=traffic, **on_path)  # type: ignore[arg-type]


def _begin(rest: Rest, step: Step, asked: Request, room: int, time_s: float) -> Request:
    """The request, with as many of its VPNs as there is room for. The user is told of it."""
    vpns, before = list(asked.vpns), rest.before
    if not step.experiment:
        try:
            vpns = _that_run_here(rest, vpns, room)
        except LabError as broken:
            before.outcome.stopped = str(broken)
            vpns = []
    vpns = vpns[:room]
    if vpns:
        before.watcher.say(step.words.format(vpns=", ".join(vpn.name for vpn in vpns)))
    if vpns and (not step.experiment or (step.plain_s is not None and time_s >= step.each_s + step.plain_s)):
        vpns = [rest.vpns[BASELINE], *vpns]
    return replace(asked, vpns=vpns)


def carry_on(rest: Rest, request: Request) -> None:
    """Measure this request, too, in the time that is left. The record and the outcome of ``rest`` then have it."""
    before, record, store = rest.before, rest.record, rest.before.store
    more = describe(request, store, record.lab, rest.image, rest.gateway_images)
    come_in = comes_in(request, store, more)
    store.save_run(more)
    record.vpns.update(more.vpns)
    record.experiments[:] = more.experiments
    record.metrics.update(more.metrics)
    record.image.update(more.image)
    then = Conductor(
        store,
        {vpn.name: vpn for vpn in request.vpns},
        request.cells,
        replace(before.stage, request=request, wanted=wanted_metrics(more)),
        before.watcher,
        membership(more),
        look=partial(look_at, store.folder, request) if request.question.latecomers else None,
        looks_at=request.question.looks_at,
        outcome=before.outcome,
        come_in=come_in,
    )
    then.run()


def _that_run_here(rest: Rest, vpns: list[Vpn], room: int) -> list[Vpn]:
    """The first of these VPNs that run here, at most ``room``; those that do not are refused. Raises LabError."""
    conductor, group = rest.before, list[Vpn]()
    stage = conductor.stage
    with stage.rig.lab(stage.image, logs=conductor.store.logs("probe")) as lab:
        for vpn in vpns:
            if len(group) == room:
                break
            try:
                runs = not vpn_refusal(lab, vpn, vpn.recommended)
            except PluginError as broken:
                conductor.watcher.say(f"{vpn.name} is left out: {broken}")
                runs = False
            if runs:
                group.append(vpn)
            else:
                rest.refused.add(vpn.name)
    return group
