"""What would decide an open conclusion of a paper: a command and its time, or the machines that it needs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner.papers.findings import Basis
from runner.papers.judges import findings_of, no_run, run_for
from runner.papers.published import Conclusion
from runner.report.papers.findings import FindingRow
from runner.report.text import roughly

Rows = Sequence[tuple[str, FindingRow]]  # (the run's letter, a finding there)
# Arguments of ``vpneval run`` -> the number of trials and their seconds by ``vpneval plan``; None where it has none.
Planned = Callable[[str], tuple[int, float] | None]
OPEN = "open: "  # how a reason begins where no experiment measures the finding
UNSHARED: Mapping[Basis, str] = {
    "share": "a share of a link stands only where hosts and gateways are machines of their own",
    "time": "waiting times stand only where hosts and gateways are machines of their own",
}
OWN_MACHINES = "--lab ssh:testbed.toml"
OTHERWISE = r" --(?:out|deadline|reps|profile) \S+| --quiet"  # what a longer run of the same command has otherwise
BOUNDED = "undecided, because rates are known from below only, and these searches for them go on longer"
LONGER_SEARCHES = "thesis"  # the profile whose searches for a rate go on until a higher one fails


@dataclass(frozen=True)
class Way:
    """What decides a finding. ``why``: why no run has; ``command``: the arguments of ``vpneval run`` that decide it,
    empty where no run does; ``told``: the command with its time. ``here``: do a host and its guest kernels suffice?"""

    why: str
    command: str = ""
    told: str = ""
    here: bool = True


@dataclass(frozen=True)
class Runs:
    """The runs that the page is made from, and what new ones take. ``commands``: letter -> the arguments of its
    command. ``guest_pace``: how many times as long as planned the runs in guest kernels took."""

    planned: Planned
    commands: Mapping[str, str] = field(default_factory=dict)
    guest_pace: float = 1.0

    def told(self, arguments: str, seconds: float | None = None) -> str:
        """The command and about how long it takes: ``seconds``, or what is planned; without where that is not known."""
        if seconds is None and (expected := self.planned(arguments)):
            seconds = expected[1] * (self.guest_pace if "--kernel " in arguments else 1.0)
        return f"`vpneval run {arguments}`" + (f" takes about {roughly(seconds)}" if seconds else "")

    def like(self, run: str, options: str) -> str:
        """The arguments of a run, with these options instead of its repetitions, profile and deadline."""
        command = self.commands[run]
        profile = "" if "--profile" in options else "".join(re.findall(r" --profile \S+", command))
        return f"{re.sub(OTHERWISE, '', command)}{profile} {options}"


def of_finding(name: str, rows: Rows) -> Rows:
    """The rows of one finding (experiment/finding), of all runs."""
    return [(run, row) for run, row in rows if f"{row.experiment}/{row.id}" == name]


def ways(conclusion: Conclusion, rows: Rows, runs: Runs) -> list[Way]:
    """What would decide those findings of a conclusion that no run decides, each way once."""
    by_finding = {name: of_finding(name, rows) for name in conclusion.by}
    left = [name for name, mine in by_finding.items() if not any(row.decided and row.stands != "no" for _, row in mine)]
    return list(dict.fromkeys(_way(name, by_finding[name], runs) for name in left))


def in_words(of_conclusion: Sequence[Way]) -> list[str]:
    """What decides a conclusion, a sentence without its full stop for each reason."""
    told: dict[str, list[str]] = {}
    for way in of_conclusion:
        told.setdefault(way.why, []).append(way.told)
    return [f"{why}: {'; '.join(commands)}" if any(commands) else why for why, commands in told.items()]


def _way(name: str, mine: Rows, runs: Runs) -> Way:
    """What would decide a finding with these rows: by its nature where no run here does, else by its nearest run."""
    experiment, finding = name.split("/")
    if reason := no_run(experiment, finding):
        return Way(reason, here=False)
    if reasons := [row.reason for _, row in mine if row.reason.startswith(OPEN)]:
        return Way(reasons[0].removeprefix(OPEN), here=False)
    (basis,) = [declared.basis for declared in findings_of(experiment) if declared.id == finding]
    standing = [(run, row) for run, row in mine if row.stands != "no" and row.value is not None]
    if basis in UNSHARED and not standing:
        command = re.sub(r" --(?:kernel|lab) \S+", "", run_for(experiment, finding)) + f" {OWN_MACHINES}"
        return Way(UNSHARED[basis], command, f"`vpneval run {command}`", here=False)
    if members := [row for _, row in standing if row.members and row.undecided]:
        return Way(f"undecided, {members[0].needs}", here=False)
    if undecided := [(run, row) for run, row in standing if row.undecided]:
        run, row = min(undecided, key=lambda item: item[1].needed_s or math.inf)
        command = runs.like(run, f"--reps {max(2, row.repetitions or 2)}")
        why = "undecided" if row.repetitions else f"undecided, {row.needs}"
        return Way(why, command, runs.told(command, row.needed_s))
    if bounded := [(run, row) for run, row in standing if row.bound]:
        run, _ = min(bounded, key=lambda item: (item[1].high or math.inf) / (item[1].low or 1))  # the narrowest
        command = runs.like(run, f"--profile {LONGER_SEARCHES}")
        return Way(BOUNDED, command, runs.told(command))
    command = run_for(experiment, finding)
    why = "incomparable in these runs" if standing else "not measured"
    return Way(why, command, runs.told(command))
