"""Where a run that is asked for is played: on this machine, under other kernels, or on a farm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.cli.ending import Shown, report_on
from runner.cli.options import tell
from runner.data.asked import HOST, AskedRun
from runner.lab.kernels.boot import Kernel
from runner.lab.places import rootless
from runner.sweep.request import resolve


def play(
    asked: AskedRun,
    shown: Shown,
    under: Sequence[Kernel | None] = (None,),
    rest: Kernel | None = None,
    install: bool = False,
) -> int:
    """Measure what is asked for, and show the report; the exit code.

    ``under``: the kernels to measure under, None for this machine's own. ``rest``: the kernel that afterwards measures
    what this one lacks; ``install``: the packages that it needs may be installed.
    """
    if asked.farm:
        from runner.cli.farm import FarmRequest

        spread = FarmRequest(asked)
        return report_on(resolve(asked), shown, spread)
    request = resolve(asked)
    rootless.enter(asked.lab)
    if list(under) == [None] and not rest:
        return report_on(request, shown)
    from runner.cli.guest_runs import run_under, run_with_rest
    from runner.report.plots import vega

    def here(folder: Path) -> int:
        return report_on(replace(request, asked=asked.changed(kernel=HOST, out=folder)), shown)

    say = (lambda text: None) if shown.quiet else tell
    vega.script()  # kept for the guests' pages, which cannot make it
    if rest:
        return run_with_rest(rest, request, here, say, shown, install)
    return run_under(under, request, here, say, shown)
