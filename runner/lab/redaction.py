"""The secrets of this process, replaced by their names in everything that others may read.

A node's output and everything that names a node (logs, commands, reasons, warnings, messages) passes through this
module where it is read, before it is written anywhere. Secrets are learnt before the first daemon that has them starts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.data.errors import UsageError
from runner.data.streams import HIDERS

SHORTEST = 4  # characters; shorter words are all over any log
PUBLIC = (".crt", ".pub")
PUBLIC_PEM = ("CERTIFICATE", "PUBLIC KEY")
# Long secrets are known by their pieces, so that one that somebody has wrapped or cut off is found as well.
PIECE = 16
LEAST = 8  # characters of a secret that are worth hiding by themselves


def is_public(name: str, text: str) -> bool:
    """Is this text no secret? It is public if it is named as a certificate or a public key, or is PEM (RFC 7468) of
    nothing else."""
    labels = re.findall(r"-----BEGIN ([^-\n]+)-----", text)
    if any(label.endswith("PRIVATE KEY") for label in labels):
        return False
    pem = text.strip().startswith("-----BEGIN ") and text.strip().endswith("-----")
    return name.endswith(PUBLIC) or (pem and all(label.endswith(PUBLIC_PEM) for label in labels))


class Redaction:
    """Texts with ``<NAME>`` in place of every secret that it has learnt. Thread-safe."""

    def __init__(self) -> None:
        self._learnt: set[tuple[str, str]] = set()
        self._names: dict[bytes, bytes] = {}  # what stands in a text -> what takes its place
        # The first bytes, up to SHORTEST of them -> all of the former that begin so, the longest first.
        self._heads: dict[bytes, list[bytes]] = {}
        self._marks = _Marks(())

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Hide these from now on, but for what is public. Raises UsageError for one that is too short to be hidden."""
        new = {(name, text) for name, text in secrets.items() if not is_public(name, text)} - self._learnt
        if not new:
            return
        names, heads = dict(self._names), dict[bytes, list[bytes]]()
        for name, text in sorted(new):
            if len(text.strip()) < SHORTEST:
                raise UsageError(
                    f"the secret {name} has {len(text.strip())} characters. One of fewer than {SHORTEST} cannot be "
                    "kept out of the logs. Make a longer one, or call it NAME.crt or NAME.pub if it is public"
                )
            for form in _forms(text.strip()):
                names.setdefault(form, f"<{name}>".encode())
        for form in sorted(names, key=len, reverse=True):
            for length in range(1, SHORTEST + 1):
                heads.setdefault(form[:length], []).append(form)
        self._names = names
        self._heads, self._marks = heads, _Marks(heads)
        self._learnt |= new

    def text(self, text: str) -> str:
        """The text without secrets."""
        if not self._names:
            return text
        data = text.encode("utf-8", "surrogateescape")
        return self.cut(data, more=False)[0].decode("utf-8", "surrogateescape")

    def data(self, value: Any) -> Any:
        """The value without secrets in any text of its lists and mappings, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key) if isinstance(key, str) else key: self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value

    def cut(self, data: bytes, *, more: bool) -> tuple[bytes, bytes]:
        """The data without secrets, and an end that may be the beginning of a secret, where ``more`` is to come.

        Where nothing more comes, a secret that was cut off after ``LEAST`` bytes or more is hidden, too, unless they
        are zeros.
        """
        heads, names, size = self._heads, self._names, len(data)  # in this order: learn() may be at work
        clean, copied = list[bytes](), 0
        for at in self._marks.possible_places(data):
            if at < copied or not (forms := heads.get(data[at : at + SHORTEST])):
                continue
            left = size - at
            begun = next((form for form in forms if len(form) > left and form.startswith(data[at:])), None)
            if begun and more:
                return b"".join([*clean, data[copied:at]]), data[at:]
            whole = next((form for form in forms if data.startswith(form, at)), None)
            if left < LEAST or _is_filler(data[at:]):
                begun = None
            if hidden := whole or begun:
                if at > copied or not clean or clean[-1] != names[hidden]:  # the pieces of one are one
                    clean += [data[copied:at], names[hidden]]
                copied = at + (len(whole) if whole else left)
        return b"".join([*clean, data[copied:]]), b""


class _Marks:
    """Where one of many short words may begin: a table of their hashes (Knuth's), 100 times as fast as a loop."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._table = np.zeros(1 << 16, dtype=bool)
        for word in words:
            if len(word) == SHORTEST:
                self._table[self._hashes(word)] = True

    def possible_places(self, data: bytes) -> list[int]:
        """The places where one of the words may begin, and all that are too near to the end to tell."""
        ends = max(0, len(data) - SHORTEST + 1)
        return [*map(int, np.flatnonzero(self._table[self._hashes(data)])), *range(ends, len(data))]

    def _hashes(self, data: bytes) -> npt.NDArray[np.uint32]:
        if len(data) < SHORTEST:
            return np.zeros(0, dtype=np.uint32)
        words = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, dtype=np.uint8), SHORTEST)
        hashes: npt.NDArray[np.uint32] = np.ascontiguousarray(words).view(np.uint32)[:, 0] * np.uint32(2654435761)
        return hashes >> np.uint32(16)


def _forms(secret: str) -> Iterator[bytes]:
    """The forms in which a secret may stand in a text: its lines, and these in hexadecimal and Base64."""
    lines = [line.strip() for line in secret.splitlines()]
    body = [line for line in lines if not line.startswith("-----")] or lines
    wanted = [line for line in body if len(line) >= (SHORTEST if len(lines) == 1 else LEAST)]
    if len(body) > 1:
        wanted.append("".join(body))  # its bytes, where the lines are Base64
    for word in wanted:
        raw = [word.encode()]
        with suppress(ValueError):
            raw.append(base64.b64decode(word, validate=True))
        with suppress(ValueError):
            raw.append(bytes.fromhex(word))
        yield from _pieces(word.encode())
        for data in raw:
            if len(data) >= SHORTEST:
                yield from _pieces(data.hex().encode())
                yield from _pieces(data.hex().upper().encode())
                yield from _pieces(base64.b64encode(data).rstrip(b"="))


def _pieces(form: bytes) -> Iterator[bytes]:
    if len(form) < PIECE + LEAST:
        yield form
        return
    ends = [*range(PIECE, len(form) - LEAST + 1, PIECE), len(form)]
    for start, end in zip([0, *ends], ends, strict=False):
        if not _is_filler(form[start:end]):
            yield form[start:end]


def _is_filler(piece: bytes) -> bool:
    """Is the piece zeros and the like? Such pieces are in every hexadecimal dump, and at the end of round numbers."""
    return len(set(piece)) <= 3


KNOWN = Redaction()  # of this process: a secret of one lab is none of another lab's business either
hide = KNOWN.text
HIDERS.append(hide)  # what plugins write to the console
