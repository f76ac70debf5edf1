"""The checksum at the end of each line of trials.jsonl and slices.jsonl: a bit that a disk or a copy has flipped is
found, and no number of the report comes from it. It proves nothing against somebody who edits the file.

A line is a JSON object whose last member is ``"crc32"``: of the same object without that member (zlib.crc32, eight
hexadecimal digits). Lines of older runs have none.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from runner.data.files import lines_of, word

MEMBER = b',"crc32":"'
END = b'"}\n'
DIGITS = 8
LENGTH = len(MEMBER) + DIGITS + len(END)


def with_checksum(text: str) -> bytes:
    """A line of a file: a JSON object as ``model_dump_json`` writes it, with its checksum and the line's end."""
    body = text.encode()
    return body[:-1] + MEMBER + f"{zlib.crc32(body):08x}".encode() + END


def has_checksum(line: bytes) -> bool:
    """Does the line, with its end, have a checksum?"""
    return line[-LENGTH : len(MEMBER) - LENGTH] == MEMBER and line.endswith(END)


def check_line(line: bytes) -> bytes:
    """The JSON object of a line, without its checksum, and of one without a checksum as it is.

    Raises ValueError, which says what has happened and what to do, where the checksum is another one."""
    if not has_checksum(line):
        return line
    body = line[:-LENGTH] + b"}"
    noted, found = line[len(MEMBER) - LENGTH : -len(END)], f"{zlib.crc32(body):08x}".encode()
    if noted != found:
        raise ValueError(
            f"it is not as it was written: its checksum is {found.decode()}, and not {noted.decode(errors='replace')!r}"
        )
    return body


def how_to_mend(path: Path, number: int) -> str:
    """What to do about a line that is not as it was written."""
    return (
        f"Put a copy of the file in its place; or take the line out (sed -i {number}d {word(path)}) and give the run's "
        f"command again with --out {word(path.parent)}: what is missing is measured again"
    )


def without_checksum(path: Path) -> tuple[int, int]:
    """How many lines of the file have no checksum, and how many it has."""
    there = [has_checksum(line) for line in lines_of(path)]
    return there.count(False), len(there)
