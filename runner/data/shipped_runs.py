"""Reads the shipped runs, which show what VPNs can do."""

from __future__ import annotations

from functools import cache

from runner.data.shipped import Shipped, shipped_folder
from runner.data.store import load_run
from runner.data.trials import Run, Trial


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
