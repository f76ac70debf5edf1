"""``vpneval papers``: the published papers, and what runs say of one of them, or of a paper of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import runs_in
from runner.data.streams import document


def papers(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[PAPER]",
            help="a paper's name, or a folder of your own, ./mine (docs/add-a-paper.md); default: list them",
            autocompletion=options.complete("papers"),
        ),
    ] = "",
    folders: Annotated[list[Path] | None, typer.Argument(metavar="DIR", help="run folders that judge it")] = None,
) -> None:
    """Print what runs say of a paper's conclusions, and what would decide the others.

    The page is Markdown. Without a run, it names the commands that decide each conclusion, with their times.
    """
    options.begin("vpneval reads the papers and the runs.")
    if not name:
        _list()
        return
    from questions.papers.page import paper_text
    from runner.cli.commands.plan.work import expected_time
    from runner.cli.reading import report_of
    from runner.papers.judges import add_paper

    add_paper(name)
    reports = [report_of([run], "", paper=name) for run in (runs_in(folders) if folders else ())]
    document(paper_text(name, reports, expected_time))


def _list() -> None:
    """Print the published papers: how many findings and conclusions each has, and where it is to be found."""
    from rich.table import Table

    from runner.cli.output import out
    from runner.papers.published import names, paper
    from runner.papers.rows import rows_of

    table = Table(box=None, header_style="bold", padding=(0, 1), pad_edge=False, collapse_padding=True)
    for column in ("name", "findings", "conclusions", "citation"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for name in names():
        stated = paper(name)
        table.add_row(name, str(len(rows_of(name))), str(len(stated.conclusions)), stated.citation)
    out.print(table)
