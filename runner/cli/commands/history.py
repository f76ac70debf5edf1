"""``vpneval history``: the trends over many runs, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.folders import runs_in
from runner.cli.options import begin
from runner.data.streams import document


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
    from questions.compare.trends import sections_of, trends
    from runner.catalogue import load_run
    from runner.data.merge import distinct
    from runner.report.forms.elements import page
    from runner.report.kinds import by_kind

    named = runs_in(folders)
    loaded = [load_run(folder) for folder in named]
    runs = zip(distinct([run for run, _ in loaded], named), (trials for _, trials in loaded), strict=True)
    found = trends([kind for run, trials in runs for kind in by_kind(run, trials)])
    document(page("vpneval history", *sections_of(found)))
