"""The report as Markdown (GitHub's tables)."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.data.streams import visible_text
from runner.design.blocks import Block, Heading, Note, Paragraph, Plot, Table, TableCell, cell
from runner.report.document import whole
from runner.report.model import Report

PICTURES = "report-plots"  # the folder of pictures beside report.md


def markdown_text(report: Report, plots: Mapping[str, Sequence[Plot]] | None = None, folder: Path | None = None) -> str:
    """The whole report. All text that comes from a run is escaped. ``plots``: experiment -> the plots whose pictures
    are in the folder PICTURES beside the report; ``folder``: the run folder, for the command that continues the run."""
    return "\n".join(lines_of(whole(report, plots or {}, str(folder or ""))))


def blocks_text(blocks: Sequence[Block]) -> str:
    """Blocks without their plots, whose pictures would be files."""
    return "\n".join(lines_of([block for block in blocks if not isinstance(block, Plot)]))


def lines_of(blocks: Sequence[Block]) -> list[str]:
    """The blocks as lines of Markdown, an empty line after each block. Links are left out: only the page has them."""
    lines: list[str] = []
    marks = "#"
    for block in blocks:
        match block:
            case Heading(words, level=level):
                marks = "#" * level
                lines += [f"{marks} {literal(words)}", ""]
            case Paragraph():
                lines += [*_paragraph(block, marks), ""]
            case Table():
                lines += [f"{marks}# {literal(block.title)}", ""] if block.title else []
                lines += [literal(block.about), ""] if block.about else []
                lines += table_lines(block.head, block.rows) + _notes(block.notes)
            case Plot():
                lines += [literal(block.title), "", f"![{literal(block.alt)}]({PICTURES}/{block.key}.svg)", ""]
            case list():
                lines += _notes(block)
    return lines


def _paragraph(paragraph: Paragraph, marks: str) -> list[str]:
    words = literal(paragraph.words)
    match paragraph.kind:
        case "strong":
            return [f"**{words}**"]
        case "caveat":
            return [f"> **Note** {words}"]
        case "code":
            return [
                f"{marks}# {literal(paragraph.lead)}",
                "",
                "```csv",
                visible_text(" ".join(paragraph.words.split())),
                "```",
            ]
    return [f"**{literal(paragraph.lead)}**: {words}" if paragraph.lead else words]


def _notes(notes: Sequence[Note]) -> list[str]:
    lines = []
    for note in notes:
        lead = f"**{literal(note.lead)}** " if note.lead else ""
        lines.append(f"{f'{note.number}.' if note.number else '-'} {lead}{literal(note.words)}")
    return [*lines, ""] if lines else []


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str | TableCell]]) -> list[str]:
    """A Markdown table as lines, with an empty line at the end. ``head`` and ``rows`` are plain text."""

    def line(row: Sequence[str | TableCell]) -> str:
        return "| " + " | ".join(map(_cell, row)) + " |"

    return [line(head), "|" + " --- |" * len(head), *[line(row) for row in rows], ""]


def fit_words(words: str, longest: int) -> str:
    """The words, cut at the end of one of them so that a cell has so many characters in Markdown at most."""
    if len(literal(words)) <= longest:
        return words
    cut = words
    while " " in cut and len(literal(f"{cut} …")) > longest:
        cut = cut.rpartition(" ")[0]
    return f"{cut} …"


def _cell(content: str | TableCell) -> str:
    table_cell = cell(content)
    return literal(table_cell.words) + (f" ({table_cell.note})" if table_cell.note else "")


def literal(words: str) -> str:
    """``words`` as literal text on one line, within a table or not, with control characters as text."""
    flat = html.escape(visible_text(" ".join(words.split())), quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat)
