"""The answer to a question in a terminal, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from runner.design.blocks import Block, Paragraph, Table, cell
from runner.design.question import Next, Said

WIDE_GAP = 1  # columns between values with their intervals
TONES = {"good": "green", "bad": "bold red", "note": "cyan", "warn": "yellow"}
STYLES = {"strong": ("bold", ""), "soft": ("dim", "  "), "caveat": ("yellow", "")}  # with what stands before the words


def print_answers(every: Sequence[Said], console: Console, *, tall: bool) -> None:
    """Print answers; ``tall``: there is room for what stands beside them."""
    for said in every:
        _print_briefly((tall and said.roomy) or said.brief, console, tall)
        if tall:
            print_beside(said.beside, console)


def _print_briefly(blocks: Sequence[Block], console: Console, tall: bool) -> None:
    """Print an answer: its words and tables."""
    for block in blocks:
        if isinstance(block, Paragraph):
            if tall and block.lead and block.kind == "strong":
                console.print()
            console.print(lead_and_words(block))
        elif isinstance(block, Table) and block.head:
            console.print(values_grid(block, console.width, ruled=tall))
        elif isinstance(block, Table):
            if block.title:
                console.print(Text(block.title, "cyan"))
            console.print(headless_grid(block))


def lead_and_words(block: Paragraph) -> Text:
    """A paragraph, with what its lead says in front."""
    style, indent = STYLES.get(block.kind, ("", ""))
    if not block.lead:
        return Text(f"{indent}{block.words}", style)
    lead, words = ("yellow", "") if block.kind == "caveat" else ("bold cyan", style)
    return Text.assemble((f"{block.lead}: ", lead), (block.words, words))


def headless_grid(table: Table) -> Grid:
    """A table without a head, in two columns."""
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, justify="left")
    grid.add_column(overflow="fold")
    for row in table.rows:
        first, *others = map(cell, row)
        grid.add_row(f"  {first.words}", *(Text(other.words, TONES.get(other.tone, "")) for other in others))
    return grid


def values_grid(table: Table, width: int, *, ruled: bool = True) -> Grid:
    """A table of values, whose cells are brief where they do not fit beside each other. ``ruled``: draw a line below
    the head."""
    columns = [[head, *(cell(row[at]).words for row in table.rows)] for at, head in enumerate(table.head)]
    longest = [max(len(line) for words in column for line in words.split("\n")) for column in columns]
    wide = sum(longest) + (WIDE_GAP + 1) * len(columns) <= width
    lines = box.SIMPLE_HEAD if ruled else None
    gap = WIDE_GAP if wide or not ruled else 0
    grid = Grid(box=lines, padding=(0, gap, 0, 0), show_edge=False, header_style="bold")
    for at, head in enumerate(table.head):
        brief = any(cell(row[at]).brief for row in table.rows)
        justify: Literal["right", "left"] = "right" if at in table.numbers else "left"
        grid.add_column(head, justify=justify, no_wrap=wide or not brief, overflow="fold")
    for row in table.rows:
        entries = map(cell, row)
        grid.add_row(*(Text((not wide and one.brief) or one.words, TONES.get(one.tone, "")) for one in entries))
    return grid


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
    """Print what to do next, a command a line; a command is not folded, where it stands alone."""
    for step, command, why in steps:
        if why:
            grid = Grid.grid()
            grid.add_column(width=11, style="cyan")
            grid.add_column(overflow="fold")
            grid.add_row(step, f"{why}: {command}")
            console.print(grid)
        else:
            console.print(Text.assemble((f"{step:<11}", "cyan"), command), soft_wrap=True)
