"""A request under a guest kernel: the guest measures into the run folder, and says what it has done as JSON."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from pydantic import TypeAdapter

from runner.catalogue import read_run
from runner.data.errors import LabError, VpnevalError
from runner.data.files import word
from runner.data.invocation import end_invocation
from runner.data.own_program import again
from runner.data.store import Store, open_store
from runner.data.streams import output_to
from runner.lab.kernels.boot import Kernel, Say, run_in
from runner.lab.node.answers import not_understood
from runner.lab.node.lines import Bounded
from runner.lab.shape.site_to_site import check_machine
from runner.lab.software.image import open_image
from runner.sweep.request import Request
from runner.sweep.settings import Outcome

OUTCOME = TypeAdapter(Outcome)
CONSOLE_LOG = "kernel-console.log"


class Ended(VpnevalError):
    """The guest's vpneval has ended with this exit code, and has said why."""

    def __init__(self, exit_code: int):
        super().__init__("")
        self.exit_code = exit_code


def prepare(request: Request, say: Say) -> None:
    """Fetch what the kernels of a request need. Raises CannotRunHere where this machine cannot run one."""
    check_machine()
    for kernel in filter(None, request.kernels):
        kernel.prepare(say)
    for name in request.images:
        open_image(name, say=say)  # a guest cannot build one: to it, the image is read-only


def play(kernel: Kernel, request: Request, folder: Path, say: Say, quiet: bool = False) -> Outcome:
    """Measure what is asked for in a guest, into ``folder``; returns what was done. Raises Ended and LabError.

    The lock on the folder is held here: one that is taken in the guest is not seen outside.
    """
    with open_store(folder) as store:
        say(f"vpneval starts the guest kernel {kernel.name}")
        log = folder / CONSOLE_LOG
        mine = request.asked.with_changes(kernel=kernel.name, out=folder)
        command = again("play", mine.model_dump_json(), *(["--quiet"] if quiet else []))
        printed = Bounded()
        try:
            with output_to(io.TextIOWrapper(printed, write_through=True)):
                code = run_in(kernel, command, folders=[folder.resolve()], console_log=log, say=say)
                done = printed.getvalue()
        except LabError as broken:
            _write_down(store, f"stopped: {str(broken).splitlines()[0]}")
            safe = f"What was measured is safe. To continue: the same command with --out {word(folder)}"
            raise LabError(f"stopped: {broken}\n(console: {log})\n{safe}") from None
        if code:
            raise Ended(code)
        try:
            return OUTCOME.validate_json(done, strict=True)
        except ValueError:
            raise not_understood(f"the guest kernel {kernel.name}", f"it has done {done[:80]!r}") from None


def this_command_under(kernel: Kernel, image: str, say: Say) -> int:
    """Run the command line of this process, which writes no files, under ``kernel``. Returns its exit code."""
    check_machine()
    kernel.prepare(say)
    open_image(image)
    return run_in(kernel, again(*sys.argv[1:]), say=say)


def _write_down(store: Store, outcome: str) -> None:
    """Write into run.json how the last call ended, which the guest could not write any more."""
    path = store.folder / "run.json"
    if path.exists():
        run = read_run(path)
        invocations = [*run.invocations[:-1], end_invocation(run.invocations[-1], outcome)]
        store.save_run(run.model_copy(update={"invocations": invocations}))
