"""What would decide an open conclusion of a paper: a command and its time, or the machines that it needs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from runner.papers.claims import sure
from runner.papers.findings import Finding
from runner.papers.judges import finding as named
from runner.papers.published import Conclusion
from runner.papers.scales import Basis
from runner.report.papers.findings import FindingRow
from runner.report.text import roughly

Rows = Sequence[tuple[str, FindingRow]]  # (the run's letter, a finding there)
# Arguments of ``vpneval run`` -> the number of trials and their seconds by ``vpneval plan``; None where it has none.
Planned = Callable[[str], tuple[int, float] | None]
UNSHARED: Mapping[Basis, str] = {
    "share": "a share of a link stands only where hosts and gateways are machines of their own",
    "time": "waiting times stand only where hosts and gateways are machines of their own",
}
OWN_MACHINES = ("--lab", "ssh:testbed.toml")
GUESTS = ("--kernel", "--lab")
OTHERWISE = ("--out", "--deadline", "--reps", "--profile")  # what a longer run of the same command has otherwise
BOUNDED = "undecided, because rates are known from below only, and these searches for them go on longer"
LONGER_SEARCHES = "thesis"  # the profile whose searches for a rate go on until a higher one fails
ONE_OF = "undecided as one of several runs and parts, which share one error"
DISAGREE = "runs disagree"


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
            seconds = expected[1] * (self.guest_pace if "--kernel" in shlex.split(arguments) else 1.0)
        return f"`vpneval run {arguments}`" + (f", about {roughly(seconds)}" if seconds else "")

    def like(self, run: str, option: str, value: str) -> str:
        """The arguments of a run, with this option instead of its repetitions, profile and deadline."""
        command = shlex.split(self.commands[run])
        kept = [] if option == "--profile" or "--profile" not in command else option_of(command, "--profile")
        return shlex.join([*without(command, OTHERWISE), *kept, option, value])


def without(command: Sequence[str], options: Collection[str], flags: Collection[str] = ("--quiet",)) -> list[str]:
    """An argument list without these options, their values, and these flags."""
    kept, skip = [], False
    for word in command:
        if not skip and word not in options and word not in flags:
            kept.append(word)
        skip = not skip and word in options
    return kept


def option_of(command: Sequence[str], option: str) -> list[str]:
    """An option of an argument list, with its value."""
    at = command.index(option)
    return [*command[at : at + 2]]


def of_finding(name: str, rows: Rows) -> Rows:
    """The rows of one finding (experiment/finding), of all runs."""
    return [(run, row) for run, row in rows if f"{row.experiment}/{row.id}" == name]


def standing(rows: Rows) -> Rows:
    """Those rows with a number that stands on its run's machines, and can be compared with the paper's."""
    return [
        (run, row)
        for run, row in rows
        if row.stands != "no" and row.value is not None and row.verdict not in ("incomparable", "unmeasured")
    ]


def surely(rows: Rows, verdict: str, among: int = 0) -> bool:
    """Has one of these rows this verdict, as one of so many (0: as these are) that share one error?"""
    mine = standing(rows)
    return any(row.verdict == verdict and sure(row.chance, among or len(mine)) for _, row in mine)


def ways(conclusion: Conclusion, rows: Rows, runs: Runs) -> list[Way]:
    """What would decide those findings of a conclusion that no run decides, each way once."""
    by_finding = {name: of_finding(name, rows) for name in conclusion.by}
    left = [
        name
        for name, mine in by_finding.items()
        if sum(surely(mine, verdict) for verdict in ("reproduced", "not reproduced", "answered")) != 1
    ]
    return list(dict.fromkeys(_way(name, by_finding[name], runs) for name in left))


def in_words(of_conclusion: Sequence[Way]) -> list[str]:
    """What decides a conclusion, a sentence without its full stop for each reason."""
    commands_of: dict[str, list[str]] = {}
    for way in of_conclusion:
        commands_of.setdefault(way.why, []).append(way.told)
    return [f"{why}: {'; '.join(commands)}" if any(commands) else why for why, commands in commands_of.items()]


def _way(name: str, mine: Rows, runs: Runs) -> Way:
    """What would decide a finding with these rows: by its nature where no run here does, else by its nearest run."""
    experiment, declared = named(name)
    command = declared.run or experiment
    if declared.no_run:
        return Way(declared.no_run, here=False)
    able = standing(mine)
    if declared.basis in UNSHARED and not able:
        own = shlex.join([*without(shlex.split(command), GUESTS), *OWN_MACHINES])
        return Way(UNSHARED[declared.basis], own, f"`vpneval run {own}`", here=False)
    if any(row.kind == "scale" for _, row in mine) and not able:
        return _on_a_fair_kernel(command, runs)
    return _of_able(able, command, runs) if able else _unmeasured(declared, mine, command, runs)


def _on_a_fair_kernel(command: str, runs: Runs) -> Way:
    """Where User Mode Linux alone has measured it."""
    if "--kernel" not in shlex.split(command):
        return Way("not measured outside of a guest", command, runs.told(command))
    return Way("on a kernel with ESP", command, f"`vpneval run {command}`", here=False)


def _unmeasured(declared: Finding, mine: Rows, command: str, runs: Runs) -> Way:
    """Where no run has a number that could decide."""
    why = "incomparable in these runs" if any(row.value is not None for _, row in mine) else "not measured"
    words = shlex.split(command)
    emulated = "--kernel" in words and option_of(words, "--kernel")[1].startswith("qemu")
    return Way(why, command, runs.told(command), here=not emulated)


def _of_able(able: Rows, command: str, runs: Runs) -> Way:
    """Where runs have numbers that could decide, and do not."""
    if surely(able, "reproduced") and surely(able, "not reproduced"):
        return Way(DISAGREE, command, runs.told(command))
    if members := [row for _, row in able if row.members and row.undecided]:
        return Way(f"undecided, {members[0].needs}", here=False)
    if undecided := [(run, row) for run, row in able if row.undecided]:
        run, row = min(undecided, key=lambda item: item[1].needed_s or math.inf)
        longer = runs.like(run, "--reps", f"{max(2, row.repetitions or 2)}")
        return Way(
            "undecided" if row.repetitions else f"undecided, {row.needs}", longer, runs.told(longer, row.needed_s)
        )
    if bounded := [(run, row) for run, row in able if row.bound]:
        run, _ = min(bounded, key=lambda item: (item[1].high or math.inf) / (item[1].low or 1))  # the narrowest
        longer = runs.like(run, "--profile", LONGER_SEARCHES)
        return Way(BOUNDED, longer, runs.told(longer))
    return Way(ONE_OF, command, runs.told(command))
