"""What the story (story.sh, two_sites.py) left in its folder: exit codes, what was said, trials."""

import os
from pathlib import Path

from runner.data.store import load_run
from runner.data.trials import Trial

KILLS = int(os.environ.get("VPNEVAL_KILLS", "6"))  # between the two sites: of each VPN, the runner and a connection
# 41 minutes were measured on two busy cores, and 9 more for the two sites; then come the kills and the reboots.
WITHIN_S = 5400.0 + (3600.0 + 300.0 * KILLS if os.environ.get("SITES") else 0.0)
LAST_LINES = 25


def phase(results: Path, name: str) -> int:
    """The exit code of a phase of the story."""
    lines = [line.split() for line in (results / "phases").read_text().splitlines()]
    return next(int(words[3]) for words in lines if words[:2] == ["phase", name])


def said(results: Path, name: str) -> str:
    """What the phase wrote on its standard output and its standard error."""
    return (results / f"{name}.out").read_text() + (results / f"{name}.err").read_text()


def why(run: Path, trial: Trial) -> str:
    """A trial's reason, and the last that each of its daemons, and vpneval itself, did on each machine."""
    lines = [f"{trial.vpn}: {trial.status}: {trial.reason}"]
    for log in sorted((run / trial.log).glob("*.log")) if trial.log else ():
        lines += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-LAST_LINES:]]
    return "\n".join(lines)


def trials(run: Path, experiment: str) -> dict[str, Trial]:
    """The experiment's trials by VPN: one level and one repetition each."""
    about, all_trials = load_run(run)
    (record,) = [record for record in about.experiments if record.name == experiment]
    keys = {cell.key for cell in record.cells}
    return {trial.vpn: trial for trial in all_trials if trial.cell in keys}
