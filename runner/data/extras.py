"""The packages that single commands need: the extras of pyproject.toml, which ``make setup`` does not install."""

from __future__ import annotations

import sys


def pip_install(*packages: str) -> str:
    """The command that installs them beside this vpneval."""
    return f"{sys.executable} -m pip install {' '.join(packages)}"
