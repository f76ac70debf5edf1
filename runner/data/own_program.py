"""This program, started again: as another user, in a guest, as a child."""

from __future__ import annotations

import sys


def again(*words: str) -> list[str]:
    """The command line of this vpneval with these words: by the same Python, and never by what a folder named
    ``runner`` in the current directory has (``-P``)."""
    return own_python("runner", *words)


def own_python(module: str, *words: str) -> list[str]:
    """The command line of a module of this Python's own packages, wherever it is started."""
    return [sys.executable, "-P", "-m", module, *words]
