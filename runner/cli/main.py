"""The program: a command line goes to its command, and what it raises becomes one sentence and an exit code.

Exit codes: 0 every VPN that can run here has numbers, 1 one is left without (or a regression), 2 usage, 3 this
machine or lab cannot run it, 4 stopped by a broken lab or a folder that cannot be written, 5 nothing measured or
compared, 6 compare cannot tell, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from runner.cli.app import app
from runner.cli.options import tell
from runner.data.errors import LabError, UsageError, VpnevalError, is_interruption
from runner.data.files import short
from runner.data.foreign import caught
from runner.data.streams import ReaderGone, guard_output

PR_SET_DUMPABLE = 4  # linux/prctl.h
INTERRUPTED = 130
WIDTHS = range(10, 10_001)  # characters; outside of them, nothing can be shown


def main(argv: list[str] | None = None) -> Any:
    """Entry point: errors become one sentence and an exit code, never a traceback."""
    keep_to_itself()
    arguments = list(sys.argv[1:] if argv is None else argv)
    arguments.sort(key=lambda argument: argument != "--no-color")  # wherever it stands; the others keep their order
    _sane_size()
    try:
        with guard_output(), _interruptible():
            _one_command(arguments)
    except ReaderGone as gone:
        sys.exit(gone.exit_code)
    except VpnevalError as error:
        from runner.lab.redaction import hide

        with guard_output():
            tell(f"vpneval: {hide(str(error))}")
            if is_interruption(error):
                tell("That came of the interruption. What was measured is safe.")
        sys.exit(INTERRUPTED if is_interruption(error) else error.exit_code)
    except KeyboardInterrupt:
        with guard_output():
            tell("vpneval was interrupted. What was measured is safe.")
        sys.exit(INTERRUPTED)


def keep_to_itself() -> None:
    """Let nobody else write what this process and its children make, whatever the umask is, and write no core dump of
    them: keys are in their memory. A core dump goes to a program, if one is set, whatever the limit is (core(5)): so
    this process allows none at all. Its children, which hold a tunnel's keys for its time, are left with the limit."""
    os.umask(os.umask(0o077) | 0o022)
    with suppress(OSError, ValueError):  # where prlimit(2) is refused, a lab says so, and no keys are made
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0)


def _sane_size() -> None:
    """Ignore a terminal size in which nothing could be shown."""
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        given: Any = os.environ.get(name, "")
        if given and not (given.isascii() and given.isdigit() and len(given) < 6 and int(given) in WIDTHS):
            del os.environ[name]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C a KeyboardInterrupt, even where a module that is being loaded turns it into another error; and so
    SIGTERM and the end of the terminal, unless they are ignored, as under nohup(1). Further signals have that effect
    within the command only: outside of it everything is ending already, and nobody would catch them."""
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        first = not pressed
        pressed.append(number)
        if first or (_runs(frame, _one_command) and not _runs(frame, _again)):
            raise KeyboardInterrupt

    before = {ending: signal.getsignal(ending) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for ending, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(ending, press)

    def instead(error: BaseException) -> None:
        if pressed:
            raise KeyboardInterrupt from error
        raise error

    try:
        with caught(instead, VpnevalError, SystemExit), _never_dropped(pressed):
            yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


@contextmanager
def _never_dropped(pressed: Sequence[int]) -> Iterator[None]:
    """Raise the signal's error again later where it comes while an object is cleared away: there the interpreter prints
    what is raised, and drops it."""
    before, main_thread = sys.unraisablehook, threading.get_ident()

    def drop(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is KeyboardInterrupt and pressed:
            _again(main_thread, pressed[-1])
        else:
            before(what)

    sys.unraisablehook = drop
    try:
        yield
    finally:
        sys.unraisablehook = before


def _again(thread: int, number: int) -> None:
    """Send the signal once more from another thread, a moment later; at this point it would be dropped, too."""
    left = threading.Event()

    def send() -> None:
        left.wait()
        time.sleep(0.02)
        signal.pthread_kill(thread, number)

    threading.Thread(target=send, daemon=True).start()
    left.set()


def _runs(frame: FrameType | None, function: Callable[..., object]) -> bool:
    """Is this function on the stack whose innermost frame this is?"""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _one_command(arguments: list[str]) -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(f"the working directory cannot be used: {error.strerror}; change to one that exists") from None
    try:
        app(args=arguments, prog_name="vpneval", standalone_mode=True)
    except OSError as error:  # what no command has foreseen
        where = f"{short(Path(error.filename))}: " if isinstance(error.filename, str) else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (LabError if full else UsageError)(f"{where}{error.strerror or error}") from None
    finally:
        sys.excepthook = _traceback  # typer has set its own


def _traceback(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """The traceback of an unforeseen error. On a farm these words leave the machine, so that they must have no secret
    either."""
    from runner.lab.redaction import hide

    sys.stderr.write(hide("".join(traceback.format_exception(kind, error, where))))
