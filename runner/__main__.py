"""``vpneval``, and ``python -m runner``: Ctrl-C ends it in one way, also while its modules are loaded."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Load the command line, and hand over to it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where it is ignored, as in a script's background
        signal.signal(signal.SIGINT, _ended)  # a KeyboardInterrupt may be swallowed by a module that is being loaded
    from runner.cli.main import main as command

    try:
        signal.signal(signal.SIGINT, before)
        command()
    except KeyboardInterrupt:
        sys.exit(130)


def _ended(*_: Any) -> None:
    os.write(2, b"vpneval: interrupted before anything began\n")
    os._exit(130)


if __name__ == "__main__":
    main()
