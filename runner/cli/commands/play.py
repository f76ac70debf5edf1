"""``vpneval play``: a run in a guest kernel, for the vpneval that started the guest. Hidden: people give `run`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from runner.cli.options import Quiet, tell
from runner.data.errors import UsageError
from runner.data.streams import document


def play(
    asked: Annotated[str, typer.Argument(metavar="JSON", help="what was asked for")],
    quiet: Quiet = False,
) -> None:
    """Measure what was asked for on this kernel, and print what was done as JSON."""
    from pydantic import ValidationError

    from runner.cli.live import watching
    from runner.cli.output import err
    from runner.data.asked import AskedRun
    from runner.stages.play import folder_of, play
    from runner.sweep.request import resolve

    try:
        request = resolve(AskedRun.model_validate_json(asked))
    except ValidationError as wrong:
        raise UsageError(f"this is not what vpneval asks a guest for: {wrong}") from None
    say = (lambda text: None) if quiet else tell
    outcome = play(request, folder_of(request), say, watching(err, quiet, request.weights))
    document(json.dumps(vars(outcome)) + "\n")
