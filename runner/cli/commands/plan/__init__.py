"""``vpneval plan``: the trials of a run and their time, before anything is measured."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import options
from runner.data.options import NeedsOptions, RunOptions

# What is not about how much is measured.
NOT_PLANNED = ("kernel", "rest", "install", "image", "retry_failed", "strict")
OF_FARM = ("farm", "farm_equal", "farm_timeout", "farm_insecure")


def plan(
    *,
    experiments: options.Experiments,
    given: Annotated[RunOptions, *NOT_PLANNED, *OF_FARM],
    needs: NeedsOptions,
    as_json: options.Json = False,
) -> None:
    """Print the trials of a run and how long they would take. Nothing is measured.

    Where levels are asked for (--set), root also learns which of them this machine cannot measure, and what helps; the
    exit code is 5 where a level is lost for all VPNs.

    With --out and the folder of a run: the trials that it lacks, and with --until-significant how long a sure answer
    takes.
    """
    options.begin("vpneval plans the trials.")
    from runner.cli.commands.plan.work import show, tell_lost
    from runner.sweep.request import resolve

    request = resolve(options.asked_for(experiments, given, needs))
    show(request, as_json)
    raise typer.Exit(tell_lost(request))
