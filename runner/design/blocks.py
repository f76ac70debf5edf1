"""The blocks that a report is made of. A section is a list of blocks that begins with its heading. One function makes
each section, and each form renders each kind of block in one place. A form leaves out what it cannot show: a link, a
plot, what unfolds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

TONES = {
    **{"pass": "good", "reproduced": "good", "not reproduced": "bad"},
    **{"answered": "note", "undecided": "warn", "unmeasured": "warn", "incomparable": "warn"},
}


@dataclass(frozen=True, slots=True)
class Hyperlink:
    """Words that link to a ``file`` of the run folder, or to the element of the page with this ``name``."""

    words: str
    file: str = ""
    name: str = ""

    @property
    def address(self) -> str:
        """The address for a page in the run folder, whatever characters the file's name has."""
        return f"#{self.name}" if self.name else f"./{quote(self.file)}"


@dataclass(frozen=True, slots=True)
class Heading:
    """The beginning of a section. ``name``: the name that links lead to; ``fold``: for a section that belongs to a
    ranking, the words that unfold it on the page."""

    words: str
    name: str = ""
    level: int = 2
    fold: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of ``words``. Without a ``kind`` it says how to read what follows; ``strong``, ``good`` and ``bad``:
    a result; ``soft``: words below a table; ``caveat``: what a reader must know first; ``code``: a line to copy.
    ``lead``: words in front that name it."""

    words: str
    kind: Literal["", "strong", "good", "bad", "soft", "caveat", "code"] = ""
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """One remark of a list. ``lead``: what the remark is about; ``number``: the number by which cells refer to it, 0
    for none."""

    words: str
    lead: str = ""
    number: int = 0
    links: Sequence[Hyperlink] = ()

    @property
    def text(self) -> str:
        """The lead and the words."""
        return f"{self.lead} {self.words}".lstrip()


@dataclass(frozen=True, slots=True)
class TableCell:
    """A table cell that is more than words. ``small``: its second line; ``brief``: fewer words, for a narrow terminal;
    ``name``: the name that links lead to; ``link``: it stands behind the cell's words, or it has these words where it
    has none of its own; ``note``: the number of the note that explains the cell; ``opens``: the notes that the cell
    unfolds."""

    words: str
    small: str = ""
    name: str = ""
    brief: str = ""
    link: Hyperlink | None = None
    note: int = 0
    tone: str = ""
    opens: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``about``: how to read it; ``notes``: remarks below it; ``numbers``: the indices of the columns that
    have numbers; ``named``: the first cell of a row is the row's name; ``name``: the name that links lead to."""

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
    """One plot, as a Vega-Lite specification. ``key`` names the plot and its file; ``alt`` describes it for readers who
    cannot see it."""

    key: str
    title: str
    alt: str
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """A test case of a CI. ``about``: what was tested, which may be empty; ``words``: why it did not pass."""

    name: str
    ended: Literal["passed", "failure", "skipped", "error"]
    words: str = ""
    about: str = ""


Block = Heading | Paragraph | list[Note] | Table | Plot | Hyperlink


def cell(content: str | TableCell) -> TableCell:
    """The content as a table cell. A verdict gets its tone: ``good``, ``bad``, ``note``, ``warn``."""
    if isinstance(content, TableCell):
        return content
    return TableCell(content, tone="bad" if content.startswith("FAIL") else TONES.get(content, ""))
