"""``vpneval run --kernel``: one run folder for each kernel; several of them are a parent folder with an index."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from runner.catalogue import load_vpn
from runner.cli.ending import NOTHING_MEASURED, Shown, together
from runner.cli.options import tell
from runner.cli.survey import TITLES, survey
from runner.data.asked import AskedRun
from runner.data.errors import CannotRunHere, LabError, UsageError, VpnevalError
from runner.data.files import from_json, is_there, no_link, read_bytes, word, write_text
from runner.data.invocation import ended
from runner.data.store import Store, load_run, open_store, read_run
from runner.data.streams import document, output_to, standard_output
from runner.lab.kernels.boot import Kernel, Say, run_in
from runner.lab.names import HOST
from runner.lab.shape.site_to_site import check_machine
from runner.lab.software.image import open_image
from runner.report.closing import closing
from runner.report.model import Report
from runner.sweep.request import Request

INDEX = "index.json"
OUTCOMES = {0: "complete", 1: "complete, but some trials gave no number", 5: "nothing was measured", 130: "interrupted"}
REST_S = 90
CONSOLE_LOG = "kernel-console.log"


def run_under(
    kernels: Sequence[Kernel | None], request: Request, here: Callable[[Path], int], say: Say, shown: Shown
) -> int:
    """Measure what is asked for under each kernel in turn; None is the machine's own, by ``here``.

    One kernel: its run folder is ``--out`` itself. Several: ``--out`` holds a run folder for each and an index of
    them; one that breaks does not stop the others. Returns the exit code, of several the one that matters most.
    Raises CannotRunHere, before anything starts, if this machine cannot run one of the kernels.
    """
    check_machine()
    for kernel in kernels:
        if kernel is not None:
            kernel.prepare(say)
    for name in request.images:
        open_image(name, say=say)  # a guest cannot build one: to it, the image is read-only
    folder = request.asked.out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{request.profile.name}"
    if len(kernels) == 1 and kernels[0] is not None:
        return _guest_run(kernels[0], request.asked, shown, say, folder)
    check_parent(folder)
    # Of several, one list is printed at the end.
    stdout = io.TextIOWrapper(io.BytesIO()) if shown.as_json else standard_output()
    codes = []
    with output_to(stdout):
        for kernel in kernels:
            name = kernel.name if kernel else "host"
            work = partial(_guest_run, kernel, request.asked, shown, say) if kernel else here
            codes.append(_one_of_several(name, folder, work, say))
            if codes[-1] in (2, 130):
                break
    if shown.as_json:
        reports = [from_json(read_bytes(run / "report.json")) for run in indexed(folder) or ()]
        document(json.dumps(reports, indent=1) + "\n")
    else:
        say(f"The runs are in {folder}. To print all reports again: vpneval report {word(folder)}")
    return together(codes)


def run_with_rest(
    rest: Kernel,
    request: Request,
    here: Callable[[Path], int],
    say: Say,
    shown: Shown,
    install: bool = False,
) -> int:
    """Run on the machine's own kernel by ``here``; then, under ``rest``, those of the VPNs that it lacks.

    Before that everything is probed, and ``say`` is told what will run where; ``install``: packages that ``rest`` needs
    may be installed. ``--out`` is a parent folder of both runs, whose answers are told once more at the end. Where
    ``rest`` cannot be started, that is said in a line, and another kernel may take its place.
    """
    check_machine()
    second_kernel = survey(request, rest, REST_S, install, say)
    parent = request.asked.out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{request.profile.name}"
    check_parent(parent)
    code = _one_of_several(HOST, parent, here, say)
    lacking = lacks(parent / HOST) if code in (0, 1, NOTHING_MEASURED) else []
    if second_kernel is None or not lacking:
        return code
    rest = second_kernel
    say(f"This machine's kernel lacks {', '.join(lacking)}. vpneval now measures them under {rest.name}.")
    try:
        rest.prepare(say)
    except CannotRunHere as lack:
        say(f"The second run is left out: {lack}")
        return code
    asked = of_rest(request, lacking)
    second = _one_of_several(rest.name, parent, partial(_guest_run, rest, asked, shown, say), say)
    for line in told_again(parent):
        say(line)
    return together([code, second])


def of_rest(request: Request, lacking: Sequence[str]) -> AskedRun:
    """What the second run is asked for: the same of the VPNs that the first kernel lacks, in less time."""
    files = {load_vpn(word).name: word for word in request.asked.vpns if word.endswith(".py")}
    return request.asked.changed(
        vpns=[files.get(vpn, vpn) for vpn in lacking],
        rounds=None,  # the deadline says how many there are
        deadline_s=REST_S,
        until_significant=request.until_significant,
    )


def told_again(parent: Path) -> list[str]:
    """The answer of the runs in a parent folder, once more, and where their pages are: the second run has pushed the
    first one's answer off the screen."""
    reports = {
        run: Report.model_validate_json(read_bytes(run / "report.json"))
        for run in indexed(parent) or ()
        if is_there(run / "report.json")
    }
    pages = [f"Read {run / 'report.html'}" for run in reports]
    return [*closing({name_of(run): report for run, report in reports.items()}), *pages]


def name_of(run: Path) -> str:
    """The kernel of a run in a parent folder, in words; empty for this machine's own."""
    return "" if run.name == HOST else TITLES.get(run.name.replace("-", ":", 1), run.name)


