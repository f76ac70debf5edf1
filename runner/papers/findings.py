"""What a paper found, put to the test of a run: a claim as a number with bounds, and a verdict with its reason.

A finding is a row of results/published/ (runner/papers/rows.py). Its ``judge`` is a pure function of the run's data.
The number that it judges is a ratio of two systems, a share, or a time that a timer sets, never an absolute rate: the
papers' machines were others.

A verdict belongs to one data plane: the paper's own system decides it, and what another plane of the same protocol
measured is shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Literal, Self

from pydantic import Field, field_validator

from runner.data.asked import AskedRun
from runner.data.kinds import Line, Name, Strict
from runner.data.levels import VARIANTS, WAN_FACTORS
from runner.data.numbers import lead
from runner.data.trials import Run, Trial
from runner.evidence.estimates import RoundValues
from runner.evidence.stats import block_values, lower_bounds
from runner.papers.published import paper
from runner.papers.scales import COSTS, NO_SCALE, Basis, one_scale

# Undecided: measured, and the interval, or a bound from one side, reaches across the claim's bound. Unmeasured: the run
# lacks what the claim needs. Incomparable: measured, but the two studies cannot be compared in this.
Verdict = Literal["reproduced", "not reproduced", "answered", "undecided", "unmeasured", "incomparable"]
DECIDED: tuple[Verdict, ...] = ("reproduced", "not reproduced", "answered")
# Why there is no verdict, where something else than an interval is the reason: the run's kernel is no scale for these
# systems; each had a crypto driver of its own; the paper's CPUs had instructions that this kernel does not use; several
# parts share one error; other programs had too much of the machine; this project chose a level, or measures another
# thing, so that nothing can be compared.
Kind = Literal["", "scale", "drivers", "instructions", "shared", "busy", "unlike"]
Answer = Literal["", "yes", "no"]
Blocks = Mapping[int, float]  # block -> value
Ends = tuple[float, float]  # of a range or an interval, the lower first
Open = tuple[bool, bool]  # may the truth be lower than the value, may it be higher?
BOUNDS: Mapping[Open, Literal["", "≥", "≤", "?"]] = {
    (False, False): "",
    (False, True): "≥",
    (True, False): "≤",
    (True, True): "?",
}
FIRST_ROUNDS = 2  # of a tunnel, in which it carried 5 to 98 of some 500 Mbit/s
# Factors that a cell must not have, unless they are asked for.
ELSEWHERE = (*WAN_FACTORS, *VARIANTS, "image", "fragmentation")


class Bound(float):
    """A positive value that is known from one side only, as the rate of a search that ended before a higher one failed.
    A sum, a difference and a quotient with it know on which side they are open."""

    may: Open

    def __new__(cls, value: float, may: Open) -> Self:
        """The value, and whether the truth may be lower, or higher."""
        made = super().__new__(cls, value)
        made.may = may
        return made

    def __add__(self, other: float) -> Bound:
        return Bound(float(self) + float(other), open_ends([self, other]))

    __radd__ = __add__

    def __sub__(self, other: float) -> Bound:
        return Bound(float(self) - float(other), open_ends([self], [other]))

    def __rsub__(self, other: float) -> Bound:
        return Bound(float(other) - float(self), open_ends([other], [self]))

    def __truediv__(self, other: float) -> Bound:
        return Bound(float(self) / float(other), open_ends([self], [other]))

    def __rtruediv__(self, other: float) -> Bound:
        return Bound(float(other) / float(self), open_ends([other], [self]))


def open_ends(values: Iterable[float], divisors: Iterable[float] = ()) -> Open:
    """May a number made of these be lower in truth, and may it be higher? It rises with ``values`` and falls with
    ``divisors``."""
    rising = [value.may for value in values if isinstance(value, Bound)]
    falling = [value.may for value in divisors if isinstance(value, Bound)]
    lower = any(low for low, _ in rising) or any(high for _, high in falling)
    higher = any(high for _, high in rising) or any(low for low, _ in falling)
    return lower, higher


def ahead(a: float, b: float) -> bool | None:
    """Is ``a`` above ``b``? None where what is known of them from one side does not tell."""
    lower, higher = open_ends([a], [b])
    above = lead(a, b) > 0
    return None if (lower if above else higher) else above


class Judgement(Strict):
    """A verdict and its reason. ``value`` with ``low`` and ``high``: what was measured, and its 95 % interval; None
    where nothing could be. ``published``: the paper's own number, where its text has one, ``published_range`` where
    the text has two ends. All are ratios of 1, or times in ``unit``.

    ``systems``: the plugins whose measurements the verdict was made from, or what was measured without a plugin, in
    words. ``beside``: what was measured of another data plane of the same protocol, and has no say in the verdict.
    ``longer``: where its interval leaves it undecided, how many times as much measuring would decide, as an estimate.
    ``bound``: the value is known from below only (≥), from above only (≤), or from neither side (?).
    ``part``: of a claim with several parts, the one whose number this is. ``note``: what a reader of the number has to
    know, whatever the verdict. ``members``: the interval is over the VPNs of
    a group, and more repetitions do not narrow it. ``chance``: of a verdict, how likely an interval is to show it
    wrongly (a two-sided p value against the claim's bound), by which several parts or runs share one error. ``kind``:
    why there is no verdict. ``short``: the reason in fewer words, where it has many; ``summary``: of a claim with
    several parts, what each came to. ``answer``: of a question.

    What runs are pooled by (runner/papers/pooling.py): ``between``: the claim's two bounds; ``tried``: how many of how
    many tries the share is; ``parts``: the judgements that one with several parts is made from; ``opposed``: is it the
    opposite of the claim that they were judged by? ``apart``: it is pooled of runs that differ.
    """

    verdict: Verdict
    reason: str
    kind: Kind = ""
    short: str = ""
    summary: str = ""
    answer: Answer = ""
    chance: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    published: float | None = None
    published_range: tuple[float, float] | None = None
    unit: Literal["", "s"] = ""
    systems: list[str] = []
    beside: str = ""
    longer: float | None = None
    bound: Literal["", "≥", "≤", "?"] = ""
    part: str = ""
    note: str = ""
    members: bool = False
    between: Ends | None = Field(default=None, exclude=True)
    tried: tuple[int, int] | None = Field(default=None, exclude=True)
    parts: dict[str, Judgement] = Field(default={}, exclude=True)
    opposed: bool = Field(default=False, exclude=True)
    apart: bool = Field(default=False, exclude=True)

    def with_systems(self, *systems: str) -> Judgement:
        """The same, made from the measurements of these plugins."""
        return self.model_copy(update={"systems": list(dict.fromkeys(systems))})

    @property
    def number(self) -> str:
        """The value with its interval and unit as text; empty where there is none. Where every repetition has the same
        value, that is said: it is no interval."""
        if self.value is None:
            return ""
        interval = "no interval" if self.low is None or self.high is None else f"{self.low:.3g}–{self.high:.3g}"
        if self.low == self.high == self.value:
            interval = "each time"
        return f"{self.bound} {self.value:.3g} ({interval}) {self.unit}".strip()


class NotMeasured(Exception):
    """The run has nothing to judge a finding by; the text says what is missing, and why, ``short`` in fewer words."""

    def __init__(self, reason: str, short: str = "") -> None:
        super().__init__(reason)
        self.short = short

    @property
    def judgement(self) -> Judgement:
        """No verdict, for this reason."""
        return Judgement(verdict="unmeasured", reason=str(self), short=self.short)


class Finding(Strict):
    """What ``paper`` (one of results/published/, or a folder) found at ``where``, and how a run is judged by it.

    ``experiment``: whose data judges it. ``basis``: what its number is made from, which says on what machines a verdict
    stands. ``question``: the paper asks this, or this project does, and nobody claimed it: it gets an answer, not a
    verdict. ``counts``: what its number is, a sentence with ``{}`` for the number; ``counts_of``: the same where a part
    of the claim decides, by the part. ``run``: what a run is asked for that decides it, None where its experiment's
    name is enough; ``no_run``: why no single run does, ``never``: on no machines at all, and ``elsewhere``: what others
    are asked for, on machines of that kind. ``today``: why it is not reproduced today, by the part that decides, or,
    under "", whichever does.
    """

    id: Name
    experiment: Name
    paper: Line
    where: Line = Field(min_length=2)
    found: Line = Field(min_length=3)
    basis: Basis = "ratio"
    question: bool = False
    counts: Line
    counts_of: dict[Line, Line] = {}
    run: AskedRun | None = None
    no_run: Line = ""
    never: bool = False
    elsewhere: list[AskedRun] = []
    today: dict[Line, Line] = {}

    @property
    def citation(self) -> str:
        """The paper's title and the place in it."""
        return f"{paper(self.paper).title}, {self.where}"

    @field_validator("counts", "counts_of")
    @classmethod
    def _one_place(cls, counts: str | dict[str, str]) -> str | dict[str, str]:
        for words in [counts] if isinstance(counts, str) else counts.values():
            if words.count("{}") != 1 or words == "{}":
                raise ValueError(f"{words!r}: write a sentence with one {{}} for the number")
        return counts

    def judge(self, data: Data) -> Judgement:
        """The verdict on a run's data."""
        raise NotImplementedError


@dataclass(frozen=True)
class Data:
    """The trials of one experiment of a run, and what the number that is made from them is."""

    run: Run
    trials: Sequence[Trial]
    basis: Basis = "ratio"

    def check_scale(self, judgement: Judgement, *systems: str) -> Judgement:
        """The judgement, made from measurements of these systems, which are set against each other: without a verdict
        where the run's kernel is no scale for them (runner/papers/scales.py)."""
        judged = judgement.with_systems(*systems)
        if self.basis not in COSTS or one_scale(self.run, judged.systems):
            return judged
        return judged.model_copy(
            update={"verdict": "incomparable", "kind": "scale", "reason": NO_SCALE, "longer": None, "chance": None}
        )

    def vpns(self, metric: str = "") -> list[str]:
        """The VPNs with an ok trial (of ``metric``), in the run's order."""
        measured = {
            trial.vpn
            for trial in self.trials
            if trial.status == "ok" and (not metric or any(m.metric == metric for m in trial.measurements))
        }
        return [name for name in self.run.vpns if name in measured]

    def levels(self, factor: str, vpn: str = "") -> list[str]:
        """The levels of ``factor`` that were measured (by ``vpn``), in the order of the trials."""
        ok = [trial for trial in self.trials if trial.status == "ok" and vpn in ("", trial.vpn)]
        return list(dict.fromkeys(trial.params[factor] for trial in ok if factor in trial.params))

    def with_driver(self, driver: str) -> Data:
        """The trials by one crypto driver, as if no other were known, and those of what encrypts nothing."""
        trials = []
        driven = [_but_driver(trial) for trial in self.trials if "driver" in trial.params]
        for trial in self.trials:
            if trial.params.get("driver") == driver:
                trials.append(trial.model_copy(update={"params": _but_driver(trial)[1]}))
            elif self.run.vpns[trial.vpn].reference and _but_driver(trial) not in driven:
                trials.append(trial)
        return replace(self, trials=trials)

    def matching(self, vpn: str, levels: Mapping[str, str]) -> list[Trial]:
        """The VPN's trials at these levels; a reference VPN has no tunnel levels to match."""
        reference = vpn in self.run.vpns and self.run.vpns[vpn].reference
        tunnel = ("cipher", "integrity", "compression")
        wanted = {factor: level for factor, level in levels.items() if not (reference and factor in tunnel)}
        return [
            trial
            for trial in self.trials
            if trial.vpn == vpn
            and wanted.items() <= trial.params.items()
            and all(factor in wanted for factor in ELSEWHERE if factor in trial.params)
        ]

    def blocks(self, metric: str, vpn: str, **levels: str) -> dict[int, float]:
        """Block -> value of the one cell at these levels, a Bound where it is known from below only. Raises
        NotMeasured, with the trials' own reason."""
        trials = self.matching(vpn, levels)
        values = block_values(trials, metric)
        if not values:
            reason = next((trial.reason.splitlines()[0] for trial in trials if trial.reason), "not in this run")
            what = ", ".join(level for level in levels.values())
            raise NotMeasured(f"{vpn} has no {metric} at {what}: {reason}", reason)
        cells = {trial.cell for trial in trials if trial.status == "ok"}
        if len(cells) > 1:
            raise NotMeasured(
                f"{vpn} has {len(cells)} different trials of {metric} at these levels; name one of {_differing(trials)}"
            )
        for block in lower_bounds(trials, metric) & values.keys():
            values[block] = Bound(values[block], (False, True))
        return drop_first_rounds(values)


def _differing(trials: Sequence[Trial]) -> str:
    """The levels in which these trials differ."""
    ok = [trial.params.items() for trial in trials if trial.status == "ok"]
    some = {level for levels in ok for level in levels}
    return ", ".join("=".join(level) for level in sorted(some) if not all(level in levels for levels in ok))


def drop_first_rounds(values: dict[int, float]) -> dict[int, float]:
    """The values without the first rounds of each tunnel that was brought up: TCP's window and the daemon's buffers
    are still small, and a few such slices decide a mean. A tunnel with hardly more rounds keeps them all."""
    if not isinstance(values, RoundValues):
        return values
    kept: dict[int, float] = {}
    for instance in dict.fromkeys(values.instances[block] for block in values):
        mine = [block for block in sorted(values) if values.instances[block] == instance]
        kept |= {block: values[block] for block in mine[FIRST_ROUNDS if len(mine) > 2 * FIRST_ROUNDS else 0 :]}
    instances = {block: values.instances[block] for block in kept}
    return RoundValues(kept, instances, values.machines, values.search_error)


def by_repetition(values: Blocks) -> Blocks:
    """Repetition -> the geometric mean of its rounds; what was measured once in each stays as it is."""
    if not isinstance(values, RoundValues):
        return values
    rounds: dict[int, list[float]] = {}
    for number, value in values.items():
        rounds.setdefault(values.instances[number], []).append(float(value))
    return {repetition: geometric_mean(own) for repetition, own in rounds.items()}


def _but_driver(trial: Trial) -> tuple[str, dict[str, str]]:
    """The trial's VPN, and its levels without that of the driver."""
    return trial.vpn, {factor: level for factor, level in trial.params.items() if factor != "driver"}


def judge(finding: Finding, run: Run, trials: Sequence[Trial]) -> Judgement:
    """The finding's verdict on the trials of its experiment; a question's answer. What is missing leaves it
    unmeasured."""
    try:
        return answer(finding, finding.judge(Data(run, trials, finding.basis)))
    except NotMeasured as missing:
        return missing.judgement


def answer(finding: Finding, judgement: Judgement) -> Judgement:
    """The judgement as it is; of a question, the answer that it gives."""
    if not finding.question or judgement.verdict not in DECIDED:
        return judgement
    yes = "yes" if judgement.verdict == "reproduced" else "no"
    return judgement.model_copy(update={"verdict": "answered", "answer": yes, "reason": f"{yes}: {judgement.reason}"})


def trials_of(run: Run, trials: Sequence[Trial], experiment: str) -> list[Trial]:
    """The trials that belong to an experiment: by its cells, or by their own word."""
    keys = {cell.key for record in run.experiments if record.name == experiment for cell in record.cells}
    return [trial for trial in trials if experiment in trial.experiments or (keys and trial.cell in keys)]
