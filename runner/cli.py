"""The command line. Every command checks what it was given before it starts anything.

Exit codes: 0 all trials ended ok or unsupported, 1 some failed (or a regression), 2 usage, 3 this machine or
lab cannot run it, 4 stopped by a broken lab or a full disk, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from runner import image as images
from runner import kernels, layers
from runner.compare import compare_runs
from runner.compare import render as render_comparison
from runner.doctor import examine
from runner.errors import UsageError, VpnevalError
from runner.experiment import PROFILES
from runner.kernels.runs import indexed, run_under, run_with_rest, this_command_under
from runner.labs import FORMS, rootless
from runner.listing import tables
from runner.model import TRAFFIC_FACTORS
from runner.plugin import load_vpn, require_known
from runner.ranking import measured_metrics
from runner.recipe import recipe as recipe_of
from runner.report import vega
from runner.report.comparison import comparison_html, history_html, trends
from runner.report.html import html_text
from runner.report.markdown import markdown_text
from runner.report.merge import merge_runs
from runner.report.model import Report, build
from runner.report.papers import findings_text
from runner.report.tables import csv_text, json_text
from runner.report.terminal import render as render_terminal
from runner.report.write import write_everything, write_reports
from runner.session import Asked, ask, conduct
from runner.shell import one_tunnel, shell
from runner.store import load_run
from runner.until import MOST_REPETITIONS
from runner.watch import watch
from runner.weights import parse_weights

app = typer.Typer(
    help="Which VPN, on this hardware, for this purpose, and how sure are we?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
lab_app = typer.Typer(help="A live lab to play in.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
err = Console(stderr=True)
out = Console()

Experiments = Annotated[list[str], typer.Argument(metavar="EXPERIMENT…", help="see: vpneval list experiments")]
Vpns = Annotated[str, typer.Option("--vpn", metavar="A,B", help="only these VPNs (or ./mine.py); default: all")]
Levels = Annotated[str, typer.Option("--set", metavar="FACTOR=LEVEL,…", help="see: vpneval list factors")]
ProfileName = Annotated[str, typer.Option("--profile", help=f"{', '.join(PROFILES)}")]
Reps = Annotated[int | None, typer.Option("--reps", help="repetitions (blocks); default: the profile's")]
Duration = Annotated[int | None, typer.Option("--duration", help="seconds of each throughput test")]
LabSpec = Annotated[str, typer.Option("--lab", metavar="LAB", help=FORMS)]
ImageName = Annotated[str, typer.Option("--image", help=f"{', '.join(images.names())}")]
Gateways = Annotated[str, typer.Option("--gateway-image", metavar="A,B", help="the gateways' software as a factor")]
KernelNames = Annotated[
    str, typer.Option("--kernel", metavar="A,B", help=f"{', '.join(kernels.names())}; several: side by side")
]
KernelName = Annotated[str, typer.Option("--kernel", metavar="NAME", help=", ".join(kernels.names()))]
Seed = Annotated[int, typer.Option("--seed", help="of the order of the trials")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else, on standard output")]


def _tell(text: str) -> None:
    err.print(text, markup=False, highlight=False, soft_wrap=True)


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context, show_version: Annotated[bool, typer.Option("--version", help="print the version")] = False
) -> None:
    if show_version:
        print(f"vpneval {version('vpneval')}")
        raise typer.Exit


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="vpns, extinct, experiments, metrics, presets, …")] = "vpns",
    as_json: Json = False,
) -> None:
    """What there is: VPNs, extinct ones, experiments, metrics, weight presets, factors, profiles."""
    found = tables(whole=as_json)
    require_known("listing", what, list(found))
    if as_json:
        print(json.dumps(found[what], indent=1))
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in found[what][0]:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in found[what]:
        table.add_row(*row.values())
    out.print(table)


@app.command()
def doctor(
    image: ImageName = images.DEFAULT, lab: LabSpec = "netns", kernel: KernelName = kernels.HOST, as_json: Json = False
) -> None:
    """What this machine, or another lab, or a guest kernel on it, can measure, what is missing, and how to get it."""
    (under,) = kernels.parse(kernel, lab, several=False)
    if under and not kernels.inside():
        raise typer.Exit(this_command_under(under, image, _tell))
    checks = examine(image, lab)
    if as_json:
        print(json.dumps([vars(check) for check in checks], indent=1))
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


@app.command("image")
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
    built = images.open_image(name, say=lambda text: err.print(text, markup=False, highlight=False))
    out.print(f"{name}: {built.root} ({len(built.packages)} packages)", highlight=False, soft_wrap=True)
    if layer:
        built_layer = layers.build(layer, name, lambda text: err.print(text, markup=False, highlight=False))
        out.print(f"{layer}: {built_layer}", highlight=False, soft_wrap=True)


@app.command()
def plan(
    experiments: Experiments,
    vpns: Vpns = "",
    levels: Levels = "",
    profile: ProfileName = "quick",
    reps: Reps = None,
    duration: Duration = None,
    seed: Seed = 1,
    gateways: Gateways = "",
    as_json: Json = False,
) -> None:
    """The trials that a run would measure and the time it would take; runs nothing."""
    asked = ask(
        experiments,
        vpns=vpns,
        levels=levels,
        profile=profile,
        repetitions=reps,
        duration_s=duration,
        seed=seed,
        gateway_images=gateways,
    )
    trials, expected_s = asked.expected()
    if as_json:
        cells = [cell.model_dump() for cell in asked.cells]
        print(json.dumps({"trials": trials, "expected_s": round(expected_s), "cells": cells}, indent=1))
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("vpn", "tunnel", "traffic"):
        table.add_column(column, overflow="fold")
    for cell in asked.cells:
        tunnel = [cell.params[f] for f in ("cipher", "integrity", "compression", "image") if f in cell.params]
        traffic = [
            f"{f} {level}" if f in ("streams", "payload_bytes", "packet_bytes", "fragmentation") else level
            for f, level in cell.params.items()
            if f in TRAFFIC_FACTORS
        ]
        table.add_row(cell.vpn, ", ".join(tunnel), ", ".join(traffic))
    out.print(table)
    out.print(
        f"\n{len(asked.cells)} cells × {asked.repetitions} repetitions, baseline first and last: {trials} trials, "
        f"about {expected_s / 60:.0f} min if every VPN can run here. {asked.profile.note}",
        highlight=False,
    )


@app.command()
def run(
    experiments: Experiments,
    vpns: Vpns = "",
    levels: Levels = "",
    profile: ProfileName = "quick",
    reps: Reps = None,
    duration: Duration = None,
    lab: LabSpec = "netns",
    kernel: KernelNames = kernels.HOST,
    rest: Annotated[
        str, typer.Option("--rest", metavar="KERNEL", help="then what this kernel lacks, under that: a second ranking")
    ] = kernels.HOST,
    image: ImageName = images.DEFAULT,
    gateways: Gateways = "",
    seed: Seed = 1,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="run folder; the same again resumes")
    ] = None,
    deadline: Annotated[
        str, typer.Option("--deadline", metavar="TIME", help="end by then (6m): trims what is last")
    ] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="measure failed trials again")] = False,
    until_significant: Annotated[
        bool,
        typer.Option(
            "--until-significant",
            help="then repeat what may still change the ranking's order (by --weights; rtt=1 for one metric), "
            f"until the --deadline, or {MOST_REPETITIONS} blocks where there is none",
        ),
    ] = False,
    weights: Annotated[str, typer.Option("--weights", help="of the report at the end")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress, no report")] = False,
    as_json: Json = False,
) -> None:
    """Measure, and end with the report. The same --out again runs only what is missing."""
    under = kernels.parse(kernel, lab)
    (second,) = kernels.parse(rest, lab, several=False)
    if second and (under != [None] or as_json):
        raise UsageError("--rest goes with neither --kernel nor --json: it makes a run of this kernel, then another")
    if weights:
        parse_weights(weights)
    asked = ask(
        experiments,
        vpns=vpns,
        levels=levels,
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
        raise typer.Exit(_conduct(asked, weights, quiet, as_json))

    def here(folder: Path) -> int:
        return _conduct(replace(asked, out=folder), weights, quiet, as_json)

    say = (lambda text: None) if quiet else _tell
    vega.script()  # kept for the guests' pages, which cannot make it
    if second:
        raise typer.Exit(run_with_rest(second, asked, here, say))
    raise typer.Exit(run_under(under, asked, here, say, as_json))


def _conduct(asked: Asked, weights: str, quiet: bool, as_json: bool) -> int:
    folder, outcome = conduct(asked, ["vpneval", *sys.argv[1:]], err, quiet)
    report = _report([folder], weights, "", "unranked")
    try:
        write_reports(folder, report)
    except OSError as error:
        outcome.stopped = outcome.stopped or f"the report cannot be written: {error}"
    if as_json:
        print(json_text(report))
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
    return 1 if any(report.trials[status] for status in ("failed", "lab_error")) else 0


def _report(folders: list[Path], weights: str, configuration: str, missing: str) -> Report:
    require_known("--missing", missing, ["unranked", "worst"])
    merged, trials = merge_runs([load_run(folder) for folder in folders])
    return build(
        merged,
        trials,
        weights=parse_weights(weights, measured_metrics(trials)) if weights else None,
        configurations=[configuration] if configuration else None,
        missing="worst" if missing == "worst" else "unranked",
    )


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="run folders of the same lab, or a parent")],
    weights: Annotated[str, typer.Option("--weights", metavar="PRESET|FILE|metric=w,…", help="see: list presets")] = "",
    configuration: Annotated[str, typer.Option("--configuration", help="comparable, recommended; default: both")] = "",
    missing: Annotated[
        str, typer.Option("--missing", help="a VPN without a weighted metric: unranked, worst")
    ] = "unranked",
    form: Annotated[str, typer.Option("--format", help="term, html, md, json, csv, findings")] = "term",
    write: Annotated[
        bool, typer.Option("--write", help="into the run folder, with pictures; prints the files")
    ] = False,
) -> None:
    """The ranked, weighted report of one run, or of several of the same lab; of a parent folder each run's in turn."""
    if write and (len(folders) > 1 or indexed(folders[0]) is not None):
        raise UsageError("--write takes one run folder: the files stand in it, and link into it")
    if write:
        try:
            paths = write_everything(folders[0], _report(folders, weights, configuration, missing))
        except OSError as error:
            raise UsageError(f"the report cannot be written: {error}") from None
        print("\n".join(map(str, paths)))
        return
    forms = {"html": html_text, "md": markdown_text, "json": json_text, "csv": csv_text, "findings": findings_text}
    require_known("format", form, ["term", *forms])
    beside = indexed(folders[0]) if len(folders) == 1 else None
    if beside is not None and form in ("html", "csv"):
        raise UsageError(f"{folders[0]} holds several runs; --format {form} takes one of {', '.join(map(str, beside))}")
    made = [_report(runs, weights, configuration, missing) for runs in ([[run] for run in beside or ()] or [folders])]
    if form == "json" and beside is not None:
        print("[" + ",\n".join(json_text(one) for one in made) + "]")
        return
    for one, folder in zip(made, beside or folders, strict=False):
        if form != "term":
            print(forms[form](one), end="")
            continue
        if beside is not None:
            out.rule(folder.name)
        render_terminal(one, out)


