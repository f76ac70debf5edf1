"""``vpneval run``: measure, and print the report."""

from __future__ import annotations

from dataclasses import replace

import typer

from runner.cli import options
from runner.data.errors import UsageError
from runner.data.guest import guest_name
from runner.data.named import HOST
from runner.data.options import NeedsOptions, RunOptions


def run(*, experiments: options.Experiments, given: RunOptions, needs: NeedsOptions, shown: options.Shown) -> None:
    """Measure, and print the report. The same --out again continues the run: it measures only what is missing."""
    if not shown.quiet and not guest_name():
        options.tell("vpneval reads the plugins and checks the command line.")
    from runner.cli.commands.run.work import measure
    from runner.data.trust import note
    from runner.lab import kernels

    (second,) = kernels.parse(given.rest, given.lab, several=False)
    if second and (given.farm or given.builds):
        raise UsageError(f"--rest cannot be used with {'--farm' if given.farm else '--build'}")
    if second and (given.kernel != HOST or shown.as_json):
        raise UsageError("--rest cannot be used with --kernel or --json: it makes two runs, the first on this kernel")
    if given.install and given.farm:
        raise UsageError("--install is for this machine, and --farm measures on others: leave one of them out")
    asked = options.asked_for(experiments, given, needs)
    note(asked)
    raise typer.Exit(measure(asked, replace(shown, strict=given.strict), second, given.install))
