"""Standard output and standard error of this process: what is written to them, and what happens where it cannot be.

Standard output has what the command was asked for, and nothing else; what a plugin prints goes to standard error.
Standard error is what nobody may be able to read: that it cannot be written ends no run. In what plugins and libraries
write to either, secrets are hidden and control characters are text. (What their child processes write is as it is.)
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from runner.data.errors import VpnevalError

# All control characters but the ends of lines and tabs; what ends a line in JavaScript; what turns the direction of
# writing; what UTF-8 does not have.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")

PLAIN = "vpneval.plain"  # what codecs call plain() by
SIGNS = str.maketrans({
    **{"–": "-", "—": "-", "−": "-", "·": "-", "×": "x", "÷": "/", "≥": ">=", "≤": "<=", "→": "->", "…": "..."},
    **{"│": "|", "─": "-", "━": "-", "•": "*", "“": '"', "”": '"', "‘": "'", "’": "'", "µ": "u", "±": "+-", "≈": "~"},
})  # fmt: skip


def plain(error: UnicodeError) -> tuple[str, int]:
    """A replacement for a character that a terminal's encoding lacks: one with the same meaning, else its number."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    replaced = lacking.translate(SIGNS)
    return replaced.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(PLAIN, plain)


class OutputError(VpnevalError):
    """Standard output cannot be written; the text says why."""

    exit_code = 4


class ReaderGone(VpnevalError):
    """The reader of standard output has closed it."""

    exit_code = 128 + 13  # as a process that SIGPIPE ends


def visible_text(text: str) -> str:
    r"""The text with control characters as text, as JSON writes them: ``\u001b``. They steer no terminal."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(value: Any) -> Any:
    """Data with control characters as text: a daemon's log must not steer the reader's terminal."""
    if isinstance(value, str):
        return visible_text(value).replace("\t", " ")
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in value]
    if isinstance(value, dict):
        return {printable(name): printable(inner) for name, inner in value.items()}
    return value


class Guarded:
    """A stream whose failures are handled by ``fail``. Everything else is the stream's own."""

    def __init__(self, stream: Any, fail: Callable[[OSError], None]) -> None:
        self._stream, self._fail = stream, fail
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors=PLAIN)

    def write(self, text: Any) -> int:
        """As the stream's."""
        try:
            return int(self._stream.write(text))
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """As the stream's."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    @property
    def buffer(self) -> Guarded:
        """The stream of bytes below it."""
        return Guarded(self._stream.buffer, self._fail)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Aside:
    """What others than the program write, to standard output or standard error: text for standard error, by whole
    lines, so that a secret is found that was written in pieces."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self) -> None:
        self._line = ""

    def write(self, text: str) -> int:
        """As a stream's."""
        lines, ended, rest = (self._line + text).rpartition("\n")
        self._line = rest
        if ended:
            standard_error().write(fit(lines + ended))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As a stream's."""
        self.write("".join(lines))

    def flush(self) -> None:
        """As a stream's."""
        rest, self._line = self._line, ""
        if rest:
            standard_error().write(fit(rest))
        standard_error().flush()

    def isatty(self) -> bool:
        """No: a terminal's own sequences would be shown as text."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(standard_error(), name)


HIDERS: list[Callable[[str], str]] = []  # what takes secrets out of a text: whoever knows some adds itself


def fit(text: str) -> str:
    """The text as others may see it: without the known secrets, and with control characters as text."""
    for hide in HIDERS:
        text = hide(text)
    return visible_text(text)


_asked: list[TextIO] = []  # where what the command was asked for goes: the last one
_told: list[TextIO] = []  # standard error itself, while sys.stderr is what others write to


def standard_output() -> TextIO:
    """The stream for what the command was asked for."""
    return _asked[-1] if _asked else sys.stdout


def standard_error() -> TextIO:
    """The stream for messages of the program itself."""
    return _told[-1] if _told else sys.stderr


class _Current:
    """The stream that ``which`` returns now."""

    def __init__(self, which: Callable[[], TextIO]) -> None:
        self._which = which

    def __getattr__(self, name: str) -> Any:
        return getattr(self._which(), name)


OUTPUT = cast(TextIO, _Current(standard_output))  # the same, for whoever keeps a stream
ERRORS = cast(TextIO, _Current(standard_error))


@contextmanager
def output_to(stream: TextIO) -> Iterator[None]:
    """Within the context, what the command was asked for goes to ``stream``, and what others than the program write to
    standard error."""
    streams = sys.stdout, sys.stderr
    aside = _Aside()
    _told.append(standard_error())
    _asked.append(stream)
    sys.stdout = sys.stderr = cast(TextIO, aside)
    try:
        yield
    finally:
        aside.flush()
        sys.stdout, sys.stderr = streams
        _asked.pop()
        _told.pop()


def document(text: str) -> None:
    """Write this text to standard output, in UTF-8 whatever the terminal's encoding is, control characters as text."""
    stream = standard_output()
    stream.flush()
    stream.buffer.write(visible_text(text).encode())
    stream.flush()


@contextmanager
def guard_output() -> Iterator[None]:
    """Guard standard output and standard error within the context. Raises OutputError and ReaderGone, also at its
    end."""
    streams = sys.stdout, sys.stderr
    out, err = (stream or open(os.devnull, "w") for stream in streams)  # noqa: SIM115  None: closed by the caller

    def tell_loss(error: OSError) -> None:
        _to_nowhere(out)
        if isinstance(error, BrokenPipeError):
            raise ReaderGone("") from None
        raise OutputError(f"standard output cannot be written: {error.strerror}") from None

    sys.stdout = cast(TextIO, Guarded(out, tell_loss))
    sys.stderr = cast(TextIO, Guarded(err, lambda error: _to_nowhere(err)))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = streams


def _to_nowhere(stream: Any) -> None:
    """Discard the stream's buffer; Python would try to write it again at its end, and complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
