"""One request on one lab: the lab is examined, the conductor runs, and run.json tells how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.catalogue import load_vpn, read_run
from runner.data.asked import AskedRun
from runner.data.errors import CannotRunHere, Interrupted, LabError, UsageError, unfinished_methods
from runner.data.files import is_there, word
from runner.data.invocation import begin_invocation, end_invocation
from runner.data.lab_facts import generator_limits
from runner.data.levels import BASELINE, UPLINK
from runner.data.store import Store, open_store
from runner.data.trials import Cell, Run
from runner.data.wan import conditions
from runner.design.profile import Profile
from runner.instruments.tools.iperf import check_version
from runner.instruments.traffic.calibration import calibrate, highest_limits, lengths_of
from runner.lab import machine
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.places import Rig, open_rig, rootless
from runner.lab.places.hours import Hours
from runner.lab.places.site import SiteRig
from runner.lab.readings.facts import facts, openssl_bps
from runner.lab.shape import wan
from runner.lab.shape.site import BarePath
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from runner.sweep.conductor import Conductor
from runner.sweep.records import Records
from runner.sweep.repeating import MOST_REPETITIONS
from runner.sweep.request import Request
from runner.sweep.rest import Rest, comes_in, look_at, use, without_kept
from runner.sweep.run_record import describe, membership, save_packages, wanted_metrics
from runner.sweep.seen import for_path, without_rate
from runner.sweep.settings import Outcome, Stage, Watch
from runner.sweep.supported import refusals

OF_THE_MACHINE = (
    "Warning: the builds run as root of the gateways' machine and can change all of it. Measure builds of others in a "
    "virtual machine, or where vpneval has a user namespace for them: docs/commands.md, 'In CI'."
)


def run(request: Request, folder: Path, say: Callable[[str], None], watch: Watch) -> Outcome:
    """Measure what was asked for, into this run folder, of which the report is made. Returns what was done.

    ``say`` gets what the user is told before the first trial, the watcher all that comes after. Raises Interrupted on
    Ctrl-C, after the invocation has been written down.
    """
    (uplink,) = request.uplinks or [""]
    with open_rig(request.asked.lab, say, request.limits, uplink, confined=bool(request.asked.builds)) as rig:
        if rig.stands != 1 and (few := machine.few_descriptors(request.labs)):
            raise CannotRunHere(few)
        return _run_on(rig, request, folder, say, watch)


def _run_on(rig: Rig, request: Request, folder: Path, say: Callable[[str], None], watch: Watch) -> Outcome:
    asked = request.asked
    hours = rig.hours if isinstance(rig, SiteRig) else Hours()
    if isinstance(rig, SiteRig):
        for name in request.images:
            rig.check_user(name)
    hours.wait(say)  # before anything is sent, and before the deadline's clock starts
    image = rig.image(asked.image, say)
    gateway_images = {name: rig.image(name, say) for name in asked.gateway_images}
    started = time.monotonic()
    with open_store(folder) as store, on_disk(store):
        with rig.lab(image) as lab:
            if asked.builds and not is_confined(lab):
                say(OF_THE_MACHINE)
            if lab.measure_path and (path := _bare_path(lab, request.profile)):
                most_bps = rig.inventory.max_rate_bps if isinstance(rig, SiteRig) else None
                request = for_path(request, path, most_bps)
                if missing := without_rate(request, path, most_bps):
                    say(missing)
            record = _examine_lab(lab, request, store, image, gateway_images)
        save_packages(store, [image, *gateway_images.values()])
        request = replace(request, asked=asked.with_changes(seed=record.seed))  # that of the folder's first call
        stage = Stage(
            request=request,
            rig=rig,
            image=image,
            gateway_images=gateway_images,
            hours=hours,
            deadline=started + min(asked.deadline_s, hours.left_s()) if asked.deadline_s else None,
            most_repetitions=None if asked.deadline_s else MOST_REPETITIONS,
            wanted=wanted_metrics(record),
        )
        vpns = {vpn.name: vpn for vpn in request.vpns}
        with watch(folder, record) as watcher:
            conductor = Conductor(store, vpns, request.cells, without_kept(stage), watcher, membership(record))
            conductor.come_in = comes_in(request, store, record)
            conductor.until_significant = request.until_significant
            conductor.before_s = sum(call.elapsed_s for call in record.invocations)
            if request.until_significant or (request.profile.rounds and asked.deadline_s):
                conductor.look = partial(look_at, folder, request)
            conductor.looks_at = request.question.looks_at
            with written_down(record, asked, conductor, started):
                conductor.run()
                use(Rest(conductor, request, record, image, gateway_images), stage)
                return conductor.outcome


def ask_vpns(request: Request) -> list[tuple[Cell, str]]:
    """The cells of a request that cannot be measured on this machine, each with the reason. Every VPN is asked in a lab
    of namespaces, as before a run. Raises LabError."""
    vpns = {vpn.name: vpn for vpn in request.vpns}
    with (
        TemporaryDirectory() as folder,
        open_store(Path(folder) / "plan") as store,
        open_rig("netns", lambda text: None) as rig,
    ):
        images = {name: rig.image(name) for name in request.asked.gateway_images}
        stage = Stage(request=request, rig=rig, image=rig.image(request.asked.image), gateway_images=images)
        return [(cell, reason) for cell, _, reason, _ in refusals(request.cells, vpns, stage, store)]


def is_confined(lab: Lab) -> bool:
    """Is root of the gateways no root of any machine?"""
    gateways = [lab.gateway(site) for site in lab.sites]
    own = all(isinstance(gateway, NamespaceNode) and gateway.has_own_users() for gateway in gateways)
    return own or rootless.INSIDE in os.environ


def _bare_path(lab: Lab, profile: Profile) -> BarePath | None:
    """The path of a site lab, with its rates where the profile's searches go by them."""
    return lab.measure_path() if lab.measure_path and profile.from_path else lab.path


