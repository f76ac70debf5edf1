"""``vpneval block``: one repetition, for the coordinator of a farm. Hidden: people give `run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def block(asked: Annotated[Path, typer.Argument(metavar="FILE", help="what the coordinator asked for")]) -> None:
    """Measure one repetition for the coordinator of a farm."""
    from runner.cli.farm import measure_block
    from runner.lab.places import rootless

    rootless.enter("netns")
    raise typer.Exit(measure_block(asked))
