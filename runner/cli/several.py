"""Several runs of one call, each under a kernel or by a line of its own: a parent folder with an index holds them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from runner.cli.ending import NOTHING_MEASURED, measure_and_report, together
from runner.cli.options import Shown, tell
from runner.cli.reading import report_of
from runner.data.errors import CannotRunHere, VpnevalError
from runner.data.files import from_json, is_there, no_link, read_bytes, word
from runner.data.levels import UPLINK
from runner.data.named import HOST
from runner.data.parent import add_to_index, check_parent, folder_of, indexed_runs
from runner.data.streams import document, output_to, standard_output
from runner.lab.kernels.boot import Kernel
from runner.lab.shape.site_to_site import check_machine
from runner.report.closing import by_uplink, closing
from runner.report.model import Report
from runner.stages import play
from runner.stages.survey import TITLES, lacks, of_rest, survey
from runner.sweep.request import Request, resolve

OUTCOMES = {0: "complete", 1: "complete, but some trials gave no number", 5: "nothing was measured", 130: "interrupted"}


def run_under(request: Request, shown: Shown) -> int:
    """Measure and report what is asked for under each of several kernels in turn.

    ``--out`` holds a run folder for each and an index of them; one that breaks does not stop the others. Returns the
    exit code that matters most.
    """
    parent = play.folder_of(request)
    works = [partial(_one_of_several, kernel, parent, lambda: request, shown) for kernel in request.kernels]
    return _one_after_another(works, parent, shown)


def run_on_uplinks(request: Request, shown: Shown) -> int:
    """Measure and report what is asked for on each of several lines of a site in turn, each in an equal share of the
    deadline. Each has a run folder, and so an answer, of its own; all else is as in ``run_under``."""
    asked, parent = request.asked, play.folder_of(request)
    others = [level for level in asked.levels if level.partition("=")[0] != UPLINK]
    share_s = asked.deadline_s / len(request.uplinks) if asked.deadline_s else None

    def request_on(uplink: str) -> Request:
        return resolve(asked.with_changes(levels=[*others, f"{UPLINK}={uplink}"], deadline_s=share_s))

    works = [partial(_into_folder, UPLINK, name, parent, partial(request_on, name), shown) for name in request.uplinks]
    code = _one_after_another(works, parent, shown)
    for line in by_uplink(_written(parent).values()):
        shown.say(line)
    return code


def _one_after_another(works: Sequence[Callable[[], int]], parent: Path, shown: Shown) -> int:
    """Make the runs of a parent folder. Returns the exit code that matters most."""
    check_parent(parent)
    # One list is printed at the end.
    stdout = io.TextIOWrapper(io.BytesIO()) if shown.as_json else standard_output()
    codes = []
    with output_to(stdout):
        for work in works:
            codes.append(work())
            if codes[-1] in (2, 130):
                break
    if shown.as_json:
        reports = [from_json(read_bytes(run / "report.json")) for run in indexed_runs(parent) or ()]
        document(json.dumps(reports, indent=1) + "\n")
    else:
        shown.say(f"The runs are in {parent}. To print all reports again: vpneval report {word(parent)}")
    return together(codes)


def run_with_rest(rest: Kernel, request: Request, shown: Shown, install: bool = False) -> int:
    """Measure on the machine's own kernel; then, under ``rest``, those of the VPNs that it lacks.

    Before that everything is probed, and the user is told what will run where; ``install``: packages that ``rest``
    needs may be installed. ``--out`` is a parent folder of both runs, whose answers are told once more at the end.
    Where ``rest`` cannot be started, that is said in a line, and another kernel may take its place.
    """
    check_machine()
    second_kernel = survey(request, rest, install, shown.say)
    parent = play.folder_of(request)
    check_parent(parent)
    code = _one_of_several(None, parent, lambda: request, shown)
    lacking = lacks(parent / HOST) if code in (0, 1, NOTHING_MEASURED) else []
    if second_kernel is None or not lacking:
        return code
    shown.say(
        f"This machine's kernel lacks {', '.join(lacking)}. vpneval now measures them under {second_kernel.name}."
    )
    try:
        second_kernel.prepare(shown.say)
    except CannotRunHere as lack:
        shown.say(f"The second run is left out: {lack}")
        return code
    second = _one_of_several(second_kernel, parent, lambda: resolve(of_rest(request, lacking)), shown)
    for line in told_again(parent):
        shown.say(line)
    return together([code, second])


def told_again(parent: Path) -> list[str]:
    """The answer of the runs in a parent folder, once more, and where their pages are: the second run has pushed the
    first one's answer off the screen."""
    reports = _written(parent)
    pages = [f"Read {run / 'report.html'}" for run in reports]
    return [*closing({name_of(run): report for run, report in reports.items()}), *pages]


def _written(parent: Path) -> dict[Path, Report]:
    """The reports of the runs in a parent folder; of one that another version has written, made from the run anew."""
    found = {}
    for run in indexed_runs(parent) or ():
        if is_there(page := run / "report.json"):
            try:
                found[run] = Report.model_validate_json(read_bytes(page))
            except ValidationError:
                found[run] = report_of([run], "")
    return found


def name_of(run: Path) -> str:
    """The kernel of a run in a parent folder, in words; empty for this machine's own."""
    return "" if run.name == HOST else TITLES.get(run.name.replace("-", ":", 1), run.name)


def _one_of_several(kernel: Kernel | None, parent: Path, asked: Callable[[], Request], shown: Shown) -> int:
    """Make one run of a parent folder, under ``kernel`` (None: the machine's own). Returns its exit code."""
    name = kernel.name if kernel else HOST

    def request_under() -> Request:
        request = asked()
        return replace(request, kernels=(kernel,), asked=request.asked.with_changes(kernel=name))

    return _into_folder("kernel", name, parent, request_under, shown)


def _into_folder(what: str, name: str, parent: Path, asked: Callable[[], Request], shown: Shown) -> int:
    """Make one run of a parent folder, of the kernel or uplink ``name``, and write it into the index. Returns its exit
    code."""
    folder = no_link(parent / folder_of(name))
    shown.say(f"{what} {name}")
    add_to_index(parent, name, "running", what)
    try:
        request = asked()
        code = measure_and_report(replace(request, asked=request.asked.with_changes(out=folder)), shown)
        outcome = OUTCOMES.get(code, f"exit code {code}")
    except VpnevalError as error:
        tell(f"vpneval: {what} {name}: {error}")  # with --quiet, too
        code, outcome = error.exit_code, str(error).splitlines()[0]
    except KeyboardInterrupt:
        code, outcome = 130, OUTCOMES[130]
    add_to_index(parent, name, outcome, what)
    if code in (4, 130):
        tell(f"To continue all the runs: the same command with --out {word(parent)}")
    return code
