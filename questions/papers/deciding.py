"""What would decide an open conclusion of a paper: a command and its time, or the machines that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from questions.papers.findings import FindingRow
from runner.data.asked import AskedRun
from runner.data.invocation import command
from runner.data.named import HOST
from runner.papers.claims import sure
from runner.papers.findings import Finding
from runner.papers.judges import finding as named
from runner.papers.published import Conclusion
from runner.papers.scales import Basis
from runner.report.forms.markdown import literal
from runner.report.text import roughly

Rows = Sequence[tuple[str, FindingRow]]  # (the letters of the runs, what they say of a finding)
# What is asked for -> the number of trials and their seconds by ``vpneval plan``; None where it has none.
Planned = Callable[[AskedRun], tuple[int, float] | None]
UNSHARED: Mapping[Basis, str] = {
    "share": "a share of a link stands only where hosts and gateways are machines of their own",
    "time": "waiting times stand only where hosts and gateways are machines of their own",
    "programs": "what programs send and read stands only where hosts and gateways are machines of their own",
}
OWN_MACHINES = "ssh:testbed.toml"
BOUNDED = "undecided, because rates are known from below only, and these searches for them go on longer"
LONGER_SEARCHES = "thesis"  # the profile whose searches for a rate go on until a higher one fails
ONE_OF = "undecided as one of several parts, which share one error"


@dataclass(frozen=True)
class DecidingWay:
    """What decides a finding. ``why``: why no run has; ``command``: what ``vpneval run`` is asked for to decide it,
    None where no run does; ``commands``: it with its time, or those that would help, in words. ``here``: do a host and
    its guest kernels suffice?"""

    why: str
    command: AskedRun | None = None
    commands: str = ""
    here: bool = True


@dataclass(frozen=True)
class Runs:
    """The runs that the page is made from, and what new ones take. ``asked``: letter -> what it
    was asked for. ``guest_pace``: how many times as long as planned the runs in guest kernels took."""

    planned: Planned
    asked: Mapping[str, AskedRun] = field(default_factory=dict)
    guest_pace: float = 1.0

    def with_time(self, asked: AskedRun, seconds: float | None = None) -> str:
        """The command and about how long it takes: ``seconds``, or what is planned; without where that is not known."""
        if seconds is None and (expected := self.planned(asked)):
            seconds = expected[1] * (self.guest_pace if asked.kernel != HOST else 1.0)
        return _command(asked) + (f", about {roughly(seconds)}" if seconds else "")

    def like(self, run: str, asked: AskedRun, **otherwise: Any) -> AskedRun:
        """What a run was asked for (``asked``, where it is several), with this instead of its repetitions and its
        deadline."""
        return self.asked.get(run, asked).with_changes(**{"repetitions": None, "deadline_s": None} | otherwise)


def _command(asked: AskedRun) -> str:
    return f"`vpneval run {command(asked)}`"


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


def ways(conclusion: Conclusion, rows: Rows, runs: Runs) -> list[DecidingWay]:
    """What would decide those findings of a conclusion that no run decides, each way once; where some are beyond all
    runs, why these are."""
    left = undecided_of(conclusion, rows)
    beyond = {name: mine for name, mine in left.items() if is_beyond_runs(name, mine)}
    return list(dict.fromkeys(_way(name, mine, runs) for name, mine in (beyond or left).items()))


def undecided_of(conclusion: Conclusion, rows: Rows) -> dict[str, Rows]:
    """Those findings of a conclusion that no run decides, each with its rows."""
    by_finding = {name: of_finding(name, rows) for name in conclusion.by}
    return {
        name: mine
        for name, mine in by_finding.items()
        if sum(surely(mine, verdict) for verdict in ("reproduced", "not reproduced", "answered")) != 1
    }


def is_beyond_runs(name: str, mine: Rows) -> bool:
    """Can no run decide this finding, on whatever machines? So by its nature, or where its interval is over a group
    that has no more members."""
    return named(name).never or any(_is_of_members(row) for _, row in standing(mine))


def in_words(of_conclusion: Sequence[DecidingWay]) -> list[str]:
    """What decides a conclusion, a sentence without its full stop for each reason."""
    commands_of: dict[str, list[str]] = {}
    for way in of_conclusion:
        commands_of.setdefault(way.why, []).append(way.commands)
    return [f"{why}: {'; '.join(commands)}" if any(commands) else why for why, commands in commands_of.items()]


def _way(name: str, mine: Rows, runs: Runs) -> DecidingWay:
    """What would decide a finding with these rows: by its nature where no run here does, else by its nearest run."""
    declared = named(name)
    asked = declared.run or AskedRun(experiments=[declared.experiment])
    if declared.no_run:
        return DecidingWay(literal(declared.no_run), commands="; ".join(map(_command, declared.elsewhere)), here=False)
    able = standing(mine)
    if declared.basis in UNSHARED and not able:
        own = asked.with_changes(kernel=HOST, lab=OWN_MACHINES)
        return DecidingWay(UNSHARED[declared.basis], own, _command(own), here=False)
    if any(row.kind == "scale" for _, row in mine) and not able:
        return _on_a_fair_kernel(asked, runs)
    return _of_able(*able[0], asked, runs) if able else _way_to_measure(declared, mine, asked, runs)


def _on_a_fair_kernel(asked: AskedRun, runs: Runs) -> DecidingWay:
    """Where User Mode Linux alone has measured it."""
    if asked.kernel == HOST:
        return DecidingWay("not measured outside of a guest", asked, runs.with_time(asked))
    return DecidingWay("on a kernel with ESP", asked, _command(asked), here=False)


def _way_to_measure(declared: Finding, mine: Rows, asked: AskedRun, runs: Runs) -> DecidingWay:
    """Where no run has a number that could decide."""
    why = "incomparable in these runs" if any(row.value is not None for _, row in mine) else "not measured"
    here = asked.kernel in (HOST, "uml")  # QEMU would be an emulation
    return DecidingWay(why, asked, runs.with_time(asked), here)


def _is_of_members(row: FindingRow) -> bool:
    """Is its interval over the members of a group, and leaves it undecided?"""
    return row.members and row.is_undecided


def _of_able(run: str, row: FindingRow, asked: AskedRun, runs: Runs) -> DecidingWay:
    """Where a run has, or several together have, a number that could decide, and does not."""
    if _is_of_members(row):
        return DecidingWay(f"undecided, {row.needs}", here=False)
    if row.is_undecided and run not in runs.asked:  # of several runs
        return DecidingWay(f"undecided, {row.needs}", asked, runs.with_time(asked))
    if row.is_undecided:
        longer = runs.like(run, asked, repetitions=max(2, row.repetitions or 2))
        why = "undecided" if row.repetitions else f"undecided, {row.needs}"
        return DecidingWay(why, longer, runs.with_time(longer, row.needed_s))
    if row.bound:
        longer = runs.like(run, asked, profile=LONGER_SEARCHES)
        return DecidingWay(BOUNDED, longer, runs.with_time(longer))
    return DecidingWay(ONE_OF, asked, runs.with_time(asked))
