"""Where a request is played: on this machine, under a guest kernel, or on a farm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from runner.data.guest import guest_name
from runner.lab.places import device_of
from runner.sweep import run as here
from runner.sweep.request import Request
from runner.sweep.settings import Outcome, Watch


def folder_of(request: Request) -> Path:
    """The folder that was named for the run, or a new one in results/."""
    return request.asked.out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{request.profile.name}"


def play(request: Request, folder: Path, say: Callable[[str], None], watch: Watch, quiet: bool = False) -> Outcome:
    """Measure what ``request`` asks for under its one kernel, into this run folder, and return what was done.

    ``say`` gets what the user is told beside the trials, ``watch`` the trials of this machine; a guest kernel tells its
    own on standard error, with ``quiet`` only what went wrong. Raises Interrupted on Ctrl-C, UsageError where the
    folder belongs to another run, CannotRunHere, and ``guests.Ended`` where the guest's vpneval has said what is wrong.
    """
    if request.asked.farm:
        from runner.stages import farm

        return farm.play(request, folder, say)
    if device_of(request.asked.lab):
        from runner.sweep import device

        return device.run(request, folder, say, watch)
    (kernel,) = request.kernels
    if kernel and not guest_name():
        from runner.stages import guests

        return guests.play(kernel, request, folder, say, quiet)
    return here.run(request, folder, say, watch)
