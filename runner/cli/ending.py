"""How a run ends: which measurements gave no number, and whether a VPN is left without one."""

from __future__ import annotations

from pathlib import Path

from runner.cli.asked import Asked
from runner.cli.output import err
from runner.cli.progress import levels_of
from runner.data.store import load_run
from runner.report.text import counted
from runner.sweep.plan import ranked_cells


def without_number(asked: Asked, folder: Path, strict: bool) -> int:
    """Say which measurements gave no number. Returns 1 where a VPN that can run here has none in what it is ranked by
    (with ``strict``: where any measurement gave none), else 0."""
    trials = [trial for trial in load_run(folder)[1] if trial.status != "unsupported"]
    failed = [trial for trial in trials if trial.status != "ok"]
    if not failed:
        return 0
    why = failed[0].reason.splitlines()[0] if failed[0].reason else "no reason was recorded"
    first = f"{failed[0].vpn} {levels_of(failed[0].params)}: {why}"
    _say(f"{len(failed)} of {counted(len(trials), 'measurement')} gave no number. The first of them: {first}")
    measured = {trial.cell for trial in trials if trial.status == "ok"}
    ranked = ranked_cells(asked.cells, {vpn.name: vpn for vpn in asked.vpns})
    without = sorted({trial.vpn for trial in failed if trial.cell in ranked.keys() - measured})
    if without:
        _say(
            f"These VPNs have no number in a metric of the ranking: {', '.join(without)}. "
            f"To measure the failed trials again: the same command with --out {folder} --retry-failed"
        )
    return 1 if without or strict else 0


def _say(text: str) -> None:
    err.print(text, markup=False, highlight=False, soft_wrap=True)
