"""``vpneval run``: measure, and print the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from runner.cli.options import (
    Between,
    CostRate,
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
    MaxRate,
    OutDir,
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
    UntilSignificant,
    Vpns,
    WeightsAtTheEnd,
    joined,
    tell,
)
from runner.data.errors import UsageError
from runner.data.guest import inside
from runner.lab.names import DEFAULT_IMAGE, HOST


def run(
    experiments: Experiments,
    vpns: Vpns = None,
    instruments: Instruments = None,
    levels: Levels = None,
    profile: ProfileName = "quick",
    reps: Reps = None,
    duration: Duration = None,
    rounds: Rounds = None,
    slice_s: SliceLength = None,
    lab: LabSpec = "netns",
    kernel: KernelNames = HOST,
    rest: Rest = HOST,
    install: Install = False,
    image: ImageName = DEFAULT_IMAGE,
    gateways: Gateways = "",
    seed: Seed = 1,
    out_dir: OutDir = None,
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
    cost_rate: CostRate = "",
    search_rates: SearchRates = "",
    quiet: Quiet = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Measure, and print the report. The same --out again continues the run: it measures only what is missing."""
    if not quiet and not inside():
        tell("vpneval reads the plugins and checks the command line.")
    from runner.cli.ending import report_on
    from runner.cli.guest_runs import run_under, run_with_rest
    from runner.lab import kernels
    from runner.lab.places import rootless
    from runner.report.plots import vega
    from runner.sweep.request import Options, ask

    spread = None
    if farm:
        from runner.cli.farm import FarmRequest

        not_there = {"--kernel": kernel != HOST, "--rest": rest != HOST, "--lab": lab != "netns"}
        not_there |= {"--deadline": bool(deadline), "--until-significant": bool(until_significant)}
        spread = FarmRequest(
            farm, farm_equal, farm_timeout, farm_insecure, [o for o, given in not_there.items() if given]
        )
    under = kernels.parse(kernel, lab)
    (second,) = kernels.parse(rest, lab, several=False)
    if second and (under != [None] or as_json):
        raise UsageError("--rest cannot be used with --kernel or --json: it makes two runs, the first on this kernel")
    if install and not second:
        raise UsageError("--install installs what --rest needs: give --rest KERNEL, too")
    asked = ask(
        Options(
            experiments,
            vpns=joined(vpns),
            instruments=instruments or (),
            levels=joined(levels),
            profile=profile,
            repetitions=reps,
            duration_s=duration,
            rounds=rounds,
            slice_s=slice_s,
            seed=seed,
            image=image,
            gateway_images=gateways,
            out=out_dir,
            deadline=deadline,
            retry_failed=retry_failed,
            until_significant=until_significant,
            weights=weights,
            lab=lab,
            many=bool(spread),
            max_rate=max_rate,
            between=between,
            cost_rate=cost_rate,
            search_rates=search_rates,
        )
    )
    if spread:
        raise typer.Exit(report_on(asked, weights, quiet, as_json, strict, full, spread))
    rootless.enter(lab)
    if (under == [None] and not second) or inside():
        raise typer.Exit(report_on(asked, weights, quiet, as_json, strict, full))

    def here(folder: Path) -> int:
        return report_on(replace(asked, out=folder), weights, quiet, as_json, strict, full)

    say = (lambda text: None) if quiet else tell
    vega.script()  # kept for the guests' pages, which cannot make it
    if second:
        flags = {"--strict": strict, "--quiet": quiet, "--full": full}
        given = [flag for flag, there in flags.items() if there]
        raise typer.Exit(run_with_rest(second, asked, here, say, weights, given, install))
    raise typer.Exit(run_under(under, asked, here, say, as_json))
