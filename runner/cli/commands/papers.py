"""``vpneval papers``: the published papers, and what runs say of one of them, or of a paper of the user's own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import runs_in
from runner.data.errors import UsageError, require_known
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
    runs = runs_in(folders) if folders else []
    _require_names(name, runs)
    reports = [report_of([run], "", paper=name) for run in runs]
    document(paper_text(name, reports, expected_time))


def _require_names(paper: str, folders: Sequence[Path]) -> None:
    """Raise UsageError for a finding about an experiment, metric, VPN or factor that neither vpneval has nor one of the
    runs: no run would ever judge it."""
    from runner import catalogue
    from runner.papers.rows import OfCells, rows_of

    runs = [catalogue.read_run(folder / "run.json") for folder in folders]
    used = [cell.params.keys() for run in runs for experiment in run.experiments for cell in experiment.cells]
    known = {
        "experiment": {*catalogue.experiment_names(), *(one.name for run in runs for one in run.experiments)},
        "metric": {*catalogue.metrics_ever(), *(metric for run in runs for metric in run.metrics)},
        "VPN": {*catalogue.vpn_names(), *catalogue.version_names(), *(vpn for run in runs for vpn in run.vpns)},
        "factor": {*catalogue.factors(), *itertools.chain.from_iterable(used)},
    }
    for row in rows_of(paper):
        named = [("experiment", row.experiment)]
        if isinstance(row, OfCells):
            named.append(("metric", row.metric))
            cells = [cell.split(" ") for cell in row.cells()]
            named += [("VPN", vpn) for vpn, *_ in cells]
            levels = [*row.levels.split(), *(level for _, *own in cells for level in own)]
            named += [("factor", level.partition("=")[0]) for level in levels]
        for kind, name in named:
            try:
                require_known(kind, name, sorted(known[kind]))
            except UsageError as wrong:
                own = "one of your own is known where you name its run"
                raise UsageError(f"{paper}, the finding {row.id}: {wrong}; {own}") from None


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
