"""``vpneval run``: measure, and print the report."""

from __future__ import annotations

import typer

from runner.cli import options
from runner.data.errors import UsageError
from runner.data.guest import inside
from runner.data.named import HOST
from runner.lab.names import DEFAULT_IMAGE


def run(
    context: typer.Context,
    experiments: options.Experiments,
    vpns: options.Vpns = None,
    builds: options.Builds = None,
    instruments: options.Instruments = None,
    question: options.QuestionName = "",
    levels: options.Levels = None,
    profile: options.ProfileName = "quick",
    repetitions: options.Reps = None,
    duration_s: options.Duration = None,
    rounds: options.Rounds = None,
    slice_s: options.SliceLength = None,
    lab: options.LabSpec = "netns",
    kernel: options.KernelNames = HOST,
    rest: options.Rest = HOST,
    install: options.Install = False,
    image: options.ImageName = DEFAULT_IMAGE,
    gateway_images: options.Gateways = "",
    seed: options.Seed = 1,
    out: options.OutDir = None,
    deadline: options.Deadline = "",
    retry_failed: options.RetryFailed = False,
    strict: options.Strict = False,
    until_significant: options.UntilSignificant = None,
    weights: options.Weights = "",
    farm: options.Farm = "",
    farm_equal: options.FarmEqual = "kernel,image,versions",
    farm_timeout: options.FarmTimeout = "",
    farm_insecure: options.FarmInsecure = False,
    max_rate: options.MaxRate = "",
    between: options.Between = "",
    search_rates: options.SearchRates = "",
    needs: options.NeedsFile = None,
    line: options.Line = "",
    path_rtt: options.PathRtt = "",
    path_loss: options.PathLoss = "",
    traffic: options.TrafficName = "",
    cores: options.Cores = "",
    must: options.MustHaves = None,
    quiet: options.Quiet = False,
    full: options.Full = False,
    as_json: options.Json = False,
) -> None:
    """Measure, and print the report. The same --out again continues the run: it measures only what is missing."""
    if not quiet and not inside():
        options.tell("vpneval reads the plugins and checks the command line.")
    from runner.cli.ending import Shown
    from runner.cli.measuring import measure
    from runner.data.trust import note
    from runner.lab import kernels

    (second,) = kernels.parse(rest, lab, several=False)
    if second and (farm or builds):
        raise UsageError(f"--rest cannot be used with {'--farm' if farm else '--build'}")
    if second and (kernel != HOST or as_json):
        raise UsageError("--rest cannot be used with --kernel or --json: it makes two runs, the first on this kernel")
    if install and farm:
        raise UsageError("--install is for this machine, and --farm measures on others: leave one of them out")
    asked = options.asked_for(context)
    note(asked)
    raise typer.Exit(measure(asked, Shown(quiet, full, as_json, strict), second, install))
