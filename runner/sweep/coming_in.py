"""Looks at a run that goes on, and brings in VPNs that nobody named, when the answer for others is settled."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from runner.catalogue import load_run
from runner.data.errors import LabError, PluginError
from runner.data.levels import BASELINE
from runner.data.store import Store
from runner.data.trials import Run
from runner.lab.software.image import Image
from runner.sweep.conductor import Conductor
from runner.sweep.request import Request
from runner.sweep.run_record import describe, measured_vpns, membership, wanted
from runner.sweep.stopping import CHOICE_LOOKS_AT, LADDER, Going, choosing, going
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Vpn

EACH_S = 20.0  # that the passes of one VPN's ladders take, with its tunnels, before anything is sure of it


def look_at(folder: Path, request: Request, left_s: float, share: float) -> Going:
    """Which cells go on: until every asked line has its answer where ladders are measured, else until the pairs of VPNs
    are decided."""
    run, trials = load_run(folder)
    if chooses(request):
        return choosing(run, trials, request.cells)
    return going(run, trials, request.cells, request.weights, left_s, share)


def chooses(request: Request) -> bool:
    """Does the request measure the ladders that a choice is made from?"""
    return any(cell.params["measure"] == LADDER for cell in request.cells)


def comes_in(request: Request, store: Store, record: Run) -> bool:
    """Do all VPNs of the request come into a choice that the folder has without them? ``record`` then says so."""
    tried = {trial.vpn for trial in store.trials}
    fresh = {vpn.name for vpn in request.vpns} - {BASELINE}
    if not chooses(request) or not request.asked.deadline_s or BASELINE not in tried or tried & fresh:
        return False
    begun = max(trial.repetition for trial in store.trials)
    record.vpns.update({name: record.vpns[name].model_copy(update={"after": begun}) for name in fresh})
    return True


@dataclass(frozen=True)
class Rest:
    """What the rest of a run's time is used with: who has measured ``before``, what was asked for, run.json's
    ``record`` so far, and the images."""

    before: Conductor
    request: Request
    record: Run
    image: Image
    gateway_images: Mapping[str, Image]


def is_settled(rest: Rest) -> bool:
    """Has every asked line its answer, with time left?"""
    before = rest.before
    return bool(
        before.stage.deadline
        and before.stage.deadline > time.monotonic()
        and not before.outcome.stopped
        and chooses(rest.request)
        and not look_at(before.store.folder, rest.request, 0, 1).doubts
    )


def bring_in(rest: Rest) -> None:
    """Measure more of the candidates that the request has for later, beside plain IP, as many at a time as there is
    time for, while the answer is settled."""
    before, request = rest.before, rest.request
    later = [vpn for vpn in request.later if vpn.name not in measured_vpns(before.store)]
    while later and before.stage.deadline and is_settled(rest):
        room = int((before.stage.deadline - time.monotonic()) / EACH_S)
        try:
            group, later = _that_run_here(before, later, room)
        except LabError as broken:
            before.outcome.stopped = str(broken)
            return
        if not group:
            return
        plain = next(vpn for vpn in request.vpns if vpn.name == BASELINE)
        names = ", ".join(vpn.name for vpn in group)
        before.watcher.say(f"The answer is settled. The time that is left goes to VPNs that may suit as well: {names}.")
        carry_on(rest, replace(request, vpns=[plain, *group], later=later))


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
        replace(before.stage, request=request, wanted=wanted(more)),
        before.watcher,
        membership(more),
        look=partial(look_at, store.folder, request) if chooses(request) else None,
        looks_at=CHOICE_LOOKS_AT,
        outcome=before.outcome,
        come_in=come_in,
    )
    then.run()


def _that_run_here(conductor: Conductor, later: Sequence[Vpn], room: int) -> tuple[list[Vpn], list[Vpn]]:
    """The first of these VPNs that run here, at most ``room``, and those behind them. Raises LabError."""
    stage, group, left = conductor.stage, list[Vpn](), list(later)
    with stage.rig.lab(stage.image, logs=conductor.store.logs("probe")) as lab:
        while left and len(group) < room:
            vpn = left.pop(0)
            try:
                no = vpn_refusal(lab, vpn, vpn.recommended)
            except PluginError as broken:
                conductor.watcher.say(f"{vpn.name} is left out: {broken}")
                continue
            group += [] if no else [vpn]
    return group, left
