"""The choice in a terminal: what to take for the stated line, or for each line, why, and what to do next."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.choice.grade import Grade
from runner.report import choice_words as words
from runner.report import state_words
from runner.report.blocks import cell
from runner.report.choice import Choice
from runner.report.side_by_side_words import table

COLOURS: dict[int, str] = {Grade.FITS: "green", Grade.LITTLE: "yellow"}


def render_choice(choice: Choice, console: Console, *, tall: bool) -> None:
    """Print the answer for the stated line, or the lines with the VPNs for each; then what was not measured. ``tall``:
    there is room for the table of the equally good ones."""
    console.print(Text(words.headline(choice), "bold"))
    if sentence := words.seen(choice.needs):
        console.print(Text(f"  {sentence}", "dim"))
    if choice.answer is None:
        grid = _grid()
        for row in words.lines(choice):
            grid.add_row(f"  {row.lines}", Text(row.vpns, COLOURS.get(row.grade, "")))
        console.print(grid)
    else:
        for clause in words.why_not(choice.answer):
            console.print(Text(f"  {clause}", "dim"))
        for sentence in (state_words.steadiness(choice), words.about_musts(choice), words.what_changes(choice)):
            if sentence:
                console.print(Text(sentence))
    if tall:
        print_beside(choice, console)
    for sentence in filter(None, [state_words.disturbance(choice.machine), words.kin(choice), *words.failed(choice)]):
        console.print(Text(sentence))
    if sentence := words.not_measured(choice):
        console.print(Text(sentence, "yellow"))


def print_beside(choice: Choice | None, console: Console) -> None:
    """Print the equally good VPNs side by side. What does not fit is folded within its column."""
    if choice is None or choice.beside is None:
        return
    made = table(choice.beside)
    grid = Table(made.title, *made.head[1:], box=None, padding=(0, 1, 0, 0), header_style="bold")
    for row in made.rows:
        grid.add_row(*(cell(content).words for content in row))
    console.print(grid)
    for sentence in filter(None, [made.about, *(note.said for note in made.notes)]):
        console.print(Text(f"  {sentence}", "dim"))


def render_next(choice: Choice, console: Console, where: str) -> None:
    """Print what to do next, a command a line; a command is never folded."""
    for step, command in [*next_steps(choice, where), ("See all", f"vpneval report {shlex.quote(where)} --full")]:
        console.print(Text.assemble((f"{step:<11}", "cyan"), command), soft_wrap=True)


def next_steps(choice: Choice, where: str) -> list[tuple[str, str]]:
    """What to do next: a word and a command each."""
    folder, said = shlex.quote(where), choice.answer
    steps = [("Read", f"{where}/report.html")]
    if said is None and not choice.machine.forbids:
        steps.append(("Say yours", words.say_yours(where)))
    elif said and said.named and said.grade < Grade.SHORT:
        steps.append(("Set it up", f"vpneval recipe {shlex.quote(said.named[0])} --run {folder}"))
    steps += [("Find out", command) for command in words.to_find_out(choice)]
    if command := words.measures_others(choice, where):
        steps.append(("Try others", command))
    if choice.unsettled:
        steps.append(("Be surer", f"vpneval more {folder}"))
    return steps


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, justify="left")
    grid.add_column(overflow="fold")
    return grid
