"""The papers' numbers as cited data: results/published/, one JSON file for each paper, and devices.csv; and those of a
paper in a folder of the user's own, which a command line names by its path.

Only numbers that the text states are here. What a paper shows in a figure alone is not in its text, and is not
guessed from it. A published number is never a rival of a measured one: what can be compared is a ratio of two.

Whoever made a folder, what it holds is data: each field is checked as it is read, and nothing of it is executed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from runner.data.errors import UsageError, require_known
from runner.data.files import read_text
from runner.data.kinds import Level, Line, Name, Real, Strict
from runner.data.rows import first_of
from runner.data.shipped import shipped_folder

FOLDER = shipped_folder("published")
DEVICES = "devices.csv"
MOST_SENTENCES = 1000  # of a section
MOST_BYTES = 1 << 20  # of a file of a paper
Qualifier = Literal["exactly", "about", "at least", "at most", "more than", "less than"]


class Hardware(Strict):
    """A machine that a paper measured on; ``role`` says what it was there."""

    id: Name
    role: Line = Field(min_length=1)
    text: Line = Field(min_length=1)


class PublishedValue(Strict):
    """One number of a paper's text. ``where``: the section, table or caption that states it; ``hardware``: an id.

    ``low`` and ``high`` where the text gives a range; ``value`` is then None. ``levels`` are the paper's conditions
    in this project's words where it has them (aes-128-cbc), else in the paper's.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    where: Line = Field(min_length=2)
    system: Line = ""
    metric: Name
    unit: Line
    value: Real | None = None
    low: Real | None = None
    high: Real | None = None
    qualifier: Qualifier = "exactly"
    levels: dict[Name, Level] = {}
    hardware: Line = ""
    says: Line = Field(min_length=3, description="what the number is, in a sentence of our own")

    @model_validator(mode="after")
    def _one_number_or_a_range(self) -> PublishedValue:
        ranged = self.low is not None and self.high is not None
        if (self.value is None) != ranged or (ranged and not (self.low or 0) < (self.high or 0)):
            raise ValueError(f"{self.id}: give either value, or low below high")
        return self


class Conclusion(Strict):
    """A sentence of a document's conclusions, in words of our own, and what became of it here.

    ``where`` is the section, ``sentence`` its number there. ``by``: the findings (experiment/finding) that put it to
    the test, or answer it; ``why``: the reason why it is left out.
    """

    where: Line
    sentence: int = Field(ge=1)
    says: Line = Field(min_length=3)
    fate: Literal["judged", "answered", "left out"]
    by: list[Line] = []
    why: Line = ""

    @model_validator(mode="after")
    def _by_findings_or_a_reason(self) -> Conclusion:
        if bool(self.by) == bool(self.why) or bool(self.why) != (self.fate == "left out"):
            raise ValueError(f"{self.where}, sentence {self.sentence}: give by, or why it is left out")
        return self


