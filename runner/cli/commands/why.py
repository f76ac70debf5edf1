"""``vpneval why``: by what factor one VPN is better or worse than another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.cli.folders import the_run, without_run
from runner.cli.reading import of_kinds
from runner.data.errors import UsageError, require_known
from runner.data.options import NeedsOptions

if TYPE_CHECKING:
    from runner.data.trials import Run, Trial


def why(
    *,
    a: Annotated[
        str,
        typer.Argument(metavar="VPN", help="the VPN that is compared", autocompletion=options.complete("vpns")),
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="[VPN]",
            help="the VPN that it is compared with; default: the one that the run names, or its first",
            autocompletion=options.complete("vpns"),
        ),
    ] = "",
    folder: options.LastRun = None,
    of_run: options.OfRun = None,
    needs: NeedsOptions,
) -> None:
    """Print by what factor one VPN is better or worse than another. Of one VPN alone: why not this one?

    Each metric has one sentence, which gives the factor and the interval that decides; its level stands below. The
    heading names the machine and the tunnels. A farm with several kinds of machines gives an answer for each kind. With
    --line it says first how each of them suits that line.
    """
    options.begin("vpneval reads the run.")
    from questions.choose.judge import choice
    from questions.choose.words import suits
    from questions.rank.why import absence, why_each
    from runner.catalogue import load_told
    from runner.choice.stated import state_needs
    from runner.cli.output import out
    from runner.data.scale import no_scale
    from runner.report.scale import above

    b, of_run = without_run(b, folder, of_run)
    named = the_run(f"why {a}", None, of_run, *filter(None, [a, b]))
    run, trials, lacks = load_told(named)
    for sentence in lacks:
        options.tell(f"Warning: {sentence}")
    run = run.model_copy(update={"needs": state_needs(needs, run.needs)})
    missing = "" if b else absence(run, trials, a)
    b = b or _named_vpn(run, trials, named, a)
    if found := no_scale(run):
        out.print(above(found), highlight=False, soft_wrap=True)
    for sentence in suits(choice(run, trials), a, b):
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if missing:
        out.print(missing, markup=False, highlight=False, soft_wrap=True)
        return
    answers = why_each(run, trials, a, b)
    for number, lines in enumerate(answers, 1):
        if len(answers) > 1:
            out.rule(of_kinds(number, len(answers)))
        for line in lines:
            out.print(line, highlight=False, soft_wrap=True)


def _named_vpn(run: Run, trials: Sequence[Trial], folder: Path, beside: str) -> str:
    """The VPN that the run names for its needs; without needs, or where that is ``beside``, the first other one in the
    ranking that has numbers. Raises UsageError where there is none."""
    from questions.choose.judge import choice
    from runner.catalogue import vpn_names
    from runner.ranking.rankings import Rankings

    made = choice(run, trials)
    named = [*made.answer.named] if made and made.answer else []
    if not {*named} - {beside}:
        rankings = Rankings(run, trials).rankings
        measured = {trial.vpn for trial in trials if trial.status == "ok"}
        standings = [standing for ranking in rankings[:1] for standing in ranking.standings]
        named += [standing.vpn for standing in standings if standing.vpn in measured]
    if others := [vpn for vpn in named if vpn != beside]:
        return others[0]
    require_known("VPN", beside, vpn_names())
    raise UsageError(f"{folder} names no VPN that {beside} could be compared with. Name one: vpneval why {beside} VPN")
