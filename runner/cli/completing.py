"""Completion as bash asks for it. Bash ends a word at ``=`` (COMP_WORDBREAKS): ``--set driver=g`` are three words, and
what it is offered takes the place of the last one only."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress

ASKED, BASH = "_VPNEVAL_COMPLETE", "complete_bash"
BREAK = "="


@contextmanager
def whole_words() -> Iterator[None]:
    """Where bash asks for completions: the words as they were typed, and what is offered without what stays."""
    if os.environ.get(ASKED) != BASH:
        yield
        return
    stays = ""
    with suppress(KeyError, ValueError):  # an open quote: nothing is rejoined
        words, at, stays = rejoin(shlex.split(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"]))
        os.environ |= {"COMP_WORDS": shlex.join(words), "COMP_CWORD": str(at)}
    offered = io.StringIO()
    try:
        with redirect_stdout(offered):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(stays) for line in offered.getvalue().splitlines(keepends=True)))


def rejoin(words: Sequence[str], at: int) -> tuple[list[str], int, str]:
    """The words around each BREAK as one, the place of the one that is completed, and what of it stays as it is."""
    whole, place = list[str](), len(words)
    for number, text in enumerate(words):
        if whole and number > 1 and BREAK in (text, words[number - 1]):
            whole[-1] += text
        else:
            whole.append(text)
        if number == at:
            place = len(whole) - 1
    if at >= len(words):
        return whole, len(whole), ""
    return whole, place, whole[place][: whole[place].rfind(BREAK) + 1]
