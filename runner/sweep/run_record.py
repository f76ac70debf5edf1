"""How the run folder describes a run: run.json, for a new folder or one to go on in, and packages.json."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from runner.catalogue import metrics, read_run, record_of
from runner.data.errors import UsageError
from runner.data.files import from_json, is_there, no_link, read_bytes, write_text
from runner.data.levels import UPLINK
from runner.data.metric import Metric
from runner.data.store import Store
from runner.data.trials import Run, VpnRecord
from runner.lab.software import layers
from runner.lab.software.image import Image
from runner.sweep.request import Request
from runner.vpn.plugin import Vpn

BUILD_MARGIN = 1.025  # half of the regression of 5 % that a run of two builds is to find
ALWAYS_SHOWN = ("iperf3", "openssl", "iproute2")  # packages of every run, beside those of its VPNs


def describe(
    request: Request,
    store: Store,
    lab_facts: dict[str, Any],
    image: Image,
    gateway_images: Mapping[str, Image],
    measured: Set[str] | None = None,
) -> Run:
    """The run.json of this folder: a new one, or the one that is there with what is asked now added. ``measured``: the
    VPNs of which the folder has numbers, where the store does not hold its trials any more.

    Raises UsageError where the folder belongs to another lab, kernel, image or profile, or has numbers of another
    plugin of the same name.
    """
    now = datetime.now(UTC)
    vpns = {vpn.name: record_of(vpn) for vpn in request.vpns}
    fresh = Run(
        vpneval_version=version("vpneval"),
        commit=commit_of(Path(__file__)),
        run_id=store.folder.name,
        created_at=now.isoformat(timespec="seconds"),
        profile=request.profile.name,
        profile_note=request.profile.note,
        seed=request.asked.seed,
        repetitions=request.repetitions,
        needs=request.needs,
        lab=lab_facts,
        image={
            "name": image.name,
            "digest": image.digest,
            "packages": {name: image.packages[name] for name in shown_packages(request.vpns) if name in image.packages},
            "gateways": {name: gateway.digest for name, gateway in gateway_images.items()},
            "layers": layers_of(request.vpns, [*(gateway_images or {image.name: image})]),
        },
        experiments=request.records,
        metrics=metrics_of(request),
        vpns=vpns,
    )
    path = store.folder / "run.json"
    if not path.exists():
        return fresh
    old = read_run(path)
    _same_lab(store, old, fresh, request.profile.noted_before)
    _same_plugins(store, old, fresh, measured_vpns(store) if measured is None else measured)
    return _with_more(old, fresh)


def commit_of(file: Path) -> str:
    """The git commit of the tree that has this file, with + where the tree differs from it. Empty where git knows no
    such file: in an installed package, or without git."""
    git = ("git", "-c", "safe.directory=*", "-C", str(file.parent))  # root may run what another user cloned
    named = ("describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+")
    try:
        for command in (("ls-files", "--error-unmatch", file.name), named):
            done = subprocess.run([*git, *command], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _same_lab(store: Store, old: Run, fresh: Run, noted_before: Sequence[str]) -> None:
    """Raise UsageError where what is asked now is not measured as the folder's run was. ``noted_before``: how the
    profile was noted before."""
    noted = fresh.profile_note if old.profile_note in noted_before else old.profile_note
    gateways, built = _gateways(old, fresh), _layers(old, fresh)
    for what, ours, theirs in (
        *((f"gateway image {name}", gateways[name], digest) for name, digest in old.image.get("gateways", {}).items()),
        *((f"layer {name}", built[name], digest) for name, digest in old.image.get("layers", {}).items()),
        ("profile", fresh.profile_note, noted),
        ("image", fresh.image.get("digest"), old.image.get("digest")),
        ("kernel", fresh.lab.get("kernel"), old.lab.get("kernel")),
        ("guest", fresh.lab.get("guest"), old.lab.get("guest")),
        ("lab", fresh.lab.get("kind"), old.lab.get("kind")),
        ("uplink", fresh.lab.get(UPLINK), old.lab.get(UPLINK)),
        ("CPU", fresh.lab.get("cpu"), old.lab.get("cpu")),
        ("TCP congestion control", fresh.lab.get("congestion_control"), old.lab.get("congestion_control")),
    ):
        if ours != theirs:
            raise UsageError(f"{store.folder} was measured with {what} {theirs!r}, not {ours!r}; choose another --out")


def _gateways(old: Run, fresh: Run) -> dict[str, str]:
    """Every image of gateways, by name: its digest."""
    return {**old.image.get("gateways", {}), **fresh.image["gateways"]}


def _layers(old: Run, fresh: Run) -> dict[str, str]:
    """Every layer, by name: its digest."""
    return {**old.image.get("layers", {}), **fresh.image["layers"]}


def _with_more(old: Run, fresh: Run) -> Run:
    """The folder's run, with what is asked now added."""
    packages = old.image.get("packages", {}) | fresh.image["packages"]
    experiments = {record.name: record for record in old.experiments} | {r.name: r for r in fresh.experiments}
    for record in old.experiments:
        merged = {cell.key: cell for cell in [*record.cells, *experiments[record.name].cells]}
        experiments[record.name] = experiments[record.name].model_copy(update={"cells": list(merged.values())})
    return old.model_copy(
        update={
            "experiments": list(experiments.values()),
            "needs": fresh.needs,
            "metrics": old.metrics | fresh.metrics,
            "vpns": old.vpns | {name: _came_in(old.vpns.get(name), now) for name, now in fresh.vpns.items()},
            "image": old.image
            | {"gateways": _gateways(old, fresh), "packages": packages, "layers": _layers(old, fresh)},
            "repetitions": max(old.repetitions, fresh.repetitions),
        }
    )


