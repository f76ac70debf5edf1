"""``vpneval watch``: the ranking of a run as it forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.folders import one_run
from runner.cli.options import Weights, begin
from runner.cli.reading import weights_of


def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a run folder; the run may still go on")],
    weights: Weights = "",
) -> None:
    """Show the ranking of a run while it is measured. This command only reads the run folder."""
    begin("vpneval reads the run.")
    from runner.catalogue import load_run
    from runner.cli.commands.watch.work import watch as watch_run
    from runner.cli.output import out

    folder = one_run(folder)
    watch_run(folder, out, weights_of(weights, load_run(folder)[0]) if weights else None)
