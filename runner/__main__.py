"""``vpneval``, and ``python -m runner``: Ctrl-C, SIGTERM and SIGHUP end it in one way, from its first moment on."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """Load the command line, and hand over to it."""
    before = {ending: signal.getsignal(ending) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for ending, handler in before.items():
        if handler in (signal.default_int_handler, signal.SIG_DFL):  # not where it is ignored, as in the background
            signal.signal(ending, _ended)  # a KeyboardInterrupt may be swallowed by a module that is being loaded
    from runner.cli.main import main as command

    try:
        for ending, handler in before.items():
            signal.signal(ending, signal.default_int_handler if handler == signal.SIG_DFL else handler)
        command()
    except (KeyboardInterrupt, SystemExit) as end:
        for ending in before:  # it is ending already: who asks again changes nothing any more
            signal.signal(ending, signal.SIG_IGN)
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        _at_once()


def _at_once() -> None:
    """End with the exit code of an interruption. Python itself would end by SIGINT instead, where the interruption came
    while a text was executed as code, as dataclasses and named tuples do when they are made."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(INTERRUPTED)


def _ended(*_: Any) -> None:
    os.write(2, b"vpneval: interrupted before anything began\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
