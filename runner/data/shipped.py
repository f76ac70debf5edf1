"""Files that come with the packages and are no Python: the lab image's lists, the layers' scripts, the papers' numbers,
and runs that show what VPNs can do.

In the checkout they stand where people look for them, in ``vagrant/`` and ``results/``. ``runner/shipped/``
has a symbolic link to each folder, and a wheel has the files in its place, so that one path holds for both.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from runner.data.store import load_run
from runner.data.trials import Run, Trial

Shipped = Literal["packages", "layers", "published", "evidence", "behaviour", "operations", "lengths", "restarts"]


def shipped_folder(name: Shipped) -> Path:
    """The folder ``name``."""
    return (Path(__file__).parents[1] / "shipped" / name).resolve()


@cache
def shipped_runs() -> list[tuple[Run, list[Trial]]]:
    """The runs that show what VPNs can do, that of the newest Debian first."""
    return [load_run(path.parent) for path in sorted(shipped_folder("evidence").glob("*/run.json"), reverse=True)]


@cache
def shipped_beside() -> list[tuple[Run, list[Trial]]]:
    """The runs that tell of VPNs what a run of a choice does not measure: what a NAT does to them, what they ask of an
    operator, how much longer packets get, and how long a failure takes."""
    names: tuple[Shipped, ...] = ("behaviour", "operations", "lengths", "restarts")
    return [*shipped_runs(), *(load_run(shipped_folder(name)) for name in names)]
