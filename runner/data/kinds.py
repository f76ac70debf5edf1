"""The kinds of values in a run folder, each by what it may look like: whoever made the folder, its values are data.

A run folder may come from anybody. What is read of it is checked here, so that no command needs to doubt it again: a
number is finite and in range, a name is no path, and what is one line has no second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

LARGEST = 1e100  # of a number: nothing that is measured is larger, and sums and ratios of such are still numbers
MOST = 2**53  # of a whole number: what JSON's readers keep exactly
LONGEST_NAME = 120  # characters
LONGEST_LINE = 4_000
LONGEST_TEXT = 1_000_000  # of what a daemon said, say
# Neither control characters nor what ends a line anywhere.
NO_CONTROL = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029"

# Of a VPN, an experiment, an instrument, a factor: letters, digits and a few signs; it begins with none of them.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=LONGEST_NAME)]
# Of a trial: as a name; of several runs together it begins with the run's.
TrialId = Annotated[str, StringConstraints(pattern=NAME, max_length=2 * LONGEST_NAME)]
MetricName = Annotated[str, StringConstraints(pattern="^[a-z0-9_]+$", max_length=LONGEST_NAME)]
Level = Annotated[str, StringConstraints(pattern=r"^[\w .:@+,=/%()-]*$", max_length=LONGEST_NAME)]
# Of a package or a program, as Debian writes them (deb-version(7)); empty where nobody tells.
Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+:~_ -]*$", max_length=LONGEST_NAME)]
Digest = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:._-]*$", max_length=LONGEST_NAME)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]*[+]?$", max_length=LONGEST_NAME)]
# ISO 8601; empty where something has not happened.
Moment = Annotated[str, StringConstraints(pattern=r"^[0-9T:.+Z -]*$", max_length=40)]
LINE = f"^[^{NO_CONTROL}]*$"
Unit = Annotated[str, StringConstraints(pattern=LINE, max_length=40)]
Line = Annotated[str, StringConstraints(pattern=LINE, max_length=LONGEST_LINE)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]
# Where a daemon listens, "udp/500 udp/4500"; empty where nobody says.
PORTS = r"^((udp|tcp)/[1-9][0-9]{0,4}( (udp|tcp)/[1-9][0-9]{0,4})*)?$"
Ports = Annotated[str, StringConstraints(pattern=PORTS)]
Word = Annotated[str, StringConstraints(pattern="^[a-z]{0,15}$")]  # in a sentence, and in a node's name
# The name of a folder: a run is called as its folder is.
FolderName = Annotated[str, StringConstraints(pattern=f"^[^/{NO_CONTROL}]*$", max_length=255)]

Real = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
NotNegative = Annotated[float, Field(allow_inf_nan=False, ge=0, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Whole = Annotated[int, Field(ge=-MOST, le=MOST)]


class Strict(BaseModel):
    """A model that refuses fields it does not know, so that a typing error in a file is found."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def values(given: Any) -> Iterator[Any]:
    """What JSON consists of: numbers, texts, keys, true, false and null."""
    pending = [given]
    while pending:
        match pending.pop():
            case dict() as inner:
                pending += inner.values()
                pending += inner
            case list() | tuple() as inner:
                pending += inner
            case value:
                yield value


def in_range(given: Any) -> Any:
    """JSON as it was given. Raises ValueError for a number that is none, or out of range, and for a very long text."""
    for value in values(given):
        match value:
            case float() | int() as number if not -LARGEST <= number <= LARGEST:  # a NaN, too
                raise ValueError(f"{number:g} is no number that can be measured" if isinstance(number, float) else HUGE)
            case str() as text if len(text) > LONGEST_TEXT:
                raise ValueError(f"a text has {len(text)} characters; at most {LONGEST_TEXT} are read")
    return given


def require_lines(given: Any) -> Any:
    """JSON as it was given. Raises ValueError as in_range, and for a text that is not one line."""
    for value in values(in_range(given)):
        if isinstance(value, str) and (len(value) > LONGEST_LINE or re.search(f"[{NO_CONTROL}]", value)):
            raise ValueError(f"{value[:60]!r} {SAID[LINE]}")
    return given


# What is said of a text that does not fit: by the pattern.
SAID = {
    NAME: "is no name: letters, digits and _ . @ + - are in one",
    "^[a-z0-9_]+$": "is no metric's name: small letters, digits and _ are in one",
    r"^[\w .:@+,=/%()-]*$": "is no level of a factor: letters, digits and . : @ + , = / % ( ) - are in one",
    r"^[A-Za-z0-9.+:~_ -]*$": "is no version: letters, digits and . + : ~ _ - are in one",
    r"^[A-Za-z0-9:._-]*$": "is no digest: letters, digits and : . _ - are in one",
    r"^[0-9a-f]*[+]?$": "is no commit: hexadecimal digits, and + where files differ",
    PORTS: "is no list of ports: udp/500 udp/4500 is one",
    "^[a-z]{0,15}$": "is no word of at most 15 small letters",
    r"^[0-9T:.+Z -]*$": "is no time: 2026-11-30T12:00:00+00:00 is one",
    LINE: "has control characters, or several lines; one line of text is valid here",
    f"^[^/{NO_CONTROL}]*$": "is no folder's name: it has / or control characters",
}
HUGE = f"a whole number is beyond {LARGEST:g}"
Json = Annotated[Any, AfterValidator(in_range)]
