"""How a run ends: which measurements gave no number, and whether a VPN is left without one."""

from __future__ import annotations

from pathlib import Path

from runner.cli.asked import Asked
from runner.cli.output import err
from runner.cli.progress import levels_of
from runner.data.levels import BASELINE
from runner.data.store import load_run
from runner.report.text import counted
from runner.sweep.plan import ranked_cells


def without_number(asked: Asked, folder: Path, strict: bool) -> int:
    """Say which measurements gave no number. Returns 1 where a VPN that can run here has none in what it is ranked by,
    because they failed or because the deadline left no time for them (with ``strict``: also where any measurement gave
    none), else 0."""
    run, trials = load_run(folder)
    tried = [trial for trial in trials if trial.status != "unsupported"]
    failed = [trial for trial in tried if trial.status != "ok"]
    if failed:
        why = failed[0].reason.splitlines()[0] if failed[0].reason else "no reason was recorded"
        first = f"{failed[0].vpn} {levels_of(failed[0].params)}: {why}"
        _say(f"{len(failed)} of {counted(len(tried), 'measurement')} gave no number. The first of them: {first}")
    ranked = ranked_cells(asked.cells, {vpn.name: vpn for vpn in asked.vpns})
    lacking = ranked.keys() - {trial.cell for trial in trials if trial.status == "ok"}
    without = sorted({trial.vpn for trial in failed if trial.cell in lacking})
    if without:
        _say(
            f"These VPNs have no number in a metric of the ranking: {', '.join(without)}. "
            f"To measure the failed trials again: the same command with --out {folder} --retry-failed"
        )
    call = run.invocations[-1] if run.invocations else None
    trimmed = call is not None and call.trimmed + call.passed_over > 0
    untried = lacking - {trial.cell for trial in trials} if trimmed else set()
    left_out = sorted({cell.vpn for cell in asked.cells if cell.key in untried and cell.vpn != BASELINE})
    if left_out:
        _say(
            f"There was no time to measure a metric of the ranking for these VPNs: {', '.join(left_out)}. "
            f"To measure it: the same command with --out {folder}"
        )
    return 1 if without or left_out or (failed and strict) else 0


def _say(text: str) -> None:
    err.print(text, markup=False, highlight=False, soft_wrap=True)
