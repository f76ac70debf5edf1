"""A line of a run folder's files as data, and what is said where it is none."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from runner.data.checksum import check_line, how_to_mend
from runner.data.errors import UsageError
from runner.data.files import LONGEST, from_json
from runner.data.kinds import MOST, SAID
from runner.data.trials import SCHEMA_VERSION

MOST_SAID = 1e300  # of a number that is too large
Row = TypeVar("Row", bound=BaseModel)


def read_line(model: type[Row], path: Path, number: int, line: bytes) -> Row:
    """A whole line of a file as data. Raises UsageError, with the line's number, where it is not as it was written, or
    does not fit the schema."""
    try:
        body = check_line(line)
    except ValueError as changed:
        raise UsageError(f"{path}, line {number}: {changed}. {how_to_mend(path, number)}") from None
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as wrong:
        where = f"{path}, line {number}"
        if wrong.errors()[0]["loc"] == ("crc32",):
            raise UsageError(
                f"{where}: another program has written it, and its checksum is not at its end. Put a copy of the file "
                "in its place, or take crc32 out of the lines that were edited on purpose"
            ) from None
        raise UsageError(other_version(where, line) or f"{where}: {first_of(wrong)}") from None


def other_version(where: str, text: bytes) -> str:
    """A sentence on the schema version of this JSON where that is another one, whatever else it holds; else empty."""
    try:
        stored = from_json(text)
    except ValueError:
        return ""
    version = stored.get("schema_version") if isinstance(stored, dict) else None
    if not isinstance(version, int) or version == SCHEMA_VERSION:
        return ""
    newer = "read it with the vpneval that made it, or a newer one" if version > SCHEMA_VERSION else "measure it again"
    return f"{where} has schema version {version}; this vpneval reads {SCHEMA_VERSION}: {newer}"


def first_of(wrong: ValidationError) -> str:
    """The first of the things that are wrong, and where."""
    error = wrong.errors(include_url=False)[0]
    where = ".".join(str(part) for part in error["loc"])[:LONGEST]
    given, context = error["input"], error.get("ctx", {})
    if context.get("pattern") in SAID:
        return f"{where}: {given!r:.60} {SAID[context['pattern']]}"
    bound = context.get("le", context.get("ge", 0))
    if abs(bound) >= MOST and isinstance(given, int | float):
        size = f"{given:g}" if abs(given) < MOST_SAID else f"beyond {MOST_SAID:g}"
        return f"{where} is {size} in size; what is measured is 0, or at most {abs(bound):g}"
    return f"{where + ': ' if where else ''}{error['msg']}"
