"""The commands that only read run folders: report, why, compare, history, watch.

What they work with is imported where they begin their work, as in `commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.options import Full, Json, Margin, Weights, begin
from runner.cli.output import out
from runner.data.errors import UsageError, require_known
from runner.data.streams import document, standard_output

if TYPE_CHECKING:
    from runner.data.trials import Run
    from runner.ranking.weights import Weights as GivenWeights
    from runner.report.model import Report

TEXT_FORMS = ("html", "md", "latex", "json", "csv")
ONE_RUN = ("html", "pdf", "latex", "csv")  # forms that hold one report only


def text_of(made: Report, form: str) -> str:
    """The report in one of TEXT_FORMS."""
    from runner.report.forms.html import html_text
    from runner.report.forms.latex import latex_text
    from runner.report.forms.markdown import markdown_text
    from runner.report.forms.tables import csv_text, json_text

    forms: dict[str, Callable[[Report], str]]
    forms = {"html": html_text, "md": markdown_text, "latex": latex_text, "json": json_text, "csv": csv_text}
    return forms[form](made)


def weights_of(text: str, run: Run, measured: Collection[str] | None = None) -> GivenWeights | None:
    """The weights ``text``, of the metrics of this vpneval and of the run; ``measured``: see ``parse_weights``."""
    from runner.catalogue import metrics
    from runner.ranking.weights import parse_weights

    return parse_weights(text, metrics() | run.metrics, measured) if text else None


def report_of(folders: list[Path], weights: str, configuration: str, missing: str, margin: str = "") -> Report:
    """One report of runs that belong together. Raises UsageError for what the options cannot mean."""
    from runner.data.store import load_run
    from runner.ranking.basis import measured_metrics
    from runner.ranking.margins import with_margins
    from runner.report.merge import merge_runs
    from runner.report.model import build

    require_known("--missing", missing, ["unranked", "worst"])
    twice = {str(folder) for folder in folders if [other.resolve() for other in folders].count(folder.resolve()) > 1}
    if twice:
        raise UsageError(f"named twice: {', '.join(sorted(twice))}. Every trial would count twice; name each run once")
    merged, trials = merge_runs([load_run(folder) for folder in folders])
    merged = with_margins(merged, margin)
    return build(
        merged,
        trials,
        weights=weights_of(weights, merged, measured_metrics(trials)),
        configurations=[configuration] if configuration else None,
        missing="worst" if missing == "worst" else "unranked",
    )


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="run folders of one lab, or one folder that holds several runs")
    ],
    weights: Weights = "",
    configuration: Annotated[
        str, typer.Option("--configuration", metavar="NAME", help="rank only comparable or recommended; default: both")
    ] = "",
    missing: Annotated[
        str,
        typer.Option(
            "--missing", metavar="HOW", help="what becomes of a VPN that lacks a weighted metric: unranked or worst"
        ),
    ] = "unranked",
    margin: Margin = "",
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORM", help="term, html, pdf, md, latex, json, csv, findings or findings-plot"
        ),
    ] = "term",
    full: Full = False,
    write: Annotated[
        bool,
        typer.Option("--write", help="write every form and the pictures into the run folder, and print the file names"),
    ] = False,
) -> None:
    """Print the report of a run.

    Several runs of one lab make one report. A folder that holds several runs gives each run's report in turn.
    """
    begin("vpneval reads the run and makes the report.")
    from runner.cli.other_kernels import indexed

    made_of = partial(report_of, weights=weights, configuration=configuration, missing=missing, margin=margin)
    if write:
        _write(folders, made_of)
        return
    require_known("format", form, ["term", "findings", "findings-plot", "pdf", *TEXT_FORMS])
    beside = indexed(folders[0]) if len(folders) == 1 else None
    if beside is not None and form in ONE_RUN:
        runs = ", ".join(map(str, beside))
        raise UsageError(f"{folders[0]} holds several runs, and --format {form} takes one run. Name one of {runs}")
    elif form == "findings":
        from runner.report.papers import findings_text

        document(findings_text([made_of([run]) for run in _runs_in(folders)]))
    elif form == "findings-plot":
        from runner.report.papers import rows_of
        from runner.report.plots.plots_findings import published_against_measured
        from runner.report.plots.vega import svg

        made = {chr(ord("A") + number): made_of([run]) for number, run in enumerate(_runs_in(folders))}
        document(svg(published_against_measured(rows_of(made)).spec))
    elif form == "pdf":
        _print_pdf(made_of(folders))
    elif beside:
        _print_in_turn(beside, [made_of([run]) for run in beside], form, full)
    else:
        _print(made_of(folders), form, full, folders[0] if len(folders) == 1 else None)


def _write(folders: list[Path], made_of: Callable[[list[Path]], Report]) -> None:
    """Every form of the report and its pictures into the run folder, which is the only one; prints the files."""
    from runner.cli.other_kernels import indexed
    from runner.report.forms.write import write_everything

    if len(folders) > 1 or indexed(folders[0]) is not None:
        raise UsageError("--write takes one run folder: it writes the files into that folder")
    try:
        paths = write_everything(folders[0], made_of(folders))
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error}") from None
    document("".join(f"{path}\n" for path in paths))


def _runs_in(folders: list[Path]) -> list[Path]:
    """The run folders, a parent folder's in its place."""
    from runner.cli.other_kernels import indexed

    return [run for folder in folders for run in indexed(folder) or [folder]]


