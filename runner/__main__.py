"""``vpneval``, and ``python -m runner``: Ctrl-C, SIGTERM and SIGHUP end it in one way, from its first moment on."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


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
    except KeyboardInterrupt:
        sys.exit(130)
    finally:  # it is ending already: who asks again changes nothing any more
        for ending in before:
            signal.signal(ending, signal.SIG_IGN)


def _ended(*_: Any) -> None:
    os.write(2, b"vpneval: interrupted before anything began\n")
    os._exit(130)


if __name__ == "__main__":
    main()
