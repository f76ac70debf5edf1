"""``vpneval report``: the report of one run or several, in any form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.cli.folders import latest, runs_in
from runner.cli.reading import of_kinds, report_of, reports_of
from runner.data.errors import UsageError, require_known
from runner.data.extras import pip_install
from runner.data.options import NeedsOptions
from runner.data.streams import document, standard_output

if TYPE_CHECKING:
    from runner.report.model import Report


FINDINGS = ("findings", "findings-plot")
PDFS = ("pdf", "onepage")


def report(
    *,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="run folders of one lab, or one folder that holds several runs; default: the latest in results/",
        ),
    ] = None,
    of_run: options.OfRun = None,
    weights: options.Weights = "",
    question: options.QuestionName = "",
    paper: options.PaperName = "",
    configuration: Annotated[
        str, typer.Option("--configuration", metavar="NAME", help="rank only comparable or recommended; default: both")
    ] = "",
    margin: options.Margin = "",
    needs: NeedsOptions,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="term, onepage (a PDF), html, pdf, md, latex, bib, json, csv, findings or findings-plot",
        ),
    ] = "term",
    full: options.Full = False,
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
    options.begin("vpneval reads the run and makes the report.")
    from runner.choice.stated import state_needs
    from runner.report.forms.registry import FORMS

    one_report = {*PDFS, *(name for name, other in FORMS.items() if other.one_report)}
    stating = partial(state_needs, needs)
    made_of = partial(
        report_of,
        weights=weights,
        configuration=configuration,
        margin=margin,
        needs=stating,
        question=question,
        paper=paper,
    )
    _check_form(form, across, write, [*FORMS])
    if folders and of_run:
        raise UsageError("--run and the last words both name run folders: leave one of them out")
    if paper and question:
        raise UsageError("--paper and --question each say what the run is asked: leave one of them out")
    folders = folders or [of_run or latest("report")]
    runs = runs_in(folders)
    only, together = runs[0] if len(runs) == 1 else None, set(runs) == set(folders)  # named one by one: one report
    if write:
        _write(only, made_of)
    elif across:
        _print_kinds([*reports_of(runs, weights, configuration, margin, stating, question, paper)], form, full, runs)
    elif form in FINDINGS:
        _print_findings([made_of([run]) for run in runs], form, paper)
    elif not (only or together) and form in one_report:
        held, named = ", ".join(map(str, folders)), ", ".join(map(str, runs))
        raise UsageError(f"{held} holds several runs, and --format {form} takes one run. Name one of {named}")
    elif form in PDFS:
        _print_pdf(partial(made_of, runs), form, only)
    elif only or together:
        _print(made_of(runs), form, full, only, several=() if only else runs)
    else:
        _print_in_turn(runs, [made_of([run]) for run in runs], form, full)


def _check_form(form: str, across: str, write: bool, texts: list[str]) -> None:
    """Raise UsageError for a form that there is not, and for what --write would pass over."""
    if write and (across or form != "term"):
        other = "--across" if across else f"--format {form}"
        raise UsageError(f"--write writes every form of one report, so that it does not go with {other}: leave out one")
    if across:
        require_known("--across", across, ["machines"])
        require_known("format of --across", form, ["term", "md", "json"])
    else:
        if form == "parquet":
            raise UsageError(
                "Parquet is a file in the run folder: vpneval report DIR --write makes it, with the others"
            )
        require_known("format", form, ["term", *FINDINGS, *PDFS, *texts])


def _write(folder: Path | None, made_of: Callable[[list[Path]], Report]) -> None:
    """Every form of the report and its pictures into the run folder, where there is only one; prints the files."""
    from runner.cli.output import err
    from runner.report.forms.write import write_everything

    if folder is None:
        raise UsageError("--write takes one run folder: it writes the files into that folder")
    path = folder
    try:
        for path in write_everything(folder, made_of([folder])):
            document(f"{path}\n")  # at once: pictures take long
    except OSError as error:
        raise UsageError(f"the report cannot be written: {error}") from None
    if path.suffix != ".parquet":
        err.print(f"report.parquet was not written: it needs the package polars ({pip_install('polars')}).")


def _print_findings(reports: list[Report], form: str, paper: str) -> None:
    """results/papers/findings.md, or the page of one paper; or the picture."""
    from questions.papers.page import by_letters, findings_text, paper_text, rows_of
    from questions.papers.plot import published_against_measured
    from runner.cli.commands.plan.work import expected_time
    from runner.report.plots.vega import svg

    if form == "findings":
        document(paper_text(paper, reports, expected_time) if paper else findings_text(reports, expected_time))
        return
    document(svg(published_against_measured(rows_of(by_letters(reports))).spec))


def _print_pdf(made_of: Callable[[], Report], form: str, folder: Path | None) -> None:
    """The page, or the answer on one page. What cannot be done is refused before the report is made."""
    from runner.report.forms.html import html_text
    from runner.report.forms.onepage import onepage_pdf
    from runner.report.forms.pdf import find_chromium, pdf_bytes

    if standard_output().isatty():
        raise UsageError(f"a PDF cannot be shown on a terminal: vpneval report DIR --format {form} > {form}.pdf")
    find_chromium()
    made = made_of()
    standard_output().buffer.write(
        onepage_pdf(made, folder) if form == "onepage" else pdf_bytes(html_text(made, folder))
    )


def _print_in_turn(runs: list[Path], made: list[Report], form: str, full: bool) -> None:
    """The reports of the runs in a parent folder: on the terminal with a rule between them, and the answers of several
    lines once more; in JSON as one list."""
    from runner.cli.output import out
    from runner.report.closing import by_uplink

    if form == "json":
        _print_json(made)
        return
    for run, run_report in zip(runs, made, strict=True):
        if form == "term":
            out.rule(str(Path(*run.parts[-2:])))  # host and uml alone are names that many runs have
        _print(run_report, form, full, run)
    if form == "term":
        for line in by_uplink(made):
            out.print(line, highlight=False)


def _print_json(reports: list[Report]) -> None:
    """Several reports as one list."""
    from runner.report.forms.tables import json_text

    document("[" + ",\n".join(map(json_text, reports)) + "]\n")


def _print_kinds(kinds: list[Report], form: str, full: bool, folders: list[Path]) -> None:
    """The report of each kind of machine."""
    from runner.cli.output import out

    if form == "json":
        _print_json(kinds)
        return
    for number, kind_report in enumerate(kinds, 1):
        if form == "term":
            out.rule(of_kinds(number, len(kinds)))
        _print(kind_report, form, full, folders[0] if len(folders) == 1 else None, across=len(kinds) > 1)


def _print(
    made: Report, form: str, full: bool, folder: Path | None, across: bool = False, several: Sequence[Path] = ()
) -> None:
    from runner.cli.output import out

    if form == "term":
        from runner.report.forms.terminal import render

        render(made, out, full=full, folder=folder, across=across, several=several)
    else:
        from runner.report.forms.registry import FORMS

        document(FORMS[form].text(made, folder))