def _print_pdf(made: Report) -> None:
    from runner.report.forms.pdf import pdf_bytes

    if standard_output().isatty():
        raise UsageError("a PDF cannot be shown on a terminal: vpneval report DIR --format pdf > report.pdf")
    standard_output().buffer.write(pdf_bytes(text_of(made, "html")))


def _print_in_turn(runs: list[Path], made: list[Report], form: str, full: bool) -> None:
    """The reports of the runs in a parent folder: on the terminal with a rule between them, in JSON as one list."""
    if form == "json":
        document("[" + ",\n".join(text_of(one, "json") for one in made) + "]\n")
        return
    for run, one in zip(runs, made, strict=True):
        if form == "term":
            out.rule(run.name)
        _print(one, form, full, run)


def _print(made: Report, form: str, full: bool, folder: Path | None) -> None:
    if form == "term":
        from runner.report.forms.terminal import render

        render(made, out, full=full, folder=folder)
    else:
        document(text_of(made, form))


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="the run folder from before the change")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="the run folder from after the change")],
    as_json: Json = False,
    margin: Margin = "",
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="term, html or json")] = "term",
) -> None:
    """Compare a run before a change with one after it. Exit code 1: something became significantly worse."""
    begin("vpneval reads both runs and compares them.")
    from runner.data.store import load_run
    from runner.ranking.margins import with_margins
    from runner.report.compare import compare_runs, render
    from runner.report.forms.comparison import comparison_html

    require_known("format", form, ["term", "html", "json"])
    (first, trials), (second, later) = load_run(before), load_run(after)
    comparison = compare_runs((with_margins(first, margin), trials), (with_margins(second, margin), later))
    if as_json or form == "json":
        document(comparison.model_dump_json(indent=1) + "\n")
    elif form == "html":
        document(comparison_html(comparison))
    else:
        render(comparison, out)
    if comparison.regressed:
        raise typer.Exit(1)


def why(
    a: Annotated[str, typer.Argument(metavar="VPN", help="how much better is this VPN …")],
    b: Annotated[str, typer.Argument(metavar="VPN", help="… than this one?")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="the run folder; default: the latest in results/")
    ] = None,
) -> None:
    """Say by what factor one VPN is better than another.

    The answer is one sentence for each metric, with the interval of the factor.
    """
    begin("vpneval reads the run.")
    from runner.data.store import load_run
    from runner.report.why import why as why_of

    for line in why_of(*load_run(folder or latest()), a, b):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def latest() -> Path:
    """The run folder in results/ that was written to last. Raises UsageError where there is none."""
    runs = [path.parent for pattern in ("*/run.json", "*/*/run.json") for path in Path("results").glob(pattern)]
    own = [run for run in runs if "examples" not in run.parts and "published" not in run.parts]
    if not own:
        raise UsageError("results/ has no run yet: name a run folder, or measure one with `vpneval run`")
    return max(own, key=lambda run: (run / "run.json").stat().st_mtime)


def history(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="run folders, or folders that hold several runs")
    ],
) -> None:
    """Print an HTML page with the trends over many runs.

    Each VPN and metric has a trend. Runs from different labs are plotted separately.
    """
    begin("vpneval reads the runs.")
    from runner.data.store import load_run
    from runner.report.forms.comparison import history_html, trends

    document(history_html(trends([load_run(run) for run in _runs_in(folders)])))


def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a run folder; the run may still go on")],
    weights: Weights = "",
) -> None:
    """Show the ranking of a run while it is measured. This command only reads the run folder."""
    begin("vpneval reads the run.")
    from runner.cli.watch import watch as watch_run
    from runner.data.store import load_run

    watch_run(folder, out, weights_of(weights, load_run(folder)[0]) if weights else None)
