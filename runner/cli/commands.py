"""The commands and their options. Every command checks what it was given before it starts anything."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from runner.catalogue import blamed_plugin, load_vpn
from runner.cli import reading
from runner.cli.asked import Asked, ask
from runner.cli.doctor import examine
from runner.cli.ending import without_number
from runner.cli.listing import tables
from runner.cli.options import (
    Deadline,
    Duration,
    Experiments,
    Gateways,
    ImageName,
    Instruments,
    Json,
    KernelName,
    KernelNames,
    LabSpec,
    Levels,
    Once,
    OutDir,
    ProfileName,
    Quiet,
    Reps,
    Rest,
    RetryFailed,
    Seed,
    Strict,
    UntilSignificant,
    Vpns,
    WeightsAtTheEnd,
    joined,
    tell,
)
from runner.cli.other_kernels import run_under, run_with_rest, this_command_under
from runner.cli.output import err, out
from runner.cli.progress import roughly
from runner.cli.session import conduct
from runner.cli.shell import one_tunnel, shell
from runner.data.errors import UsageError, VpnevalError, require_known
from runner.data.levels import TUNNEL_FACTORS
from runner.data.streams import document
from runner.lab import image as images
from runner.lab import kernels, layers
from runner.lab.places import rootless
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render as render_terminal
from runner.report.forms.write import write_reports
from runner.report.plots import vega
from runner.sweep.plan import any_turns
from runner.vpn.recipe import recipe as recipe_of

ONE_AT_A_TIME = (
    "One tunnel stands at a time in this lab. The VPNs are measured in visits that are minutes apart, so that what the "
    "machines do in the meantime does not cancel: on two shared cores it moved throughput by 7 % and round-trip times "
    "by 12 % from one round to the next. This error shrinks with the root of the number of repetitions (--reps)."
)

app = typer.Typer(
    help="Which VPN, on this hardware, for this purpose, and how sure are we?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
lab_app = typer.Typer(help="A live lab to play in.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
command = partial(app.command, cls=Once)


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="plain text; as NO_COLOR=1")] = False,
) -> None:
    """The options before a command. ``--version`` prints and exits with 0."""
    out.no_color, err.no_color = out.no_color or no_color, err.no_color or no_color
    if show_version:
        print(f"vpneval {version('vpneval')}")
        raise typer.Exit


@command("list")
def list_(
    what: Annotated[str, typer.Argument(help="vpns, extinct, experiments, metrics, presets, …")] = "vpns",
    as_json: Json = False,
) -> None:
    """What there is: VPNs, extinct ones, experiments, metrics, weight presets, factors, profiles."""
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
    image: ImageName = images.DEFAULT, lab: LabSpec = "netns", kernel: KernelName = kernels.HOST, as_json: Json = False
) -> None:
    """What this machine, or another lab, or a guest kernel on it, can measure, what is missing, and how to get it."""
    (under,) = kernels.parse(kernel, lab, several=False)
    require_known("image", image, images.names())
    if under and not kernels.inside():
        raise typer.Exit(this_command_under(under, image, tell))
    checks = examine(image, lab)
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
    name: Annotated[str, typer.Argument(help="trixie or bookworm")] = images.DEFAULT,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="forget the one that is there")] = False,
    layer: Annotated[str, typer.Option("--layer", help="build this layer for it as well (vagrant/layers/)")] = "",
) -> None:
    """Build and check the lab image; `run` does it too when it is missing."""
    require_known("image", name, list(images.SUITES))
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
    lab: LabSpec = "netns",
    seed: Seed = 1,
    gateways: Gateways = "",
    as_json: Json = False,
) -> None:
    """The trials that a run would measure and the time it would take; runs nothing."""
    asked = ask(
        experiments,
        vpns=joined(vpns),
        instruments=instruments or (),
        levels=joined(levels),
        profile=profile,
        repetitions=reps,
        duration_s=duration,
        lab=lab,
        seed=seed,
        gateway_images=gateways,
    )
    trials, expected_s = asked.expected()
    if as_json:
        cells = [cell.model_dump() for cell in asked.cells]
        document(json.dumps({"trials": trials, "expected_s": round(expected_s), "cells": cells}, indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("vpn", "tunnel", "traffic"):
        table.add_column(column, overflow="fold")
    for cell in asked.cells:
        tunnel = [cell.params[f] for f in ("cipher", "integrity", "compression", "image") if f in cell.params]
        traffic = [
            f"{f} {level}" if level.isdigit() or f == "fragmentation" else level
            for f, level in cell.params.items()
            if f not in TUNNEL_FACTORS
        ]
        table.add_row(cell.vpn, ", ".join(tunnel), ", ".join(traffic))
    out.print(table)
    out.print(
        f"\n{len(asked.cells)} cells × {asked.repetitions} repetitions, with the baseline: {trials} trials, "
        f"about {roughly(expected_s)} if every VPN can run here. {asked.profile.note}",
        highlight=False,
    )
    if lab != "netns" and any_turns(asked.cells, asked.profile):
        out.print(ONE_AT_A_TIME, highlight=False)


@command()
def run(
    experiments: Experiments,
    vpns: Vpns = None,
    instruments: Instruments = None,
    levels: Levels = None,
    profile: ProfileName = "quick",
    reps: Reps = None,
    duration: Duration = None,
    lab: LabSpec = "netns",
    kernel: KernelNames = kernels.HOST,
    rest: Rest = kernels.HOST,
    image: ImageName = images.DEFAULT,
    gateways: Gateways = "",
    seed: Seed = 1,
    out_dir: OutDir = None,
    deadline: Deadline = "",
    retry_failed: RetryFailed = False,
    strict: Strict = False,
    until_significant: UntilSignificant = False,
    weights: WeightsAtTheEnd = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure, and end with the report. The same --out again runs only what is missing."""
    under = kernels.parse(kernel, lab)
    (second,) = kernels.parse(rest, lab, several=False)
    if second and (under != [None] or as_json):
        raise UsageError("--rest goes with neither --kernel nor --json: it makes a run of this kernel, then another")
    asked = ask(
        experiments,
        vpns=joined(vpns),
        instruments=instruments or (),
        levels=joined(levels),
        profile=profile,
        repetitions=reps,
        duration_s=duration,
        seed=seed,
        image=image,
        gateway_images=gateways,
        out=out_dir,
        deadline=deadline,
        retry_failed=retry_failed,
        until_significant=until_significant,
        weights=weights,
        lab=lab,
    )
    rootless.enter(lab)
    if (under == [None] and not second) or kernels.inside():
        raise typer.Exit(_conduct(asked, weights, quiet, as_json, strict))

    def here(folder: Path) -> int:
        return _conduct(replace(asked, out=folder), weights, quiet, as_json, strict)

    say = (lambda text: None) if quiet else tell
    vega.script()  # kept for the guests' pages, which cannot make it
    if second:
        raise typer.Exit(run_with_rest(second, asked, here, say))
    raise typer.Exit(run_under(under, asked, here, say, as_json))


