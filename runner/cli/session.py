"""One call of ``vpneval run``: what was asked, checked before anything starts; then the run folder, loop and report."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from runner.catalogue import (
    add_instrument,
    digest_of,
    expand,
    load_experiment,
    load_vpn,
    metrics,
    parse_levels,
    vpn_names,
)
from runner.cli.progress import LiveProgress, PlainProgress, is_live
from runner.data import numbers
from runner.data.errors import CannotRunHere, Interrupted, LabError, UsageError, require_known
from runner.data.files import from_json, is_there, no_link, read_bytes, write_text
from runner.data.levels import BASELINE
from runner.data.metric import Metric
from runner.data.store import Store, load_run, open_store, read_run
from runner.data.trials import MOST_LOOKS, Cell, ExperimentRecord, Invocation, Run, VpnRecord
from runner.data.wan import conditions
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES, Profile
from runner.instruments.traffic.iperf import check_version
from runner.lab import wan
from runner.lab.facts import facts, openssl_bps
from runner.lab.image import DEFAULT, Image
from runner.lab.image import names as image_names
from runner.lab.places import Rig, check_spec, open_rig
from runner.ranking.basis import measured_metrics
from runner.ranking.ranking import rank_all
from runner.ranking.weights import Weights, parse_weights
from runner.sweep.call import Outcome, Settings, Watcher
from runner.sweep.looks import going
from runner.sweep.loop import Loop
from runner.sweep.plan import TUNNEL_S, Planned, all_cells, block, expected_s, expected_trial_s
from runner.sweep.until import INITIAL_REPETITIONS, MOST_REPETITIONS, next_cells
from runner.vpn.plugin import Vpn

ALWAYS_SHOWN = ("iperf3", "openssl", "iproute2")  # packages of every run, beside those of its VPNs
LONGEST_S = 86400  # iperf3's own limit for a test
MOST_REPS = 1000  # all blocks are planned before the first


@dataclass
class Asked:
    """The run that a command line describes, every name of it known to exist."""

    experiments: list[Experiment]
    vpns: list[Vpn]
    profile: Profile
    chosen: dict[str, list[str]]
    repetitions: int
    seed: int = 1
    image: str = DEFAULT
    gateway_images: list[str] = field(default_factory=list)
    out: Path | None = None
    deadline_s: float | None = None
    retry_failed: bool = False
    until_significant: bool = False
    weights: Weights | None = None  # of the ranking that until_significant goes by
    lab: str = "netns"

    @property
    def cells(self) -> list[Cell]:
        """Every cell of these experiments, VPNs and levels, once."""
        return all_cells(self.experiments, self.vpns, self.profile, self.chosen, self.gateway_images)

    @property
    def records(self) -> list[ExperimentRecord]:
        """The experiments as run.json holds them."""
        found = []
        for experiment in self.experiments:
            record = experiment.record(self.vpns, self.profile, self.chosen)
            cells = all_cells([experiment], self.vpns, self.profile, self.chosen, self.gateway_images)
            found.append(record.model_copy(update={"cells": cells}))
        return found

    def expected(self) -> tuple[int, float]:
        """Trials, and seconds they will take if every VPN is supported."""
        trials, expected = 0, 0.0
        cells = self.cells
        for number, times in (
            (1, 1),
            (2, self.repetitions - 1),
        ):  # the first block knows nothing yet; the others are alike
            tunnels = block(cells, number, self.seed, set(), set(), self.profile).tunnels if times else []
            trials += times * sum(len(tunnel.trials) for tunnel in tunnels)
            expected += times * sum(expected_s(tunnel, self.profile) for tunnel in tunnels)
        return trials, expected

    @property
    def shortest_s(self) -> float:
        """How long its shortest trial takes, in a tunnel of its own."""
        return TUNNEL_S + min(expected_trial_s(Planned(cell, 1), self.profile) for cell in self.cells)


def ask(
    experiments: Sequence[str],
    *,
    vpns: str = "",
    levels: str = "",
    profile: str = "quick",
    repetitions: int | None = None,
    duration_s: int | None = None,
    seed: int = 1,
    image: str = DEFAULT,
    gateway_images: str = "",
    out: Path | None = None,
    deadline: str = "",
    retry_failed: bool = False,
    until_significant: bool = False,
    weights: str = "",
    lab: str = "netns",
    instruments: Sequence[str] = (),
) -> Asked:
    """Check everything that a user can get wrong. Raises UsageError; starts nothing."""
    for path in instruments:
        add_instrument(path)
    require_known("profile", profile, list(PROFILES))
    chosen_profile = PROFILES[profile]
    if duration_s is not None:
        if not 1 <= duration_s <= LONGEST_S:
            raise UsageError(f"--duration is whole seconds from 1 to {LONGEST_S}, not {duration_s}")
        note = f"{chosen_profile.note}; changed: whole tests of {duration_s} s, one after another"
        chosen_profile = replace(chosen_profile, duration_s=duration_s, rounds=0, note=note)
    if repetitions is not None and not 1 <= repetitions <= MOST_REPS:
        raise UsageError(f"--reps is from 1 to {MOST_REPS}, not {repetitions}")
    check_spec(lab)
    require_known("image", image, image_names())
    gateways = [name.strip() for name in gateway_images.split(",") if name.strip()]
    for name in gateways:
        require_known("image", name, image_names())
    wanted = [name.strip() for name in vpns.split(",") if name.strip()] or vpn_names()
    plugins = [load_vpn(name) for name in dict.fromkeys([BASELINE, *wanted])]  # none: to be compared with
    twice = sorted({vpn.name for vpn in plugins if [other.name for other in plugins].count(vpn.name) > 1})
    if twice:
        raise UsageError(f"--vpn names two plugins called {', '.join(twice)}; rename your file")
    asked = Asked(
        [load_experiment(name) for name in expand(experiments)],
        plugins,
        chosen_profile,
        parse_levels(levels),
        repetitions or chosen_profile.repetitions,
        seed,
        image,
        gateways,
        out,
        None,
        retry_failed,
        until_significant,
        lab=lab,
    )
    if until_significant:
        asked.repetitions = max(asked.repetitions, INITIAL_REPETITIONS)
    if not asked.cells:
        options = [f"--profile {profile}", *[f"--vpn {vpns}"] * bool(vpns), *[f"--set {levels}"] * bool(levels)]
        raise UsageError(f"{' '.join(options)} leaves nothing to measure in {', '.join(experiments)}")
    asked.deadline_s = _deadline_s(deadline, asked)
    asked.weights = _weights(weights, asked)
    return asked


def _deadline_s(text: str, asked: Asked) -> float | None:
    """The time that ``text`` is. Raises UsageError for none, and for one in which nothing can be measured."""
    if not text:
        return None
    deadline_s, shortest_s = seconds(text), asked.shortest_s
    if deadline_s < shortest_s:
        raise UsageError(
            f"--deadline {text} is too short: the shortest trial of this run takes about {shortest_s:.1f} s"
        )
    return deadline_s


def _weights(text: str, asked: Asked) -> Weights | None:
    """The weights that a run goes by. Raises UsageError where they count what it will not have measured."""
    if not text:
        return None
    kinds = {cell.params["measure"] for cell in asked.cells}
    known = metrics()
    there = {metric.name for metric in known.values() if metric.measure in kinds}
    if asked.out and is_there(asked.out / "run.json"):  # by earlier calls
        run, trials = load_run(asked.out)
        known, there = known | run.metrics, there | set(measured_metrics(trials))
    weights = parse_weights(text, known)
    if absent := sorted(weights.counted.keys() - there):
        told = f"will not measure {', '.join(absent)} (it measures: {', '.join(sorted(there))})"
        raise UsageError(f"weights {text!r}: this run {told}")
    return weights if asked.until_significant else None


def seconds(text: str) -> float:
    """``360``, ``90s``, ``6m`` or ``2h`` in seconds. Raises UsageError for anything else."""
    units = {"s": 1, "m": 60, "h": 3600}
    count, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return numbers.number(count, 1e-3, 1e7 / unit) * unit
    except ValueError:
        raise UsageError(f"--deadline is a time like 360, 90s, 6m or 2h, not {text!r:.60}") from None


def conduct(asked: Asked, command_line: list[str], console: Console, quiet: bool) -> tuple[Path, Outcome]:
    """Run what was asked. Returns the run folder and what was done; the report is made from the folder.

    Raises Interrupted on Ctrl-C, after the invocation has been written down.
    """
    say = lambda text: None if quiet else console.print(text, markup=False, highlight=False)  # noqa: E731
    with open_rig(asked.lab, say) as rig:
        return _conduct_on(rig, asked, command_line, console, quiet)


def _conduct_on(rig: Rig, asked: Asked, command_line: list[str], console: Console, quiet: bool) -> tuple[Path, Outcome]:
    say = lambda text: None if quiet else console.print(text, markup=False, highlight=False)  # noqa: E731
    image = rig.image(asked.image, say)
    gateway_images = {name: rig.image(name, say) for name in asked.gateway_images}
    started = time.monotonic()
    folder = asked.out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{asked.profile.name}"
    with open_store(folder) as store:
        run = _look(rig, asked, store, image, gateway_images)
        save_packages(store, [image, *gateway_images.values()])
        settings = Settings(
            asked.profile,
            asked.repetitions,
            run.seed,
            image,
            gateway_images,
            asked.retry_failed,
            started + asked.deadline_s if asked.deadline_s else None,
            None if asked.deadline_s else MOST_REPETITIONS,
            rig,
        )
        live = None
        if is_live(console) and not quiet:
            live = LiveProgress(console, run.metrics, lambda: rank_all(*load_run(folder), weights=asked.weights))
        watcher: Watcher = live or PlainProgress(console, run.metrics, quiet)
        loop = Loop(store, {vpn.name: vpn for vpn in asked.vpns}, asked.cells, settings, watcher, membership(run))
        loop.until_significant = asked.until_significant
        if asked.until_significant:
            loop.look = lambda left_s: next_cells(*load_run(folder), asked.cells, asked.weights)
        elif asked.profile.rounds and (of_s := asked.deadline_s):
            loop.look = lambda left_s: going(*load_run(folder), asked.cells, asked.weights, left_s, of_s)
        with _written_down(run, command_line, loop, started), live or nullcontext():
            return folder, loop.run()


def _look(rig: Rig, asked: Asked, store: Store, image: Image, gateway_images: Mapping[str, Image]) -> Run:
    """What the lab is, before anything is measured in it. Raises CannotRunHere where it is not enough, and UsageError
    where the run folder belongs to another."""
    with rig.lab(image) as lab:
        if asked.profile.wan_rate_bps:  # so that the facts show the queues that will be there
            if not lab.has_wan:
                raise CannotRunHere("this profile shapes the WAN, and this lab has no machine between the gateways")
            wan.apply(lab, conditions({}, asked.profile.wan_rate_bps))
        iperf3 = {node.name: check_version(node) for node in (lab.host1, lab.host2)}
        run = describe(asked, store, facts(lab) | {"iperf3": iperf3}, image, gateway_images)
        levels = {cell.params[factor] for cell in asked.cells for factor in ("cipher", "integrity")}
        run.lab["openssl_bps"] = openssl_bps(lab, levels, run.lab.get("openssl_bps", {}))
    return run


@contextmanager
def _written_down(run: Run, command_line: list[str], loop: Loop, started: float) -> Iterator[None]:
    """The call that begins here is in run.json at once; at its end, whatever that is, so is how it ended.

    Raises Interrupted on Ctrl-C and SIGTERM, LabError where the run folder cannot be written any more.
    """
    store, outcome = loop.store, "interrupted"
    call = Invocation(command_line=command_line, started_at=datetime.now(UTC).isoformat(timespec="seconds"))
    store.save_run(run.model_copy(update={"invocations": [*run.invocations, call]}))
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite end is an interruption
    try:
        yield
        outcome = f"stopped: {loop.outcome.stopped}" if loop.outcome.stopped else "complete"
    except KeyboardInterrupt:
        safe = f"interrupted; {len(store.trials)} trials are safe in {store.folder}"
        raise Interrupted(f"{safe}. To go on: the same command with --out {store.folder}") from None
    finally:
        signal.signal(signal.SIGTERM, previous)
        ended = call.model_copy(
            update={
                "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "outcome": outcome,
                "elapsed_s": round(time.monotonic() - started, 3),
                "measuring_s": round(loop.outcome.measuring_s, 3),
                "trimmed": loop.outcome.trimmed,
                "separation": loop.outcome.separation,
            }
        )
        looks = min(MOST_LOOKS, run.looks + loop.outcome.looks - 1)
        update = {"invocations": [*run.invocations, ended], "looks": looks}
        try:
            store.save_run(run.model_copy(update=update))
        except OSError as error:  # the disk is full: the trials are safe, this note is not
            raise LabError(f"run.json cannot be written: {error}") from error


def save_packages(store: Store, images: Sequence[Image]) -> None:
    """Every package of every image of this run, with its version, beside run.json: packages.json."""
    path = no_link(store.folder / "packages.json")
    try:
        known = dict(from_json(read_bytes(path))) if is_there(path) else {}
    except (ValueError, TypeError) as wrong:
        raise UsageError(f"{path} is not the list of packages that it was: {wrong}; remove it") from None
    known |= {image.name: {"digest": image.digest, "packages": image.packages} for image in images}
    partial = path.with_suffix(".json.partial")
    write_text(partial, json.dumps(known, indent=1) + "\n")
    partial.rename(path)


def describe(
    asked: Asked,
    store: Store,
    lab_facts: dict[str, Any],
    image: Image,
    gateway_images: Mapping[str, Image],
) -> Run:
    """The run.json of this folder: a new one, or the one that is there with what is asked now added.

    Raises UsageError where the folder belongs to another lab, kernel, image or profile.
    """
    now = datetime.now(UTC)
    vpns = {vpn.name: record_of(vpn) for vpn in asked.vpns}
    fresh = Run(
        vpneval_version=version("vpneval"),
        run_id=store.folder.name,
        created_at=now.isoformat(timespec="seconds"),
        profile=asked.profile.name,
        profile_note=asked.profile.note,
        seed=asked.seed,
        repetitions=asked.repetitions,
        lab=lab_facts,
        image={
            "name": image.name,
            "digest": image.digest,
            "packages": {name: image.packages[name] for name in shown_packages(asked.vpns) if name in image.packages},
            "gateways": {name: gateway.digest for name, gateway in gateway_images.items()},
        },
        experiments=asked.records,
        metrics=metrics_of(asked),
        vpns=vpns,
    )
    path = store.folder / "run.json"
    if not path.exists():
        return fresh
    old = read_run(path)
    gateways = old.image.get("gateways", {}) | fresh.image["gateways"]
    for what, ours, theirs in (
        *((f"gateway image {name}", gateways[name], digest) for name, digest in old.image.get("gateways", {}).items()),
        ("profile", fresh.profile_note, old.profile_note),
        ("image", fresh.image.get("digest"), old.image.get("digest")),
        ("kernel", fresh.lab.get("kernel"), old.lab.get("kernel")),
        ("guest", fresh.lab.get("guest"), old.lab.get("guest")),
        ("lab", fresh.lab.get("kind"), old.lab.get("kind")),
        ("CPU", fresh.lab.get("cpu"), old.lab.get("cpu")),
    ):
        if ours != theirs:
            raise UsageError(f"{store.folder} was measured with {what} {theirs!r}, not {ours!r}; choose another --out")
    _same_plugins(store, old, fresh)
    packages = old.image.get("packages", {}) | fresh.image["packages"]
    experiments = {record.name: record for record in old.experiments} | {r.name: r for r in fresh.experiments}
    for record in old.experiments:
        merged = {cell.key: cell for cell in [*record.cells, *experiments[record.name].cells]}
        experiments[record.name] = experiments[record.name].model_copy(update={"cells": list(merged.values())})
    return old.model_copy(
        update={
            "experiments": list(experiments.values()),
            "metrics": old.metrics | fresh.metrics,
            "vpns": old.vpns | fresh.vpns,
            "image": old.image | {"gateways": gateways, "packages": packages},
            "repetitions": max(old.repetitions, fresh.repetitions),
        }
    )


def _same_plugins(store: Store, old: Run, fresh: Run) -> None:
    """Raise UsageError where a name would stand for the numbers of two plugins."""
    measured = {trial.vpn for trial in store.trials if trial.status == "ok"}
    for name in sorted(measured & old.vpns.keys() & fresh.vpns.keys()):
        before, now = old.vpns[name].digest, fresh.vpns[name].digest
        if before and before != now:
            raise UsageError(
                f"{store.folder} has trials of another plugin called {name} (digest {before}, not {now}); "
                "choose another --out, or give your file another name"
            )


def metrics_of(asked: Asked) -> dict[str, Metric]:
    """What run.json keeps of the metrics of this run: those that its experiments name, in their order, then the others
    of its instruments."""
    used = {cell.params["measure"] for cell in asked.cells}
    named = dict.fromkeys(name for experiment in asked.experiments for name in experiment.metrics)
    known = {name: metric for name, metric in metrics().items() if name in named or metric.measure in used}
    return {name: known[name] for name in named if name in known} | known


def shown_packages(vpns: Sequence[Vpn]) -> list[str]:
    """The Debian packages whose versions run.json has: those of these VPNs, and what every run needs."""
    return sorted({*ALWAYS_SHOWN, *(package for vpn in vpns for package in vpn.software.packages)})


def record_of(vpn: Vpn) -> VpnRecord:
    """What run.json keeps of a plugin."""
    return VpnRecord(
        title=vpn.title,
        dataplane=vpn.dataplane,
        transport=vpn.transport,
        reference=vpn.reference,
        carries=vpn.carries,
        configurations={"comparable": dict(vpn.comparable), "recommended": dict(vpn.recommended)},
        note=vpn.note,
        digest=digest_of(vpn),
    )


def membership(run: Run) -> dict[str, list[str]]:
    """Cell key -> the experiments that share it."""
    found: dict[str, list[str]] = {}
    for record in run.experiments:
        for cell in record.cells:
            found.setdefault(cell.key, []).append(record.name)
    return found
