"""``vpneval why``: by what factor one VPN is better or worse than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import latest, one_run
from runner.cli.reading import of_kinds


def why(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="VPN", help="the VPN that is compared")],
    b: Annotated[str, typer.Argument(metavar="VPN", help="the VPN that it is compared with")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="the run folder; default: the latest in results/")
    ] = None,
    needs: options.NeedsFile = None,
    line: options.Line = "",
    path_rtt: options.PathRtt = "",
    path_loss: options.PathLoss = "",
    traffic: options.TrafficName = "",
    cores: options.Cores = "",
    must: options.MustHaves = None,
) -> None:
    """Print by what factor one VPN is better or worse than another.

    Each metric has one sentence, which gives the factor and the interval that decides; its level stands below. The
    heading names the machine and the tunnels. A farm with several kinds of machines gives an answer for each kind. With
    --line it says first how each of them suits that line.
    """
    options.begin("vpneval reads the run.")
    from questions.choose.judgement import choice
    from questions.choose.words import suits
    from questions.rank.why import why_each
    from runner.catalogue import load_told
    from runner.cli.output import out
    from runner.data.scale import no_scale
    from runner.report.scale import above

    run, trials, lacks = load_told(one_run(folder) if folder else latest(a, b))
    for sentence in lacks:
        options.tell(f"Warning: {sentence}")
    run = run.model_copy(update={"needs": options.needs_of(context, run.needs)})
    if found := no_scale(run):
        out.print(above(found), highlight=False, soft_wrap=True)
    for sentence in suits(choice(run, trials), a, b):
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    answers = why_each(run, trials, a, b)
    for number, lines in enumerate(answers, 1):
        if len(answers) > 1:
            out.rule(of_kinds(number, len(answers)))
        for line in lines:
            out.print(line, highlight=False, soft_wrap=True)