def _conduct(asked: Asked, weights: str, quiet: bool, as_json: bool, strict: bool) -> int:
    folder, outcome = conduct(asked, ["vpneval", *sys.argv[1:]], err, quiet)
    lacks = False
    try:
        report = reading.report_of([folder], weights, "", "unranked")
    except UsageError as wrong:  # what the weights count was to be measured, and was not
        report, lacks = reading.report_of([folder], "", "", "unranked"), True
        tell(f"vpneval: {wrong}; the report is with the usual weights")
    try:
        write_reports(folder, report)
    except OSError as error:
        outcome.stopped = outcome.stopped or f"the report cannot be written: {error}"
    if as_json:
        document(json_text(report) + "\n")
    elif not quiet:
        render_terminal(report, out)
        out.print(f"\nreport: {folder / 'report.html'}", highlight=False, soft_wrap=True)
    if outcome.separation and not quiet:
        err.print(f"--until-significant: {outcome.separation}", markup=False, highlight=False, soft_wrap=True)
    if outcome.trimmed and not quiet:
        err.print(
            f"deadline reached: {outcome.trimmed} trials left out; to measure them: --out {folder}", soft_wrap=True
        )
    if outcome.stopped:
        err.print(f"vpneval: stopped: {outcome.stopped}", markup=False, soft_wrap=True)
        err.print(f"what is measured is safe; to go on: the same command with --out {folder}", soft_wrap=True)
        return 4
    if outcome.trimmed and not report.trials["ok"]:
        tell("nothing could be measured before the deadline: give it more time")
        lacks = True
    return max(int(lacks), without_number(asked, folder, strict))


command()(reading.report)
command()(reading.why)
command()(reading.compare)
command()(reading.history)
command()(reading.watch)


@command()
def recipe(vpn: Annotated[str, typer.Argument(metavar="VPN")], levels: Levels = None) -> None:
    """The runbook of files and commands that sets this tunnel up on two plain gateways."""
    plugin = load_vpn(vpn)
    try:
        text = recipe_of(plugin, one_tunnel(plugin, joined(levels)))
    except VpnevalError:
        raise
    except (Exception, SystemExit) as broken:
        raise UsageError(blamed_plugin(plugin, broken)) from broken
    document(text)


@lab_app.command("shell", cls=Once)
def lab_shell(
    node: Annotated[str, typer.Argument(metavar="NODE", help="host1, gw1, wan, gw2, host2")],
    vpn: Annotated[str, typer.Option("--vpn", metavar="NAME", help="the VPN that is up in it")] = "none",
    levels: Levels = None,
    image: ImageName = images.DEFAULT,
    where: LabSpec = "netns",
    work: Annotated[str, typer.Option("--command", "-c", help="run this instead of a shell that you type in")] = "",
) -> None:
    """A shell on a node of a live lab with a tunnel up; the lab goes when the shell ends."""
    require_known("node", node, ["host1", "gw1", "wan", "gw2", "host2"])
    plugin = load_vpn(vpn)
    params = one_tunnel(plugin, joined(levels))
    rootless.enter(where)
    raise typer.Exit(shell(node, plugin, params, image, where, work, tell))
