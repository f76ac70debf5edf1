"""The trials that a number of the page unfolds: each is listed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.design.blocks import Hyperlink, Note
from runner.report import proofs, text
from runner.report.observations import Observation


@dataclass
class Told:
    """What the page has said, from its top: (cell, metric) -> the table in which its trials are listed; the trials
    whose logs are linked; the rows of evidence that were told."""

    listed: dict[tuple[str, str], str] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    proofs: set[int] = field(default_factory=set)


def trials_of(seen: Sequence[Observation], unit: str, told: Told) -> list[Note]:
    """The trials of a row: their values in ``unit``, and the folder of commands and logs; what was negotiated comes
    first, where it was the same in all. Logs are linked, and negotiated levels told, once on a page."""
    alike = len({(one.tunnel, one.proof) for one in seen}) == 1
    if alike and all(one.trial in told.linked for one in seen):
        return [Note(_values(seen, unit))]
    notes = [_evidence(seen[0], told)] if alike and seen[0].tunnel else []
    for one in seen:
        links = []
        if one.log and one.trial not in told.linked:
            links = [Hyperlink("logs", file=f"{one.log}/")]
        own = Note("") if alike else _evidence(one, told)
        value = f"{_place_words(one)}: {text.quantity(one.value or 0.0, unit)}"
        notes.append(Note(f"{value}; {own.words}" if own.words else value, links=[*links, *own.links]))
    told.linked |= {one.trial for one in seen}
    return notes


def _place_words(seen: Observation) -> str:
    return f"{seen.repetition}" + ("" if seen.position == "within" else f" {seen.position}")


def _values(seen: Sequence[Observation], unit: str) -> str:
    """Each repetition's value, ``345, 351 Mbit/s``, with its number where they are not all there: ``1: 345, 3: 351
    Mbit/s``. The unit is said where it changes."""
    every = [_place_words(one) for one in seen] == [str(number) for number in range(1, len(seen) + 1)]
    values = [text.quantity(one.value or 0.0, unit).partition(" ") for one in seen]
    after = [own for _, _, own in values[1:]] + [""]
    return ", ".join(
        ("" if every else f"{_place_words(one)}: ") + value + (f" {own}" if own != next_ else "")
        for one, (value, _, own), next_ in zip(seen, values, after, strict=True)
    )


def _evidence(seen: Observation, told: Told) -> Note:
    """What was negotiated, unless it was told, and the row of evidence."""
    words = "" if seen.proof in told.proofs else seen.tunnel
    told.proofs |= {seen.proof} - {0}
    return Note(words, links=[Hyperlink("evidence", name=proofs.name_of(seen.proof))] if seen.proof else [])
