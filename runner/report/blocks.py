"""What a report is made of: blocks. A section is a list of them that begins with its heading; one function makes it,
and each form renders each kind of block in one place. What a form cannot show (a link, a plot, what unfolds), it leaves
out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

TONES = {
    **{"pass": "good", "reproduced": "good", "not reproduced": "bad"},
    **{"answered": "note", "not comparable": "warn"},
}


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead to a ``file`` of the run folder, or to what has this ``name``."""

    words: str
    file: str = ""
    name: str = ""

    @property
    def address(self) -> str:
        """As a page in the run folder names it, whatever the file is called."""
        return f"#{self.name}" if self.name else f"./{quote(self.file)}"


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a section. ``name``: what links lead to; ``fold``: of a section that belongs to a ranking, the words that
    unfold it on the page."""

    words: str
    name: str = ""
    level: int = 2
    fold: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Words: how to read what follows; ``strong``: what it comes to, ``good`` or ``bad``; ``soft``: what stands below a
    table; ``caveat``: what a reader must know first; ``code``: a line to copy. ``lead``: words before it that name it.
    """

    words: str
    kind: Literal["", "strong", "good", "bad", "soft", "caveat", "code"] = ""
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """One of a list of remarks. ``lead``: whom it is about; ``number``: what cells refer to it by, 0 for none."""

    words: str
    lead: str = ""
    number: int = 0
    links: Sequence[Link] = ()

    @property
    def said(self) -> str:
        """All of its words."""
        return f"{self.lead} {self.words}".lstrip()


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table that is more than words: a ``small`` second line, the ``name`` that links lead to, a link (its
    words stand behind those of the cell, which are the link itself where it has none), the ``note`` that explains it,
    by its number, and what it opens into."""

    words: str
    small: str = ""
    name: str = ""
    link: Link | None = None
    note: int = 0
    tone: str = ""
    opens: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """``about`` says how to read it, ``notes`` what needs words. ``numbers``: the columns that have numbers;
    ``named``: the first cell of a row names it. ``name``: what links lead to."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    about: str = ""
    notes: Sequence[Note] = ()
    numbers: Collection[int] = ()
    named: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot, as a Vega-Lite specification: ``key`` names it and its file, ``alt`` says what it shows to who cannot
    see it."""

    key: str
    title: str
    alt: str
    spec: dict[str, Any]


Block = Heading | Paragraph | list[Note] | Table | Plot | Link


def cell(content: str | TableCell) -> TableCell:
    """What has only words, too; with the tone of a verdict: ``good``, ``bad``, ``note``, ``warn``."""
    if isinstance(content, TableCell):
        return content
    return TableCell(content, tone="bad" if content.startswith("FAIL") else TONES.get(content, ""))
