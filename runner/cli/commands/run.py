"""``vpneval run``: measure, and print the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from runner.cli.options import (
    Between,
    Deadline,
    Duration,
    Experiments,
    Farm,
    FarmEqual,
    FarmInsecure,
    FarmTimeout,
    Full,
    Gateways,
    ImageName,
    Install,
    Instruments,
    Json,
    KernelNames,
    LabSpec,
    Levels,
    Line,
    MaxRate,
    MustHaves,
    NeedsFile,
    OutDir,
    PathLoss,
    PathRtt,
    ProfileName,
    Quiet,
    Reps,
    Rest,
    RetryFailed,
    Rounds,
    SearchRates,
    Seed,
    SliceLength,
    Strict,
    TrafficName,
    UntilSignificant,
    Vpns,
    WeightsAtTheEnd,
    asked_for,
    tell,
)
from runner.data.errors import UsageError
from runner.data.guest import inside
from runner.lab.names import DEFAULT_IMAGE, HOST

if TYPE_CHECKING:
    from runner.cli.farm import FarmRequest
    from runner.lab.kernels.boot import Kernel
    from runner.sweep.request import Request


def run(
    context: typer.Context,
    experiments: Experiments,
    vpns: Vpns = None,
    instruments: Instruments = None,
    levels: Levels = None,
    profile: ProfileName = "quick",
    repetitions: Reps = None,
    duration_s: Duration = None,
    rounds: Rounds = None,
    slice_s: SliceLength = None,
    lab: LabSpec = "netns",
    kernel: KernelNames = HOST,
    rest: Rest = HOST,
    install: Install = False,
    image: ImageName = DEFAULT_IMAGE,
    gateway_images: Gateways = "",
    seed: Seed = 1,
    out: OutDir = None,
    deadline: Deadline = "",
    retry_failed: RetryFailed = False,
    strict: Strict = False,
    until_significant: UntilSignificant = None,
    weights: WeightsAtTheEnd = "",
    farm: Farm = "",
    farm_equal: FarmEqual = "kernel,image,versions",
    farm_timeout: FarmTimeout = "",
    farm_insecure: FarmInsecure = False,
    max_rate: MaxRate = "",
    between: Between = "",
    search_rates: SearchRates = "",
    needs: NeedsFile = None,
    line: Line = "",
    path_rtt: PathRtt = "",
    path_loss: PathLoss = "",
    traffic: TrafficName = "",
    must: MustHaves = None,
    quiet: Quiet = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Measure, and print the report. The same --out again continues the run: it measures only what is missing."""
    if not quiet and not inside():
        tell("vpneval reads the plugins and checks the command line.")
    from runner.cli.ending import report_on
    from runner.lab import kernels
    from runner.lab.places import rootless
    from runner.sweep.request import resolve

    spread = _farm_of(context) if farm else None
    under = kernels.parse(kernel, lab)
    (second,) = kernels.parse(rest, lab, several=False)
    if second and (under != [None] or as_json):
        raise UsageError("--rest cannot be used with --kernel or --json: it makes two runs, the first on this kernel")
    if install and not second:
        raise UsageError("--install installs what --rest needs: give --rest KERNEL, too")
    request = resolve(asked_for(context))
    report = partial(report_on, weights=weights, quiet=quiet, as_json=as_json, strict=strict, full=full)
    if spread:
        raise typer.Exit(report(request, spread=spread))
    rootless.enter(lab)
    if (under == [None] and not second) or inside():
        raise typer.Exit(report(request))
    raise typer.Exit(_in_guests(context, request, under, second, report))


def _farm_of(context: typer.Context) -> FarmRequest:
    """What the options say of a farm. Raises UsageError for those that a farm does not have."""
    from runner.cli.farm import FarmRequest

    given = context.params
    not_there = {f"--{name}": given[name] != HOST for name in ("kernel", "rest")} | {"--lab": given["lab"] != "netns"}
    not_there |= {"--deadline": bool(given["deadline"]), "--until-significant": bool(given["until_significant"])}
    refused = [option for option, there in not_there.items() if there]
    return FarmRequest(given["farm"], given["farm_equal"], given["farm_timeout"], given["farm_insecure"], refused)


def _in_guests(
    context: typer.Context,
    request: Request,
    under: list[Kernel | None],
    second: Kernel | None,
    report: Callable[[Request], int],
) -> int:
    """Measure under the kernels ``under``, or on this one and then what it lacks under ``second``; the exit code."""
    from runner.cli.guest_runs import run_under, run_with_rest
    from runner.report.plots import vega

    given = context.params

    def here(folder: Path) -> int:
        return report(replace(request, asked=request.asked.changed(out=folder)))

    say = (lambda text: None) if given["quiet"] else tell
    vega.script()  # kept for the guests' pages, which cannot make it
    if second:
        flags = [f"--{name}" for name in ("strict", "quiet", "full") if given[name]]
        return run_with_rest(second, request, here, say, flags, given["install"])
    return run_under(under, request, here, say, given["as_json"])
