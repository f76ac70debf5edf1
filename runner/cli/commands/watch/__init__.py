"""``vpneval watch``: the ranking of a run as it forms."""

from __future__ import annotations

from runner.cli.folders import the_run
from runner.cli.options import LastRun, OfRun, Weights, begin
from runner.cli.reading import weights_of


def watch(
    folder: LastRun = None,
    of_run: OfRun = None,
    weights: Weights = "",
) -> None:
    """Show the ranking of a run while it is measured. This command only reads the run folder."""
    begin("vpneval reads the run.")
    from runner.catalogue import load_run
    from runner.cli.commands.watch.work import watch as watch_run
    from runner.cli.output import out

    run = the_run("watch", folder, of_run)
    watch_run(run, out, weights_of(weights, load_run(run)[0]) if weights else None)
