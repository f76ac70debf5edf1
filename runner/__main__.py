"""``vpneval``, and ``python -m runner``: Ctrl-C, SIGTERM and SIGHUP end it in one way, from its first moment on.

What a process inherits is made what the program needs: texts are UTF-8, and there are descriptors for the tunnels.
"""

from __future__ import annotations

import io
import locale
import os
import resource
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

INTERRUPTED = 130
TERMINAL = "VPNEVAL_TERMINAL"  # the encoding of the terminal, where texts have another
DESCRIPTORS = 65536


def main() -> None:
    """Load the command line, and hand over to it."""
    before = {ending: signal.getsignal(ending) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for ending, handler in before.items():
        if handler in (signal.default_int_handler, signal.SIG_DFL):  # not where it is ignored, as in the background
            signal.signal(ending, _report_interrupt)  # a module that is being loaded may swallow a KeyboardInterrupt
    _in_utf8()
    _with_descriptors()
    from runner.cli.main import main as command

    try:
        for ending, handler in before.items():
            if handler in (signal.default_int_handler, signal.SIG_DFL):
                signal.signal(ending, _interrupt)
        command()
    except (KeyboardInterrupt, SystemExit) as end:
        for ending in before:  # it is ending already: who asks again changes nothing any more
            signal.signal(ending, signal.SIG_IGN)
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        _at_once()


def _in_utf8() -> None:
    """Begin again in Python's UTF-8 mode (PEP 540) where the locale has another encoding: files, paths and what other
    programs say are UTF-8 then, wherever they are opened. The terminal keeps its encoding."""
    if not sys.flags.utf8_mode and locale.getencoding().lower() not in ("utf-8", "utf8"):
        terminal = next((stream.encoding for stream in (sys.stdout, sys.stderr) if stream), "ascii")
        environment = {**os.environ, TERMINAL: terminal, "PYTHONUTF8": "1"}
        os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environment)
    if terminal := os.environ.pop(TERMINAL, ""):
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=terminal)


def _with_descriptors() -> None:
    """As many open files as we may have: a tunnel has some fifty, and a login shell often 1,024."""
    with suppress(OSError, ValueError):  # where prlimit(2) is refused, a lab says so
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _at_once() -> None:
    """End with the exit code of an interruption. Python itself would end by SIGINT instead, where the interruption came
    while a text was executed as code, as dataclasses and named tuples do when they are made."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(INTERRUPTED)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """A KeyboardInterrupt within the command, which catches it. Before and after it nobody would: the end, at once."""
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "runner.cli.main":
            raise KeyboardInterrupt
        frame = frame.f_back
    _at_once()


def _report_interrupt(*_: Any) -> None:
    os.write(2, b"vpneval: interrupted before anything began\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