def _came_in(before: VpnRecord | None, now: VpnRecord) -> VpnRecord:
    return now.model_copy(update={"after": before.after}) if before else now


def measured_vpns(store: Store) -> set[str]:
    """The VPNs of which the folder has numbers."""
    return {trial.vpn for trial in store.trials if trial.status == "ok"}


def _same_plugins(store: Store, old: Run, fresh: Run, measured: Set[str]) -> None:
    """Raise UsageError where a name would stand for the numbers of two plugins, or two builds."""
    for name in sorted(measured & old.vpns.keys() & fresh.vpns.keys()):
        if old.vpns[name].build != fresh.vpns[name].build:
            raise UsageError(
                f"{store.folder} has trials of another build called {name} (digest {old.vpns[name].build}, not "
                f"{fresh.vpns[name].build}); choose another --out, or another name: --build VPN@NAME=PATH"
            )
        before, now = old.vpns[name].digest, fresh.vpns[name].digest
        if before and before != now:
            raise UsageError(
                f"{store.folder} has trials of another plugin called {name} (digest {before}, not {now}); "
                "choose another --out, or give your file another name"
            )


def metrics_of(request: Request) -> dict[str, Metric]:
    """What run.json keeps of the metrics of this run: those that its experiments name, in their order, then the others
    of its instruments."""
    used = {cell.params["measure"] for cell in request.cells}
    named = dict.fromkeys(name for experiment in request.experiments for name in experiment.metrics)
    known = {name: metric for name, metric in metrics().items() if name in named or metric.measure in used}
    if request.asked.builds:
        known = {
            name: metric if metric.exact else metric.model_copy(update={"margin": min(metric.margin, BUILD_MARGIN)})
            for name, metric in known.items()
        }
    return {name: known[name] for name in named if name in known} | known


def shown_packages(vpns: Sequence[Vpn]) -> list[str]:
    """The Debian packages whose versions run.json has: those of these VPNs, and what every run needs."""
    return sorted({*ALWAYS_SHOWN, *(package for vpn in vpns for package in vpn.software.packages)})


def layers_of(vpns: Sequence[Vpn], images: Sequence[str]) -> dict[str, str]:
    """The layers that these VPNs need on gateways with these images, as "NAME for SUITE", and the SHA-256 of each that
    is built."""
    pairs = [(name, suite) for name in sorted({vpn.software.layer for vpn in vpns} - {""}) for suite in images]
    found = {f"{name} for {suite}": layers.digest(name, suite) for name, suite in pairs}
    return {layer: digest for layer, digest in found.items() if digest}


def membership(run: Run) -> dict[str, list[str]]:
    """Cell key -> the experiments that share it."""
    experiments: dict[str, list[str]] = {}
    for record in run.experiments:
        for cell in record.cells:
            experiments.setdefault(cell.key, []).append(record.name)
    return experiments


def wanted_metrics(run: Run) -> dict[str, set[str]]:
    """Cell key -> the metrics for which the experiments that share the cell ask."""
    metrics: dict[str, set[str]] = {}
    for record in run.experiments:
        for cell in record.cells:
            metrics.setdefault(cell.key, set()).update(record.metrics)
    return metrics


def save_packages(store: Store, images: Sequence[Image]) -> None:
    """Every package of every image of this run, with its version, beside run.json: packages.json."""
    path = no_link(store.folder / "packages.json")
    try:
        known = dict(from_json(read_bytes(path))) if is_there(path) else {}
    except (ValueError, TypeError) as wrong:
        raise UsageError(f"{path} is not a list of packages any more: {wrong}. Remove the file") from None
    known |= {image.name: {"digest": image.digest, "packages": image.packages} for image in images}
    partial = path.with_suffix(".json.partial")
    write_text(partial, json.dumps(known, indent=1) + "\n")
    partial.rename(path)
