"""``vpneval why``: by what factor one VPN is better or worse than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import latest, one_run
from runner.cli.reading import of_kinds
from runner.data.options import NeedsOptions


def why(
    *,
    a: Annotated[
        str,
        typer.Argument(metavar="VPN", help="the VPN that is compared", autocompletion=options.complete("vpns")),
    ],
    b: Annotated[
        str,
        typer.Argument(metavar="VPN", help="the VPN that it is compared with", autocompletion=options.complete("vpns")),
    ],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="the run folder; default: the latest in results/")
    ] = None,
    needs: NeedsOptions,
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
    from runner.choice.stated import state_needs
    from runner.cli.output import out
    from runner.data.scale import no_scale
    from runner.report.scale import above

    run, trials, lacks = load_told(one_run(folder) if folder else latest(f"why {a} {b}", a, b))
    for sentence in lacks:
        options.tell(f"Warning: {sentence}")
    run = run.model_copy(update={"needs": state_needs(needs, run.needs)})
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
