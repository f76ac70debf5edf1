"""The commands that only read run folders: report, why, compare, history, watch.

What they work with is imported where they begin their work, as in `commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from runner.cli.folders import latest, one_run, runs_in
from runner.cli.options import Full, Json, Margin, Weights, begin, tell
from runner.cli.output import out
from runner.data.errors import UsageError, require_known
from runner.data.streams import document, standard_output

if TYPE_CHECKING:
    from runner.data.trials import Run
    from runner.ranking.weights import Weights as GivenWeights
    from runner.report.model import Report

TEXT_FORMS = ("html", "md", "latex", "json", "csv")
ONE_RUN = ("html", "pdf", "latex", "csv")  # forms that hold one report only


def text_of(made: Report, form: str, folder: Path | None = None) -> str:
    """The report in one of TEXT_FORMS; ``folder``: of its run, where it is one."""
    from runner.report.forms.html import html_text
    from runner.report.forms.latex import latex_text
    from runner.report.forms.markdown import markdown_text
    from runner.report.forms.tables import csv_text, json_text

    forms: dict[str, Callable[[Report], str]]
    forms = {
        "html": partial(html_text, folder=folder),
        "md": partial(markdown_text, folder=folder),
        "latex": latex_text,
        "json": json_text,
        "csv": csv_text,
    }
    return forms[form](made)


def weights_of(text: str, run: Run, measured: Collection[str] | None = None) -> GivenWeights | None:
    """The weights ``text``, of the metrics of this vpneval and of the run; ``measured``: see ``parse_weights``."""
    from runner.catalogue import metrics
    from runner.ranking.weights import parse_weights

    return parse_weights(text, metrics() | run.metrics, measured) if text else None


def report_of(folders: list[Path], weights: str, configuration: str = "", margin: str = "") -> Report:
    """One report of runs that belong together; of several kinds of machines, on the one with most trials. Raises
    UsageError for what the options cannot mean."""
    return next(reports_of(folders, weights, configuration, margin))


def reports_of(folders: list[Path], weights: str, configuration: str, margin: str = "") -> Iterator[Report]:
    """A report of each kind of machine that runs which belong together have. Raises as `report_of` does."""
    from runner.data.merge import merge_runs
    from runner.data.store import incomplete, load_run
    from runner.ranking.basis import measured_metrics
    from runner.ranking.margins import with_margins
    from runner.report.kinds import by_kind
    from runner.report.model import build

    loaded = [load_run(folder) for folder in folders]
    lacks = [said for folder, (_, trials) in zip(folders, loaded, strict=True) for said in incomplete(folder, trials)]
    for said in lacks:
        tell(f"Warning: {said}")
    whole, every = merge_runs(loaded)
    for run, trials in by_kind(with_margins(whole, margin), every):
        made = build(
            run,
            trials,
            weights=weights_of(weights, run, measured_metrics(trials)),
            configurations=[configuration] if configuration else None,
        )
        yield made.model_copy(update={"caveats": [*lacks, *made.caveats]})


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="run folders of one lab, or one folder that holds several runs")
    ],
    weights: Weights = "",
    configuration: Annotated[
        str, typer.Option("--configuration", metavar="NAME", help="rank only comparable or recommended; default: both")
    ] = "",
    margin: Margin = "",
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORM", help="term, html, pdf, md, latex, json, csv, findings or findings-plot"
        ),
    ] = "term",
    full: Full = False,
    across: Annotated[
        str, typer.Option("--across", metavar="machines", help="a report for each kind of machine of a farm, in turn")
    ] = "",
    write: Annotated[
        bool,
        typer.Option("--write", help="write every form and the pictures into the run folder, and print the file names"),
    ] = False,
) -> None:
    """Print the report of a run.

    Several runs of one lab make one report. A folder that holds several runs gives each run's report in turn. What
    holds no run is passed over.
    """
    begin("vpneval reads the run and makes the report.")
    made_of = partial(report_of, weights=weights, configuration=configuration, margin=margin)
    if write:
        _no_other_form(form, across)
    elif across:
        require_known("--across", across, ["machines"])
        require_known("format of --across", form, ["term", "md", "json"])
    else:
        require_known("format", form, ["term", "findings", "findings-plot", "pdf", *TEXT_FORMS])
    runs = runs_in(folders)
    together = set(runs) == set(folders)  # those that were named one by one make one report
    only = runs[0] if len(runs) == 1 else None
    if write:
        _write(only, made_of)
    elif across:
        _print_kinds([*reports_of(runs, weights, configuration, margin)], form, full, runs)
    elif form == "findings":
        from runner.report.papers import findings_text

        document(findings_text([made_of([run]) for run in runs]))
    elif form == "findings-plot":
        from runner.report.papers import rows_of
        from runner.report.plots.plots_findings import published_against_measured
        from runner.report.plots.vega import svg

        made = {chr(ord("A") + number): made_of([run]) for number, run in enumerate(runs)}
        document(svg(published_against_measured(rows_of(made)).spec))
    elif not (only or together) and form in ONE_RUN:
        raise UsageError(
            f"{', '.join(map(str, folders))} holds several runs, and --format {form} takes one run. Name one of "
            f"{', '.join(map(str, runs))}"
        )
    elif form == "pdf":
        _print_pdf(made_of(runs), only)
    elif only or together:
        _print(made_of(runs), form, full, only)
    else:
        _print_in_turn(runs, [made_of([run]) for run in runs], form, full)


def _no_other_form(form: str, across: str) -> None:
    """Refuse what --write would pass over."""
    if across or form != "term":
        other = "--across" if across else f"--format {form}"
        raise UsageError(f"--write writes every form of one report, so that it does not go with {other}: leave out one")


def _write(folder: Path | None, made_of: Callable[[list[Path]], Report]) -> None:
    """Every form of the report and its pictures into the run folder, where there is only one; prints the files."""
    from runner.report.forms.write import write_everything

    if folder is None:
        raise UsageError("--write takes one run folder: it writes the files into that folder")
    try:
        paths = write_everything(folder, made_of([folder]))
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error}") from None
    document("".join(f"{path}\n" for path in paths))


def _print_pdf(made: Report, folder: Path | None) -> None:
    from runner.report.forms.pdf import pdf_bytes

    if standard_output().isatty():
        raise UsageError("a PDF cannot be shown on a terminal: vpneval report DIR --format pdf > report.pdf")
    standard_output().buffer.write(pdf_bytes(text_of(made, "html", folder)))


def _print_in_turn(runs: list[Path], made: list[Report], form: str, full: bool) -> None:
    """The reports of the runs in a parent folder: on the terminal with a rule between them, in JSON as one list."""
    if form == "json":
        document("[" + ",\n".join(text_of(one, "json") for one in made) + "]\n")
        return
    for run, one in zip(runs, made, strict=True):
        if form == "term":
            out.rule(escape(str(Path(*run.parts[-2:]))))  # host and uml alone are names that many runs have
        _print(one, form, full, run)


def _print_kinds(kinds: list[Report], form: str, full: bool, folders: list[Path]) -> None:
    """The report of each kind of machine."""
    if form == "json":
        document("[" + ",\n".join(text_of(one, "json") for one in kinds) + "]\n")
        return
    for number, one in enumerate(kinds, 1):
        if form == "term":
            out.rule(_of_kinds(number, len(kinds)))
        _print(one, form, full, folders[0] if len(folders) == 1 else None, across=len(kinds) > 1)


def _of_kinds(number: int, kinds: int) -> str:
    return f"kind of machine {number} of {kinds}"


def _print(made: Report, form: str, full: bool, folder: Path | None, across: bool = False) -> None:
    if form == "term":
        from runner.report.forms.terminal import render

        render(made, out, full=full, folder=folder, across=across)
    else:
        document(text_of(made, form, folder))


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="the run folder from before the change")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="the run folder from after the change")],
    as_json: Json = False,
    margin: Margin = "",
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="term, html or json")] = "term",
) -> None:
    """Compare a run before a change with one after it. Exit code 1: something became significantly worse.

    Of farms with several kinds of machines, each kind is compared with the same kind in the other run.
    """
    begin("vpneval reads both runs and compares them.")
    from runner.data.store import load_run
    from runner.ranking.margins import with_margins
    from runner.report.compare import compare_kinds, render
    from runner.report.forms.comparison import comparison_html

    require_known("format", form, ["term", "html", "json"])
    before, after = one_run(before), one_run(after)
    if before.resolve() == after.resolve():
        raise UsageError(f"compare takes two runs, and both are {before}: before the change, and after it")
    (first, trials), (second, later) = load_run(before), load_run(after)
    if trials and trials == later:
        raise UsageError(f"{before} and {after} hold the same measurements: nothing was measured in between")
    found = compare_kinds((with_margins(first, margin), trials), (with_margins(second, margin), later))
    if as_json or form == "json":
        texts = [comparison.model_dump_json(indent=1) for comparison in found]
        document((texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]") + "\n")
    elif form == "html":
        if len(found) > 1:
            raise UsageError(
                f"--format html holds one comparison, and these runs have {len(found)} kinds of machines in common: "
                "choose --format term or json"
            )
        document(comparison_html(found[0]))
    else:
        for number, comparison in enumerate(found, 1):
            if len(found) > 1:
                out.rule(_of_kinds(number, len(found)))
            render(comparison, out)
    if any(comparison.regressed for comparison in found):
        raise typer.Exit(1)


def why(
    a: Annotated[str, typer.Argument(metavar="VPN", help="the VPN that is compared")],
    b: Annotated[str, typer.Argument(metavar="VPN", help="the VPN that it is compared with")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="the run folder; default: the latest in results/")
    ] = None,
) -> None:
    """Print by what factor one VPN is better or worse than another.

    Each metric has one sentence, which gives the factor and its 95 % interval. The heading names the machine and the
    tunnels. A farm with several kinds of machines gives an answer for each kind.
    """
    begin("vpneval reads the run.")
    from runner.data.store import load_run
    from runner.report.why import why_each

    said = why_each(*load_run(one_run(folder) if folder else latest(a, b)), a, b)
    for number, lines in enumerate(said, 1):
        if len(said) > 1:
            out.rule(_of_kinds(number, len(said)))
        for line in lines:
            out.print(line, markup=False, highlight=False, soft_wrap=True)


def history(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="run folders, or folders that hold several runs")
    ],
) -> None:
    """Print an HTML page with the trends over many runs.

    Each VPN and metric has a trend. Runs from different labs are plotted separately, and so is each kind of machine
    of a farm.
    """
    begin("vpneval reads the runs.")
    from runner.data.store import load_run
    from runner.report.forms.comparison import history_html, trends
    from runner.report.kinds import by_kind

    runs = [load_run(run) for run in runs_in(folders)]
    document(history_html(trends([kind for run in runs for kind in by_kind(*run)])))


def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a run folder; the run may still go on")],
    weights: Weights = "",
) -> None:
    """Show the ranking of a run while it is measured. This command only reads the run folder."""
    begin("vpneval reads the run.")
    from runner.cli.watch import watch as watch_run
    from runner.data.store import load_run

    folder = one_run(folder)
    watch_run(folder, out, weights_of(weights, load_run(folder)[0]) if weights else None)