@app.command()
def compare(
    before: Path,
    after: Path,
    as_json: Json = False,
    form: Annotated[str, typer.Option("--format", help="term, html, json")] = "term",
) -> None:
    """Two runs, before and after; exit code 1 on a significant regression."""
    require_known("format", form, ["term", "html", "json"])
    comparison = compare_runs(load_run(before), load_run(after))
    if as_json or form == "json":
        print(comparison.model_dump_json(indent=1))
    elif form == "html":
        print(comparison_html(comparison), end="")
    else:
        render_comparison(comparison, out)
    if comparison.regressed:
        raise typer.Exit(1)


@app.command()
def history(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="run folders, or parents of some")],
) -> None:
    """A page over many runs, to redirect into a file: a trend for each VPN and metric; other labs stand apart."""
    found = [run for folder in folders for run in indexed(folder) or [folder]]
    print(history_html(trends([load_run(folder) for folder in found])), end="")


@app.command("watch")
def watch_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a run folder, finished or not")],
    weights: Annotated[str, typer.Option("--weights", metavar="PRESET|FILE|metric=w,…", help="see: list presets")] = "",
) -> None:
    """The ranking of a run as it forms, until the run ends; it only reads, so any number may watch."""
    watch(folder, out, parse_weights(weights) if weights else None)


