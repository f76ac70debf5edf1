"""The sections of a report that are words and tables, as data: terminal, page and Markdown each render them once."""

from __future__ import annotations

from runner.data.trials import Strict

TONES = {
    **{"pass": "good", "reproduced": "good", "not reproduced": "bad"},
    **{"answered": "note", "not comparable": "warn"},
}


class SectionTable(Strict):
    """One table. ``about`` says how to read it, ``notes`` what needs words. Of each row, where there is any: ``logs``,
    the file in the run folder that its last cell links to, and ``anchors``, the name that others link to.
    ``experiment``: whose it is."""

    title: str
    head: list[str]
    rows: list[list[str]]
    about: str = ""
    notes: list[str] = []
    logs: list[str] = []
    anchors: list[str] = []
    experiment: str = ""


class Section(Strict):
    """A heading, a paragraph on how to read it, a line that counts, tables, and a line to copy with its label.
    ``key`` names it in links."""

    key: str
    title: str
    about: str
    counts: str = ""
    tables: list[SectionTable]
    line: str = ""
    line_title: str = ""


def tone(cell: str) -> str:
    """``good``, ``bad``, ``note``, ``warn`` for a cell that is a verdict; empty for any other."""
    return "bad" if cell.startswith("FAIL") else TONES.get(cell, "")
