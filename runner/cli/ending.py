"""How a run ends: its report, what was left out, and whether a VPN is left without a number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.catalogue import load_run
from runner.cli import reading
from runner.cli.compared import code_of, judge, show
from runner.cli.live import levels_of, watching
from runner.cli.options import Shown, tell
from runner.cli.output import err, out
from runner.data.errors import UsageError
from runner.data.files import word
from runner.data.levels import BASELINE
from runner.data.streams import document
from runner.data.trials import Trial
from runner.design.question import Evidence
from runner.report.text import count_noun
from runner.stages.guests import Ended
from runner.stages.play import folder_of, play
from runner.sweep.plan import ranked_cells
from runner.sweep.request import Request
from runner.sweep.settings import Outcome
from runner.sweep.supported import lost_levels

NOTHING_MEASURED = 5


def measure_and_report(request: Request, shown: Shown) -> int:
    """Measure what is asked for, and report it. Returns the exit code of the command."""
    folder = folder_of(request)
    try:
        outcome = play(request, folder, shown.say, watching(err, shown.quiet, request.weights), shown.quiet)
    except Ended as there:
        return there.exit_code
    return report_on(request, folder, outcome, shown)


def report_on(request: Request, folder: Path, outcome: Outcome, shown: Shown) -> int:
    """Print the report of what was measured, and say what was left out. Returns the exit code of the command."""
    from runner.report.forms.tables import json_text
    from runner.report.forms.terminal import render as render_terminal
    from runner.report.forms.write import write_reports

    lacks = False
    try:
        report = reading.report_of([folder], request.asked.weights, question=request.asked.question)
    except UsageError as wrong:  # what the weights count was to be measured, and was not
        report, lacks = reading.report_of([folder], "", question=request.asked.question), True
        tell(f"vpneval: {wrong}; the report uses the default weights instead")
    try:
        write_reports(folder, report)
    except OSError as error:
        outcome.stopped = outcome.stopped or f"the report cannot be written: {error}"
    if shown.as_json:
        document(json_text(report) + "\n")
    elif not shown.quiet and (shown.full or not request.asked.builds):
        render_terminal(report, out, full=shown.full, folder=folder)
    if outcome.separation and not shown.quiet:
        err.print(f"--until-significant: {outcome.separation}", highlight=False, soft_wrap=True)
    if outcome.passed_over and not shown.quiet:
        err.print(
            f"{outcome.passed_over} of the planned trials were left out because what they decide was decided before, "
            "or needed more time than was left.",
            soft_wrap=True,
        )
    if outcome.trimmed and not shown.quiet:
        err.print(
            f"The {'deadline' if request.asked.deadline_s else 'end of the hours'} was reached, and {outcome.trimmed} "
            f"trials were left out. To measure them: the same command with --out {word(folder)}",
            soft_wrap=True,
        )
    if outcome.stopped:
        err.print(f"vpneval: stopped: {outcome.stopped}", soft_wrap=True)
        tell(f"What was measured is safe. To continue, give the same command with --out {word(folder)}")
        return 4
    if outcome.trimmed and not report.trials["ok"]:
        tell("Nothing could be measured before the deadline. Give the run more time.")
        lacks = True
    code = max(int(lacks), without_number(request, folder, shown.strict))
    return _of_builds(folder, shown, code) if request.asked.builds else code


def _of_builds(folder: Path, shown: Shown, code: int) -> int:
    """Print what the run says of its builds. Returns the exit code of the comparison, or ``code`` where the run has
    another one."""
    judged = judge(Evidence(*load_run(folder)), "")
    if not shown.as_json and not shown.quiet:
        show(judged, "term")
        tell(f"The run is in {folder}. For a pull request: vpneval compare {word(folder)} --format md")
    return code or code_of(judged)


def without_number(request: Request, folder: Path, strict: bool) -> int:
    """Print which trials gave no number. Returns 1 where a VPN that can run here has no number in a metric that
    ranks it because its trials failed, or no number at all because the deadline left no time (with ``strict``: also
    where any other trial gave none, or no time was left for one that ranks), NOTHING_MEASURED where no VPN gave a
    number, or none can run at a level that was asked for, else 0. That a VPN is slow is a result, and so is what the
    deadline leaves of it."""
    run, trials = load_run(folder)
    tried = [trial for trial in trials if trial.status != "unsupported"]
    failed = [trial for trial in tried if trial.status != "ok"]
    if failed:
        why = failed[0].reason.splitlines()[0] if failed[0].reason else "no reason was recorded"
        first = f"{failed[0].vpn} {levels_of(failed[0].params)}: {why}"
        tell(f"{len(failed)} of {count_noun(len(tried), 'trial')} gave no number. The first of them: {first}")
    ranked = ranked_cells(request.cells, {vpn.name: vpn for vpn in request.vpns})
    lacking = ranked.keys() - {trial.cell for trial in trials if trial.status == "ok"}
    broken = [trial for trial in failed if not _too_slow(trial)]
    without = sorted({trial.vpn for trial in broken if trial.cell in lacking})
    if without:
        tell(
            f"These VPNs have no number in a metric of the ranking: {', '.join(without)}. "
            f"To measure the failed trials again: the same command with --out {word(folder)} --retry-failed"
        )
    call = run.invocations[-1] if run.invocations else None
    trimmed = call is not None and call.trimmed + call.passed_over > 0
    untried = lacking - {trial.cell for trial in trials} if trimmed else set()
    left_out = sorted({cell.vpn for cell in request.cells if cell.key in untried and cell.vpn != BASELINE})
    if left_out:
        tell(
            f"There was no time to measure a metric of the ranking for these VPNs: {', '.join(left_out)}. "
            f"To measure it: the same command with --out {word(folder)}"
        )
    measured = {trial.vpn for trial in trials if trial.status == "ok" or _too_slow(trial)}
    if without or {*left_out} - measured or (strict and (broken or left_out)):
        return 1
    asked = {vpn.name for vpn in request.vpns} - {BASELINE}
    refused = {trial.cell for trial in trials if trial.status == "unsupported"}
    if lost := lost_levels(request.chosen, request.cells, refused):
        tell(f"No VPN has a number with {', '.join(lost)}. The report has the reasons: vpneval report {word(folder)}")
    elif not asked or asked & measured:
        return 0
    else:
        tell("Nothing was measured: no VPN that was asked for can run here. The reasons stand in the report.")
    return NOTHING_MEASURED


def _too_slow(trial: Trial) -> bool:
    """Did a search end without a number because the tunnel, which stood all the time, lost too much at every rate that
    was tried: even at the lowest, or until the time was over?"""
    stood = not trial.attempt.get("breakdowns_bps") and not any(it.kind == "no payload" for it in trial.remarks)
    return stood and not {"no_throughput", "unconfirmed"}.isdisjoint(trial.attempt.get("flags", []))


def together(codes: Sequence[int]) -> int:
    """The exit code of several runs: the worst one. That one of them measured nothing is no failure of the others."""
    return max([code for code in codes if code != NOTHING_MEASURED] or codes)