def _examine_lab(lab: Lab, request: Request, store: Store, image: Image, gateway_images: Mapping[str, Image]) -> Run:
    """The run.json of this lab, with its facts and what its nodes can do, before any VPN is in it.

    Raises CannotRunHere where it lacks something, and UsageError where the run folder belongs to another lab."""
    if request.profile.wan_rate_bps:  # so that the facts show the queues that will be there
        if not lab.has_wan:
            raise CannotRunHere(
                "this profile shapes the WAN, which needs a machine between the gateways, and this lab has none"
            )
        wan.apply(lab, conditions({}, request.profile.wan_rate_bps))
    iperf3 = {node.name: check_version(node) for node in (lab.host1, lab.host2)}
    if is_there(store.folder / "run.json") and read_run(store.folder / "run.json").machines:
        raise UsageError(f"{store.folder} was measured with --farm. Continue it so, or choose another --out")
    seen = facts(lab) | {"iperf3": iperf3} | ({UPLINK: request.uplinks[0]} if request.uplinks else {})
    run = describe(request, store, seen, image, gateway_images)
    levels = {cell.params[factor] for cell in request.cells for factor in ("cipher", "integrity")}
    run.lab["openssl_bps"] = openssl_bps(lab.gateway(lab.sites[0]), levels, run.lab.get("openssl_bps", {}))
    _calibrate(lab, request, run)
    return run


def _calibrate(lab: Lab, request: Request, run: Run) -> None:
    """Measure the highest rate that the generator offers in this lab, if the run needs it. Not in a site lab, whose
    path is shared."""
    lengths = lengths_of(request.cells, request.profile)
    if not lengths or lab.path:
        return
    if request.profile.wan_rate_bps:
        wan.clear(lab)
    limits = highest_limits(generator_limits(run.lab), calibrate(lab, load_vpn(BASELINE), lengths))
    if limits:
        run.lab["generator"] = [limit.model_dump() for limit in limits]


@contextmanager
def on_disk(store: Store) -> Iterator[None]:
    """Turn an OSError of the run folder, before the first trial or after the last, into one that stops the run."""
    try:
        yield
    except OSError as error:
        if not store.is_own(error):
            raise
        gone = store.removed_by(error)
        go_on = "" if gone else f". To continue: the same command with --out {word(store.folder)}"
        raise LabError(store.trouble(error) + go_on) from error


@contextmanager
def written_down(run: Run, asked: AskedRun, conductor: Conductor | Records, started: float) -> Iterator[None]:
    """Write the beginning of this call into run.json at once, and at its end how it ended.

    Raises Interrupted on Ctrl-C, SIGTERM and SIGHUP, and OSError where the run folder cannot be written any more.
    """
    store, outcome = conductor.store, "interrupted"
    call = begin_invocation(asked)
    store.save_run(run.model_copy(update={"invocations": [*run.invocations, call]}))
    try:
        yield
        outcome = f"stopped: {conductor.outcome.stopped}" if conductor.outcome.stopped else "complete"
    except KeyboardInterrupt as ended_by:
        outcome += unfinished_methods(ended_by)
        safe = f"{outcome}; {len(store.trials)} trials are safe in {store.folder}"
        raise Interrupted(f"{safe}. To continue: the same command with --out {word(store.folder)}") from None
    finally:
        done = end_invocation(
            call,
            outcome,
            elapsed_s=round(time.monotonic() - started, 3),
            measuring_s=round(conductor.outcome.measuring_s, 3),
            trimmed=conductor.outcome.trimmed,
            passed_over=conductor.outcome.passed_over,
            separation=conductor.outcome.separation,
        )
        looks = run.looks + conductor.outcome.looks - 1  # the report is one look, however often it is made anew
        update = {"invocations": [*run.invocations, done], "looks": looks}
        store.save_run(run.model_copy(update=update))
