"""The commands and their options. Every command checks what it was given before it starts anything.

What a command works with is imported where it begins its work: `--help` and a wrong option are answered at once.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import by_hand, more, reading
from runner.cli.block import block
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
    KernelName,
    KernelNames,
    LabSpec,
    Levels,
    MaxRate,
    Once,
    OnlyMachine,
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
    Words,
    begin,
    joined,
    tell,
)
from runner.cli.output import err, out
from runner.data.errors import UsageError, require_known
from runner.data.guest import inside
from runner.data.streams import document
from runner.lab.names import DEFAULT_IMAGE, HOST, SUITES, image_names

if TYPE_CHECKING:
    pass

app = typer.Typer(
    help="Measure site-to-site VPNs against each other on this machine, and rank them.",
    cls=Words,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes a third of the time
)
lab_app = typer.Typer(
    help="Start a lab and work in it by hand.", cls=Words, no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(lab_app, name="lab")
command = partial(app.command, cls=Once)


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="print without colours, as NO_COLOR=1 does")] = False,
) -> None:
    """The options before a command. ``--version`` prints and exits with 0."""
    out.no_color, err.no_color = out.no_color or no_color, err.no_color or no_color
    if show_version:
        from importlib.metadata import version

        print(f"vpneval {version('vpneval')}")
        raise typer.Exit


@command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]", help="vpns, extinct, experiments, metrics, presets, factors or profiles; default: vpns"
        ),
    ] = "vpns",
    as_json: Json = False,
) -> None:
    """List the VPNs, experiments, metrics, presets and factors."""
    begin("vpneval reads the plugins and the experiments.")
    from rich.table import Table

    from runner.cli.listing import tables

    found = tables(whole=as_json)
    require_known("listing", what, list(found))
    if as_json:
        document(json.dumps(found[what], indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold", padding=(0, 1), pad_edge=False, collapse_padding=True)
    for column in found[what][0]:
        table.add_column(column.replace(" ", "\n"), overflow="fold", no_wrap=column == "name")
    for row in found[what]:
        table.add_row(*row.values())
    out.print(table)


@command()
def doctor(
    image: ImageName = DEFAULT_IMAGE,
    lab: LabSpec = "netns",
    kernel: KernelName = HOST,
    vpns: Vpns = None,
    max_rate: MaxRate = "",
    only_machine: OnlyMachine = False,
    as_json: Json = False,
) -> None:
    """Check which VPNs this machine can run.

    Every VPN is asked in a lab. The answer says what is missing and how to get it. --lab asks another lab instead,
    and --kernel a guest kernel.
    """
    more = "" if only_machine else " It then starts a lab and asks each VPN in it, which takes some seconds."
    begin(f"vpneval looks at this machine.{more}")
    from rich.table import Table

    from runner.cli.doctor import examine, this_machine
    from runner.cli.guest_runs import this_command_under
    from runner.lab import kernels

    (under,) = kernels.parse(kernel, lab, several=False)
    require_known("image", image, image_names())
    if under and not inside():
        raise typer.Exit(this_command_under(under, image, tell))
    checks = this_machine() if only_machine else examine(image, lab, joined(vpns), max_rate)
    if as_json:
        document(json.dumps([vars(check) for check in checks], indent=1) + "\n")
    else:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(overflow="fold")
        for check in checks:
            mark = {"ok": "[green]ok[/]", "warning": "[yellow]unsupported[/]", "error": "[red]missing[/]"}[check.level]
            table.add_row(mark, check.what, check.says.replace("[", r"\["))
        out.print(table)
    if any(check.level == "error" for check in checks):
        raise typer.Exit(3)


@command("image")
def image_(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="trixie or bookworm; default: trixie")] = DEFAULT_IMAGE,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="remove the image and build it again")] = False,
    layer: Annotated[
        str, typer.Option("--layer", metavar="NAME", help="also build this layer for it; vagrant/layers/ has them")
    ] = "",
) -> None:
    """Build the lab image and check it. `run` builds a missing image, too."""
    begin(f"vpneval checks the lab image {name}.")
    from runner.lab.places import rootless
    from runner.lab.software import image as images
    from runner.lab.software import layers

    require_known("image", name, list(SUITES))
    if layer:
        require_known("layer", layer, layers.names())
    rootless.enter("netns")
    if rebuild:
        images.remove(name)
    built = images.open_image(name, say=tell)
    out.print(f"{name}: {built.root} ({len(built.packages)} packages)", highlight=False, soft_wrap=True)
    if layer:
        built_layer = layers.build(layer, name, tell)
        out.print(f"{layer}: {built_layer}", highlight=False, soft_wrap=True)


@command()
def plan(
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
    seed: Seed = 1,
    gateways: Gateways = "",
    out_dir: OutDir = None,
    deadline: Deadline = "",
    until_significant: UntilSignificant = None,
    weights: WeightsAtTheEnd = "",
    max_rate: MaxRate = "",
    between: Between = "",
    cost_rate: CostRate = "",
    search_rates: SearchRates = "",
    as_json: Json = False,
) -> None:
    """Print the trials of a run and how long they would take. Nothing is measured.

    With --out and the folder of a run: the trials that it lacks, and with --until-significant how long a sure answer
    takes.
    """
    begin("vpneval plans the trials.")
    from runner.cli.planned import show
    from runner.sweep.request import Options, ask

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
            lab=lab,
            seed=seed,
            gateway_images=gateways,
            out=out_dir,
            deadline=deadline,
            until_significant=until_significant,
            weights=weights,
            max_rate=max_rate,
            between=between,
            cost_rate=cost_rate,
            search_rates=search_rates,
        )
    )
    show(asked, as_json)


@command()
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


command()(more.more)
command()(reading.report)
command()(reading.why)
command()(reading.compare)
command()(reading.history)
command()(reading.watch)
command(hidden=True)(block)
command()(by_hand.recipe)
lab_app.command("shell", cls=Once)(by_hand.lab_shell)