class PublishedPaper(Strict):
    """A paper. ``citation`` is enough to find the document; ``title`` is what reports call it, ``id`` what tables do.

    ``conclusions`` has every sentence of the sections where the document concludes; ``conclusion_sections``: how many
    sentences each has. (The device page has no conclusions: its sections that claim something are taken.)
    """

    id: Name
    title: Line = Field(min_length=1)
    citation: Line = Field(min_length=20)
    url: Line = ""
    figures_only: list[Line] = Field(default=[], description="what the paper shows in figures, and never in its text")
    hardware: list[Hardware]
    values: list[PublishedValue] = Field(min_length=1)
    conclusion_sections: dict[Line, Annotated[int, Field(ge=0, le=MOST_SENTENCES)]] = {}
    conclusions: list[Conclusion] = []

    @model_validator(mode="after")
    def _consistent(self) -> PublishedPaper:
        ids = [value.id for value in self.values]
        if twice := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"named twice: {', '.join(twice)}")
        unknown = {value.hardware for value in self.values} - {machine.id for machine in self.hardware} - {""}
        if unknown:
            raise ValueError(f"unknown hardware: {', '.join(sorted(unknown))}")
        listed = [(conclusion.where, conclusion.sentence) for conclusion in self.conclusions]
        expected = [(where, n) for where, count in self.conclusion_sections.items() for n in range(1, count + 1)]
        if listed != expected:
            wrong = sorted({*listed} ^ {*expected}) or listed
            raise ValueError(f"conclusions are not the sections' sentences, each once and in order: {wrong}")
        return self

    def __getitem__(self, name: str) -> float:
        """The number ``name``. Raises UsageError for one that the paper does not state."""
        for value in self.values:
            if value.id == name and value.value is not None:
                return value.value
        raise UsageError(f"{self.id}'s JSON file states no single number {name!r}")

    def share(self, name: str) -> float:
        """The number ``name``, of 1 where the paper states it in percent."""
        return self[name] / (100 if any((value.id, value.unit) == (name, "%") for value in self.values) else 1)

    def ends(self, name: str) -> tuple[float, float]:
        """The range ``name``, low and high. Raises UsageError for one that the paper does not state."""
        for value in self.values:
            if value.id == name and value.low is not None and value.high is not None:
                return value.low, value.high
        raise UsageError(f"{self.id}'s JSON file states no range {name!r}")


class DeviceRow(Strict):
    """A row of devices.csv: 100 MB through ssh from the device. Times in s, rates in Mbit/s (800 / seconds).

    ``source`` is the page, or the run that a user sends in.
    """

    cpu: str = Field(min_length=1)
    mhz: float | None = Field(default=None, gt=0)
    device: str = Field(min_length=1)
    aes128_s: float = Field(gt=0)
    aes128_mbit_s: float = Field(gt=0)
    aes256_s: float = Field(gt=0)
    aes256_mbit_s: float = Field(gt=0)
    source: str = Field(min_length=10)


def is_outside(name: str) -> bool:
    """Does this name a folder of the user's own?"""
    return "/" in name


def file_of(name: str, kind: Literal["json", "toml"]) -> Path:
    """The file of a paper's numbers, or that of its findings."""
    if not is_outside(name):
        return FOLDER / f"{name}.{kind}"
    return Path(name) / ("paper.json" if kind == "json" else "findings.toml")


@cache
def paper(name: str) -> PublishedPaper:
    """The paper ``name``, or the one in the folder at a path. Raises UsageError where there is none, or its file is not
    what the schema says."""
    if not is_outside(name):
        require_known("paper", name, names(), where="beside a folder of your own, as ./mine")
    path = file_of(name, "json")
    try:
        parsed = PublishedPaper.model_validate_json(read_text(path, MOST_BYTES))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8") from None
    except ValidationError as wrong:
        raise UsageError(f"{path}: {first_of(wrong)}") from wrong
    if parsed.id != name and not is_outside(name):
        raise UsageError(f"{path} says that it is {parsed.id!r}")
    return parsed


def names() -> list[str]:
    """The papers of results/published/, sorted: the files that hold a ``citation``."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if '"citation"' in path.read_text()[:2000])


def devices(path: Path = FOLDER / DEVICES) -> list[DeviceRow]:
    """The rows of devices.csv. Raises UsageError with the line of one that is not a row."""
    rows = []
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines), 2):
            try:
                rows.append(DeviceRow.model_validate({name: cell or None for name, cell in row.items()}))
            except ValidationError as wrong:
                raise UsageError(f"{path}, line {number}: {wrong}") from wrong
    return rows


def device_row(device: DeviceRow) -> str:
    """The device as a line of devices.csv (RFC 4180), which a user can send in."""
    cells: Sequence[str] = [
        str(value) if isinstance(value, str) else "" if value is None else f"{value:g}"
        for value in vars(device).values()
    ]
    return ",".join(f'"{cell}"' if {",", '"'} & set(cell) else cell for cell in (c.replace('"', '""') for c in cells))
