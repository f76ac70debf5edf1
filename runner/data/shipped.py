"""Files that come with the packages and are no Python: the lab image's lists, the layers' scripts, the papers' numbers,
and runs that show what VPNs can do.

In the checkout they stand where people look for them, in ``vagrant/`` and ``results/``. ``runner/shipped/``
has a symbolic link to each folder, and a wheel has the files in its place, so that one path holds for both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Shipped = Literal["packages", "layers", "published", "evidence", "behaviour", "operations", "lengths", "restarts"]


def shipped_folder(name: Shipped) -> Path:
    """The folder ``name``."""
    return (Path(__file__).parents[1] / "shipped" / name).resolve()