def lacks(folder: Path) -> list[str]:
    """The VPNs of a run folder that have a data path in the kernel, and only unsupported trials."""
    run, trials = load_run(folder)
    kernels_own = [name for name, vpn in run.vpns.items() if vpn.dataplane == "kernel"]
    statuses = {name: {trial.status for trial in trials if trial.vpn == name} for name in kernels_own}
    return [name for name in kernels_own if statuses[name] == {"unsupported"}]


def this_command_under(kernel: Kernel, image: str, say: Say) -> int:
    """Run the command line of this process, which writes no files, under ``kernel``. Returns its exit code."""
    check_machine()
    kernel.prepare(say)
    open_image(image)
    return run_in(kernel, [sys.executable, "-m", "runner", *sys.argv[1:]], say=say)


def check_parent(folder: Path) -> None:
    """Make the parent folder of several runs. Raises UsageError where something else is there already."""
    if (folder / "run.json").exists() and (folder.parent / INDEX).exists():
        again = f"--out {word(folder.parent)}"
        raise UsageError(f"{folder} is one run of a parent folder. To continue all of its runs: {again}")
    if (folder / "run.json").exists():
        raise UsageError(f"{folder} is a run folder, and several kernels need a parent folder. Choose another --out")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / INDEX).exists())):
        raise UsageError(f"{folder} is neither empty nor a parent folder with an {INDEX}. Choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be made: {error.strerror}") from None


def _one_of_several(name: str, parent: Path, work: Callable[[Path], int], say: Say) -> int:
    """Make one run of a parent folder, and write it into the index. Returns its exit code."""
    folder = no_link(parent / folder_of(name))
    say(f"kernel {name}")
    add_to_index(parent, name, "running")
    try:
        code = work(folder)
        outcome = OUTCOMES.get(code, f"exit code {code}")
    except VpnevalError as error:
        tell(f"vpneval: kernel {name}: {error}")  # with --quiet, too
        code, outcome = error.exit_code, str(error).splitlines()[0]
    except KeyboardInterrupt:
        code, outcome = 130, OUTCOMES[130]
    add_to_index(parent, name, outcome)
    if code in (4, 130):
        tell(f"To continue all the runs: the same command with --out {word(parent)}")
    return code


def folder_of(kernel_name: str) -> str:
    """The name of the kernel's run folder: ``qemu-trixie`` for ``qemu:trixie``."""
    return kernel_name.replace(":", "-")


def add_to_index(parent: Path, kernel_name: str, outcome: str) -> None:
    """Write one run into the index of this parent folder: its kernel, its folder, how it ended."""
    path = no_link(parent / INDEX)
    index: dict[str, Any] = _index(path) if is_there(path) else {"schema_version": 1, "runs": []}
    runs = [run for run in index["runs"] if run["kernel"] != kernel_name]
    index["runs"] = [*runs, {"kernel": kernel_name, "folder": folder_of(kernel_name), "outcome": outcome}]
    written = path.with_suffix(".partial")
    write_text(written, json.dumps(index, indent=1) + "\n")
    written.rename(path)


def indexed(folder: Path) -> list[Path] | None:
    """The run folders of a parent folder that are not empty; None if ``folder`` is no parent folder."""
    path = folder / INDEX
    if is_there(folder / "run.json") or not is_there(path):
        return None
    runs = [folder / run["folder"] for run in _index(path)["runs"]]
    return [run for run in runs if is_there(run / "run.json")]


def _index(path: Path) -> dict[str, Any]:
    """The index of a parent folder. Raises UsageError where it is none."""
    try:
        index: dict[str, Any] = from_json(read_bytes(path))
        texts = [run[what] for run in index["runs"] for what in ("kernel", "folder")]
    except (ValueError, KeyError, TypeError) as wrong:
        raise UsageError(f"{path} is not an index of runs: {type(wrong).__name__}: {wrong}") from None
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{path} is not an index of runs: the kernel and the folder of each run must be texts")
    return index


def _guest_run(kernel: Kernel, asked: AskedRun, shown: Shown, say: Say, folder: Path) -> int:
    """Measure what is asked for in a guest, into ``folder``; returns the exit code.

    The lock on the folder is held here: one that is taken in the guest is not seen outside.
    """
    with open_store(folder) as store:
        say(f"vpneval starts the guest kernel {kernel.name}")
        log = folder / CONSOLE_LOG
        mine = asked.changed(kernel=kernel.name, out=folder)
        command = [sys.executable, "-m", "runner", "play", mine.model_dump_json(), *shown.flags]
        try:
            return run_in(kernel, command, folders=[folder.resolve()], console_log=log, say=say)
        except LabError as broken:
            _write_down(store, f"stopped: {str(broken).splitlines()[0]}")
            safe = f"What was measured is safe. To continue: the same command with --out {word(folder)}"
            raise LabError(f"stopped: {broken}\n(console: {log})\n{safe}") from None


def _write_down(store: Store, outcome: str) -> None:
    """Write into run.json how the last call ended, which the guest could not write any more."""
    path = store.folder / "run.json"
    if path.exists():
        run = read_run(path)
        invocations = [*run.invocations[:-1], ended(run.invocations[-1], outcome)]
        store.save_run(run.model_copy(update={"invocations": invocations}))
