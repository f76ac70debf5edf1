"""The report's answer and its tables for a paper, as LaTeX that needs the package booktabs only."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.streams import visible_text
from runner.design.blocks import Block, Heading, Note, Paragraph, Table, TableCell, cell
from runner.report.document import for_a_paper
from runner.report.model import Report

SPECIAL = {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\u00a0": "~"},
    **{"≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$", "−": "$-$", "–": "--"},
    **{
        "·": r"$\cdot$",
        "→": r"$\to$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "√": r"$\surd$",
        "Σ": r"$\Sigma$",
        "…": r"\dots{}",
        "µ": r"$\mu$",
        "—": "---",
    },
}


def latex_text(report: Report) -> str:
    """The answer of each ranking with a table of its values, then a table of its ranks, and a table for each metric of
    each experiment, with what did not work and why. A paper includes this text with ``input``."""
    return "\n".join([r"% needs \usepackage{booktabs}", *lines_of(for_a_paper(report))]) + "\n"


def lines_of(blocks: Sequence[Block]) -> list[str]:
    """The blocks as lines of LaTeX. A heading becomes part of the captions of the tables under it, because a paper has
    its own sections. Links and plots are left out."""
    lines: list[str] = []
    heading = ""
    for block in blocks:
        match block:
            case Heading(words):
                heading = words
            case Paragraph(words, kind, lead):
                escaped = escape(f"{lead}: {words}" if lead else words)
                lines += [
                    "",
                    rf"\par\noindent\textbf{{{escaped}}}" if kind == "strong" else rf"\par\noindent {escaped}",
                ]
            case Table():
                lines += _table(block, heading)
            case list():
                lines += ["", *[rf"\par\noindent {escape(_note(note))}" for note in block]]
    return lines


def _note(note: Note) -> str:
    return f"[{note.number}] {note.lead}: {note.words}" if note.number else note.text


def escape(words: str) -> str:
    """``words`` as literal text on one line, with control characters as text."""
    return "".join(SPECIAL.get(letter, letter) for letter in visible_text(" ".join(words.split())))


def _cell(content: str | TableCell) -> str:
    table_cell = cell(content)
    return escape(table_cell.words) + (f" [{table_cell.note}]" if table_cell.note else "")


def _caption(table: Table, heading: str) -> str:
    about = f"{heading}: {table.title}; {table.about}" if table.title else f"{heading}. {table.about}"
    return " ".join(f"{sentence.rstrip('.; ')}." for sentence in (about, *map(_note, table.notes)))


def _table(table: Table, heading: str) -> list[str]:
    def line(row: Sequence[str | TableCell]) -> str:
        return "  " + " & ".join(map(_cell, row)) + r" \\"

    columns = "".join("r" if at in table.numbers else "l" for at in range(len(table.head)))
    return [
        "",
        r"\begin{table*}",
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape(_caption(table, heading))}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"  \toprule",
        line(table.head),
        r"  \midrule",
        *map(line, table.rows),
        r"  \bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
    ]