@app.command()
def recipe(vpn: Annotated[str, typer.Argument(metavar="VPN")], levels: Levels = "") -> None:
    """The runbook of files and commands that sets this tunnel up on two plain gateways."""
    plugin = load_vpn(vpn)
    print(recipe_of(plugin, one_tunnel(plugin, levels)), end="")


@lab_app.command("shell")
def lab_shell(
    node: Annotated[str, typer.Argument(metavar="NODE", help="host1, gw1, wan, gw2, host2")],
    vpn: Annotated[str, typer.Option("--vpn", metavar="NAME", help="the VPN that is up in it")] = "none",
    levels: Levels = "",
    image: ImageName = images.DEFAULT,
    where: LabSpec = "netns",
    command: Annotated[str, typer.Option("--command", "-c", help="run this instead of a shell that you type in")] = "",
) -> None:
    """A shell on a node of a live lab with a tunnel up; the lab goes when the shell ends."""
    require_known("node", node, ["host1", "gw1", "wan", "gw2", "host2"])
    plugin = load_vpn(vpn)
    params = one_tunnel(plugin, levels)
    rootless.enter(where)
    raise typer.Exit(shell(node, plugin, params, image, where, command, _tell))


def main(argv: list[str] | None = None) -> Any:
    """Entry point: errors become one sentence and an exit code, never a traceback."""
    try:
        app(args=argv, standalone_mode=True)
    except VpnevalError as error:
        err.print(f"vpneval: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("vpneval: interrupted; what is measured is safe.", highlight=False)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)


if __name__ == "__main__":
    main()
