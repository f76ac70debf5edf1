"""The answer to a question in a terminal, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from runner.design.blocks import Block, Paragraph, Table, cell
from runner.design.question import Next, Said

TONES = {"good": "green", "bad": "bold red", "note": "cyan", "warn": "yellow"}
STYLES = {"strong": ("bold", ""), "soft": ("dim", "  "), "caveat": ("yellow", "")}  # with what stands before the words


def print_answers(every: Sequence[Said], console: Console, *, tall: bool) -> None:
    """Print answers; ``tall``: there is room for what stands beside them."""
    for said in every:
        _print_briefly(said.brief, console)
        if tall:
            print_beside(said.beside, console)


def _print_briefly(blocks: Sequence[Block], console: Console) -> None:
    """Print an answer: its words, and tables without heads."""
    for block in blocks:
        if isinstance(block, Paragraph):
            style, indent = STYLES.get(block.kind, ("", ""))
            console.print(Text(f"{indent}{block.words}", style))
        elif isinstance(block, Table):
            grid = Grid.grid(padding=(0, 2, 0, 0))
            grid.add_column(no_wrap=True, justify="left")
            grid.add_column(overflow="fold")
            for row in block.rows:
                first, *others = map(cell, row)
                grid.add_row(f"  {first.words}", *(Text(other.words, TONES.get(other.tone, "")) for other in others))
            console.print(grid)


def print_beside(blocks: Sequence[Block], console: Console) -> None:
    """Print the tables of an answer. What does not fit is folded within its column."""
    for table in blocks:
        if isinstance(table, Table):
            grid = Grid(table.title, *table.head[1:], box=None, padding=(0, 1, 0, 0), header_style="bold")
            for row in table.rows:
                grid.add_row(*(cell(content).words for content in row))
            console.print(grid)
            for sentence in filter(None, [table.about, *(note.text for note in table.notes)]):
                console.print(Text(f"  {sentence}", "dim"))


def print_steps(steps: Sequence[Next], console: Console) -> None:
    """Print what to do next, a command a line; a command is never folded."""
    for step, command in steps:
        console.print(Text.assemble((f"{step:<11}", "cyan"), command), soft_wrap=True)
