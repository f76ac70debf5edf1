"""``vpneval run``: measure, and print the report."""

from __future__ import annotations

import typer

from runner.cli.options import (
    Between,
    Builds,
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
from runner.data.named import HOST
from runner.lab.names import DEFAULT_IMAGE


def run(
    context: typer.Context,
    experiments: Experiments,
    vpns: Vpns = None,
    builds: Builds = None,
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
    from runner.cli.ending import Shown
    from runner.cli.measuring import measure
    from runner.lab import kernels

    (second,) = kernels.parse(rest, lab, several=False)
    if second and (farm or builds):
        raise UsageError(f"--rest cannot be used with {'--farm' if farm else '--build'}")
    if second and (kernel != HOST or as_json):
        raise UsageError("--rest cannot be used with --kernel or --json: it makes two runs, the first on this kernel")
    if install and farm:
        raise UsageError("--install is for this machine, and --farm measures on others: leave one of them out")
    raise typer.Exit(measure(asked_for(context), Shown(quiet, full, as_json, strict), second, install))
