"""Small standard-library programs that run on the nodes themselves, so that every lab measures alike.

``answer.py`` runs on the far host, ``ask.py`` on the near one, ``watch.py`` on the WAN. They need nothing
but python3 and are copied to each node when the lab comes up.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = "/run/vpneval"


def source(name: str) -> str:
    """The text of probe ``name``."""
    return (Path(__file__).parent / f"{name}.py").read_text()
