"""``vpneval play``: a run in a guest kernel, for the vpneval that started the guest. Hidden: people give `run`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import Full, Json, Quiet, Strict
from runner.data.errors import UsageError


def play(
    asked: Annotated[str, typer.Argument(metavar="JSON", help="what was asked for")],
    quiet: Quiet = False,
    full: Full = False,
    as_json: Json = False,
    strict: Strict = False,
) -> None:
    """Measure what was asked for on this kernel, and print the report."""
    from pydantic import ValidationError

    from runner.cli import stages
    from runner.cli.ending import Shown
    from runner.data.asked import AskedRun

    try:
        run = AskedRun.model_validate_json(asked)
    except ValidationError as wrong:
        raise UsageError(f"this is not what vpneval asks a guest for: {wrong}") from None
    raise typer.Exit(stages.play(run, Shown(quiet, full, as_json, strict)))
