"""``vpneval block``: one repetition, for the coordinator of a farm. Hidden: people give `run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def block(asked: Annotated[Path, typer.Argument(metavar="FILE", help="what the coordinator asked for")]) -> None:
    """Measure one repetition for the coordinator of a farm."""
    from runner.cli.live import watching
    from runner.cli.output import err
    from runner.lab.places import rootless
    from runner.stages.farm import measure_block

    rootless.enter("netns")
    measure_block(asked, watching(err, True, None))
