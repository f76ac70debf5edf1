"""The one reader of the lines that other programs say, on this machine or another: so many bytes, and so long.

A program may be broken, or may lie: it says half a line, a line without end, or nothing. Who reads it waits for a whole
line until a time that is known before, and keeps no more of it than is known before.
"""

from __future__ import annotations

import io
import json
import os
import select
import time
from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypeVar

from runner.data.errors import VpnevalError

CHUNK = 65536
MOST_LINE = 1 << 20  # bytes of a line; the longest is an agent's, with 64 KiB of output in JSON
MOST_ANSWER = 8 << 20  # of a probe's: Python's objects for the worst JSON take some 20 times as much memory


class Readable(Protocol):
    """What has a descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


End = TypeVar("End", bound=int | Readable)


def readable(ends: Iterable[End], within_s: float | None) -> list[End]:
    """Those of ``ends`` that can be read, or are at their end; none after ``within_s`` seconds. It uses poll(2):
    select(2) takes only descriptors below 1,024, and whoever starts this program may have left it more open files."""
    by_number = {end if isinstance(end, int) else end.fileno(): end for end in ends}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(None if within_s is None else max(0, 1e3 * within_s))]


def writable(pipe: int, within_s: float) -> bool:
    """Does a pipe take something within so many seconds? Its broken end counts: to write says why."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(max(0, 1e3 * within_s)))


def put(pipe: int, data: bytes, within_s: float) -> None:
    """Write all of it. Raises TimeoutError where the other end has not taken it within ``within_s``, and OSError."""
    os.set_blocking(pipe, False)
    end = time.monotonic() + within_s
    while data:
        if not writable(pipe, end - time.monotonic()):
            raise TimeoutError(f"it takes nothing for {within_s:g} s")
        data = data[os.write(pipe, data) :]


class UnheardError(VpnevalError):
    """No whole line came: the text says from whom, and why; ``why`` is its kind."""

    def __init__(self, who: str, why: Literal["late", "endless", "ended"], how: str) -> None:
        super().__init__(f"{who} {how}")
        self.why = why


class Lines:
    """The lines that come through a pipe. ``behind``: what has come behind the last one that was read."""

    def __init__(self, pipe: int, who: str, most_bytes: int = MOST_LINE) -> None:
        """``who`` says them, for a sentence. The pipe stays the caller's."""
        self._pipe, self.who, self._most = pipe, who, most_bytes
        self.behind, self._looked = bytearray(), 0

    def fileno(self) -> int:
        """The pipe, for ``readable``."""
        return self._pipe

    def next(self, within_s: float | None) -> bytes:
        """The next whole line, without its end. Raises UnheardError where none came within ``within_s`` seconds (None:
        there is no hurry), where it is longer than the most, or where the pipe has ended."""
        end = None if within_s is None else time.monotonic() + within_s
        while (at := self.behind.find(b"\n", self._looked)) < 0:
            self._looked = len(self.behind)
            if self._looked > self._most:
                break
            if not readable([self._pipe], None if end is None else end - time.monotonic()):
                raise UnheardError(self.who, "late", f"did not answer within {within_s:g} s")
            if not (data := os.read(self._pipe, CHUNK)):
                raise UnheardError(self.who, "ended", "has ended")
            self.behind += data
        if at < 0 or at > self._most:
            self.behind.clear()
            raise UnheardError(self.who, "endless", f"answers with a line of more than {self._most >> 20} MiB")
        line = bytes(self.behind[:at])
        del self.behind[: at + 1]
        self._looked = 0
        return line


class Bounded(io.BytesIO):
    """What a program prints, in memory: no more than MOST_ANSWER. Raises ValueError for more."""

    def write(self, data: Any) -> int:
        """As io.BytesIO.write."""
        if self.tell() + len(data) > MOST_ANSWER:
            raise ValueError(f"it prints more than {MOST_ANSWER >> 20} MiB")
        return super().write(data)


def json_of(text: str | bytes) -> Any:
    """Parse what another program says. Raises ValueError, and nothing else, where it is no JSON, or more than
    MOST_ANSWER."""
    if len(text) > MOST_ANSWER:
        raise ValueError(f"it is longer than {MOST_ANSWER >> 20} MiB")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
