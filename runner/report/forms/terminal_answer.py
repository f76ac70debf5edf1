"""The answers in a terminal, and what to do next. Fits 80 x 24."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from runner.data.files import word
from runner.design.question import Next, Said
from runner.report import text
from runner.report.forms.terminal_answered import print_answers, print_steps
from runner.report.forms.terminal_experiments import is_answered, render_experiments
from runner.report.headings import machine
from runner.report.kinds import OTHERS
from runner.report.model import Report
from runner.report.scale import above

TALL = 40  # lines of the terminal from which on there is room for tables beside the answer


def is_tall(console: Console) -> bool:
    """Is there room for tables in the answer?"""
    return console.height >= TALL or not console.is_terminal


def render_answer(
    report: Report, console: Console, folder: Path | None = None, *, across: bool = False, several: Sequence[Path] = ()
) -> None:
    """Print the answer. ``folder``: the run folder, for the commands that continue the run; ``across``: the answer is
    for one of several kinds of machines; ``several``: the run folders of one report, which have no page together."""
    where = str(folder or report.run_id)
    trials = f"{text.trials(report.trials) or 'no trials'} in {text.duration(report.elapsed_s)}"
    head = Text.assemble(("vpneval", "bold"), f" · {report.profile} profile · {trials}")
    console.print(Rule(head, style="cyan"))
    if report.scale:
        console.print(Text(above(report.scale), "yellow"))
    console.print(Text(machine(report), "dim"))
    told = [said for said in report.lead(where) if said.brief and _is_told(said, report)]
    if not any(said.compares is None or _answers_some(said, report) for said in told):
        render_experiments(report, console)  # one VPN alone has numbers, too
    print_answers(told, console, tall=is_tall(console))
    if several:
        steps = [Next("See all", f"vpneval report {' '.join(map(word, several))} --full")]
    else:
        steps = _next_steps(report, told, where, across)
    print_steps(steps, console)


def _answers_some(said: Said, report: Report) -> bool:
    return any(is_answered(experiment, said, report) for experiment in report.experiments)


def _is_told(said: Said, report: Report) -> bool:
    """Is this an answer to what the run asked? One that compares metrics as a whole is where an experiment asks so."""
    return said.compares is None or said.asked or not report.experiments or _answers_some(said, report)


def _next_steps(report: Report, told: Sequence[Said], where: str, across: bool) -> list[Next]:
    """What the last answer says, and see everything else; before that read the page, where there is room for it."""
    own = [*told[-1].steps] if told else []
    if across:  # the page of the run is about one kind of machine
        return [*own, Next("See all", f"vpneval report {word(where)} --across machines --full")]
    no_room = told and told[-1].compares is None
    steps = [*([] if no_room else [Next("Read", f"{where}/report.html")]), *own]
    steps.append(Next("See all", f"vpneval report {word(where)} --full"))
    if any(fact.name == f"lab {OTHERS}" for fact in report.facts):
        steps.append(Next("Other kinds", f"vpneval report {word(where)} --across machines"))
    return steps
