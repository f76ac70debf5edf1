"""Did it get slower? A comparison of two runs, before and after, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import scipy
from pydantic import Field

from runner.data.checks import check
from runner.data.levels import UPLINK, beside_plain_ip, outside_of_tunnel
from runner.data.merge import identity, merge_metrics, same_estimands
from runner.data.metric import Metric
from runner.data.numbers import exp
from runner.data.trials import Run, Strict, Trial, cell_key
from runner.evidence.estimates import Blocks, Estimate, RoundValues, alone, independent
from runner.evidence.stats import Ratio, Summary, block_values, compare_independent, lower_bounds, ratio_of, summarise
from runner.ranking.agreement import Agreement, agreement
from runner.ranking.verdicts import Decision, Tested, held, level_of, probabilities
from runner.report import text
from runner.report.facts import BASELINE
from runner.report.kinds import Whole, shared_kinds

Verdict = Literal["regression", "improvement", "no difference", "not separable", "not judged", "now failing"]
Outcome = Literal["worse", "fine", "cannot tell", "nothing measured"]
VERDICTS: Mapping[Decision, Verdict] = {
    "worse": "regression",
    "better": "improvement",
    "same": "no difference",
    "undecided": "not separable",
}
COUNTED: tuple[Verdict, ...] = ("no difference", "not separable", "not judged")  # these are only counted, others shown
SIGNIFICANCE = 0.05
LARGEST = 50.0  # of a logarithm: beyond, it is only known to be huge
SEEN = 0.8  # of the runs in which a difference as large as ``visible`` would be found
MACHINE = ("lab cpu", "lab cores", "lab guest", "lab kind")  # where one differs, absolute values do, too


class MetricChange(Strict):
    """One metric of one cell. ``ratio`` is after over before: of the shares of each run's own baseline where
    ``of_baseline``, else of the values; ``adjusted_p`` is the p-value of no change among all that are judged
    (Benjamini–Hochberg), None where there is no test. ``verdict``: worse or better by more than the ``margin``, the
    same up to it, or neither is known. ``visible``: the smallest ratio above 1 that would be found in SEEN of such
    runs. Summaries are of the values, in ``unit``; ``bounded`` tells whose value is a lower bound."""

    vpn: str
    levels: str
    metric: str
    title: str
    short: str = Field(default="", exclude=True)
    unit: str
    better: Literal["higher", "lower"]
    reference: bool
    before: Summary
    after: Summary | None
    ratio: Ratio | None
    of_baseline: bool
    bounded: list[Literal["before", "after"]]
    margin: float
    adjusted_p: float | None = None
    visible: float | None = None
    verdict: Verdict
    reason: str = ""


class Comparison(Strict):
    """Two runs. ``outcome``: some ranked VPN is worse, or fails where it did not; or none is (``fine``); or not one
    measurement is decided; or they share none. References (plain IP) do not count, their change is the machine's.
    ``differences``: how the runs' labs differ. ``smallest``, ``largest``: of what is ``visible`` in the measurements
    that count.
    ``agreement``: whether both rank the VPNs alike. ``machines``: the kind of machine that this is about, where a run
    has several. ``turns``: these are two builds of one VPN, which took turns in one run."""

    before: str
    after: str
    differences: list[str]
    changes: list[MetricChange]
    only_before: list[str]
    only_after: list[str]
    outcome: Outcome
    smallest: float | None = None
    largest: float | None = None
    agreement: list[Agreement] = []
    machines: str = ""
    turns: bool = False


def compare_kinds(before: Whole, after: Whole) -> list[Comparison]:
    """Compare two runs on each kind of machine that both have, with `compare_runs`. The machines that only one run has
    are named among the cells that only this run has.

    Raises UsageError where they have no kind in common, and as `compare_runs` does."""
    shared = shared_kinds(before, after)
    comparisons = [(kind, compare_runs(ours, theirs)) for kind, ours, theirs in shared]
    only_before = _left_out(before[0], [ours[0] for _, ours, _ in shared])
    only_after = _left_out(after[0], [theirs[0] for _, _, theirs in shared])
    return [
        made.model_copy(
            update={
                "machines": kind,
                "only_before": made.only_before + only_before,
                "only_after": made.only_after + only_after,
            }
        )
        for kind, made in comparisons
    ]


def _left_out(run: Run, kinds: Sequence[Run]) -> list[str]:
    """The machines of the run that are in none of these parts of it, as a phrase; empty where there are none."""
    names = [name for name in run.machines if not any(name in kind.machines for kind in kinds)]
    return [f"the machines {', '.join(names)}"] if names else []


def compare_runs(before: tuple[Run, Sequence[Trial]], after: tuple[Run, Sequence[Trial]]) -> Comparison:
    """Compare every cell and metric that both runs measured. Worse or better is what differs significantly, by more
    than the metric's margin: by Welch's t-test on logarithms, whose p-values are adjusted for the number of
    comparisons. Without this adjustment, a hundred equal cells would give five false alarms in every run of the CI.

    Where both runs have a baseline of the same traffic, the shares of each run's own baseline are compared, block by
    block: on a day when the whole machine is slower, the baseline is slower too, and this cancels out. Where the runs
    are of different machines, or the baselines themselves have changed, only such shares are judged.

    Raises UsageError where a metric means different things in the two runs."""
    (run_a, trials_a), (run_b, trials_b) = before, after
    check(*before)
    check(*after)
    metrics = merge_metrics([run_a, run_b])
    same_estimands([before, after])
    cells_a, cells_b = _by_cell(trials_a), _by_cell(trials_b)
    tests: list[_Test] = []
    for key, old in cells_a.items():
        for metric in metrics.values():
            if key in cells_b and block_values(old, metric.name):
                sides = _Side(old, trials_a, metric), _Side(cells_b[key], trials_b, metric)
                tests.append(_Test(metric, *_change(run_b, old[0], metric, *sides)))
    ours, theirs = identity(run_a), identity(run_b)
    differences = {name: f"{name}: {value} → {theirs[name]}" for name, value in ours.items() if theirs[name] != value}
    changes = _judged(tests, other_machine=any(name in differences for name in MACHINE))
    made = comparison_of(run_a.run_id, run_b.run_id, changes)
    return made.model_copy(
        update={
            "differences": [*differences.values()],
            "only_before": sorted({_cell_title(cells_a[key][0]) for key in cells_a.keys() - cells_b.keys()}),
            "only_after": sorted({_cell_title(cells_b[key][0]) for key in cells_b.keys() - cells_a.keys()}),
            "agreement": agreement(before, after),
        }
    )


def comparison_of(before: str, after: str, changes: Sequence[MetricChange]) -> Comparison:
    """The comparison that these changes make, with its outcome."""
    counts = [change for change in changes if not change.reference and change.verdict != "not judged"]
    seen = [change.visible for change in counts if change.visible]
    return Comparison(
        before=before,
        after=after,
        differences=[],
        changes=list(changes),
        only_before=[],
        only_after=[],
        outcome=_outcome(changes, counts),
        smallest=min(seen, default=None),
        largest=max(seen, default=None),
    )


def _outcome(changes: Sequence[MetricChange], counts: Sequence[MetricChange]) -> Outcome:
    """What ``counts``, the changes that decide, say together."""
    if any(change.verdict in ("regression", "now failing") for change in counts):
        return "worse"
    if any(change.verdict in ("improvement", "no difference") for change in counts):
        return "fine"
    return "cannot tell" if any(change.after for change in changes) else "nothing measured"


@dataclass(frozen=True)
class _Test:
    """One change that is not judged yet, the p-value of none, and the log ratio of after over before."""

    metric: Metric
    change: MetricChange
    p: float | None
    estimate: Estimate | None


class _Side:
    """One metric of one cell in one run: its values, and their shares of that run's baseline by block."""

    def __init__(self, trials: Sequence[Trial], run: Sequence[Trial], metric: Metric) -> None:
        blocks = block_values(trials, metric.name)
        plain = [
            trial
            for trial in run
            if trial.vpn == BASELINE and outside_of_tunnel(trial.params) == beside_plain_ip(trials[0].params)
        ]
        baseline = block_values(plain, metric.name)
        usable = not metric.absolute and trials[0].vpn != BASELINE
        usable = usable and not lower_bounds(plain, metric.name) and min(baseline.values(), default=0) > 0
        self.trials = trials
        self.values = list(blocks.values())
        self.bounded = bool(lower_bounds(trials, metric.name))
        self.blocks = blocks
        self.block_shares: Blocks = {
            block: value / baseline[block] for block, value in blocks.items() if usable and block in baseline
        }
        if isinstance(blocks, RoundValues):
            self.block_shares = RoundValues(self.block_shares, blocks.instances, (), blocks.search_error)
        self.shares = list(self.block_shares.values())


def _change(
    run: Run, cell: Trial, metric: Metric, before: _Side, after: _Side
) -> tuple[MetricChange, float | None, Estimate | None]:
    """The change of one metric, not yet judged, the p-value of no change, and the log ratio of after over before."""
    # Compare shares only where every repetition has one.
    of_baseline = all(side.shares and len(side.shares) == len(side.values) for side in (before, after))
    compared = (before.shares, after.shares) if of_baseline else (before.values, after.values)
    old, new = (alone(side.block_shares if of_baseline else side.blocks) for side in (before, after))
    estimate = independent(new, old) if old and new else None
    ratio: Ratio | None = None
    p: float | None = None
    if estimate and isinstance(before.blocks, RoundValues) and isinstance(after.blocks, RoundValues):
        ratio, p = _by_rounds(metric, estimate)
    elif after.values:
        ratio, p = compare_independent(*compared)
    failed = [trial.reason for trial in after.trials if trial.status == "failed"]
    change = MetricChange(
        vpn=cell.vpn,
        levels=_levels(cell),
        metric=metric.name,
        title=metric.title,
        short=metric.short,
        unit=metric.unit,
        better=metric.better,
        reference=cell.vpn in run.vpns and run.vpns[cell.vpn].reference,
        before=summarise(before.values),
        after=summarise(after.values) if after.values else None,
        ratio=ratio,
        of_baseline=of_baseline,
        bounded=[*(["before"] if before.bounded else []), *(["after"] if after.bounded else [])],
        margin=metric.margin,
        verdict="now failing" if failed and not after.values else "not separable",
        reason=" ".join(failed[0].split()) if failed else "" if after.values else "not measured",
    )
    return change, p, estimate


def _by_rounds(metric: Metric, estimate: Estimate) -> tuple[Ratio, float | None]:
    """The ratio of after over before for two runs that were measured by rounds, and the p-value of no change. The error
    is that of either run, with that of the instances in it."""
    ratio = ratio_of(estimate, "Welch's t interval on trimmed means of rounds")
    return ratio, probabilities(metric, "after", "before", estimate).differ


def _judged(tests: Sequence[_Test], *, other_machine: bool) -> list[MetricChange]:
    """The changes with their verdicts. On another machine, or one that is slower or faster than before, absolute values
    say nothing of a VPN; memory never does."""
    references = _verdicts([test for test in tests if test.change.reference])
    moved = any(change.verdict in ("regression", "improvement") for change in references)

    def why_not(metric: Metric, change: MetricChange) -> str:
        if metric.aside:
            return metric.aside
        if (other_machine or moved) and not change.of_baseline and change.verdict != "now failing":
            return "an absolute value, and the machine is another" if other_machine else "the machine has changed"
        return ""

    ours = [test for test in tests if not test.change.reference]
    left_out = {id(test): why_not(test.metric, test.change) for test in ours}
    judged = iter(_verdicts([test for test in ours if not left_out[id(test)]]))
    by_reference = iter(references)
    return [
        next(by_reference)
        if test.change.reference
        else test.change.model_copy(update={"verdict": "not judged", "reason": left_out[id(test)]})
        if left_out[id(test)]
        else next(judged)
        for test in tests
    ]


def _verdicts(tests: Sequence[_Test]) -> list[MetricChange]:
    """The verdict on each of these changes, which are tested together."""
    tested = [test.p for test in tests if test.p is not None]
    adjusted = iter([float(p) for p in scipy.stats.false_discovery_control(tested)] if tested else [])
    both = [test.estimate and probabilities(test.metric, "after", "before", test.estimate) for test in tests]
    level = level_of([one for one in both if one], 1)
    return [
        _verdict(test.change, None if test.p is None else next(adjusted), one, level)
        for test, one in zip(tests, both, strict=True)
    ]


def _verdict(change: MetricChange, adjusted_p: float | None, tested: Tested | None, level: float) -> MetricChange:
    if adjusted_p is None or tested is None:
        return change
    estimate = tested.estimate
    decision: Decision = "undecided"
    if adjusted_p < SIGNIFICANCE and abs(estimate.centre) > math.log(change.margin):
        decision = "better" if (estimate.centre > 0) == (change.better == "higher") else "worse"
    elif tested.alike <= level:
        decision = "same"
    firm = held(decision, "after", "before", set(change.bounded), tested.metric)
    less = "after" if estimate.centre < 0 else "before"
    return change.model_copy(
        update={
            "adjusted_p": adjusted_p,
            "visible": visible(estimate, level, change.margin),
            "verdict": VERDICTS[firm],
            "reason": f"{less}: only a lower bound is known" if firm != decision else change.reason,
        }
    )


def visible(estimate: Estimate, level: float, margin: float) -> float:
    """The smallest ratio above 1 that is told from 1 at this level in SEEN of the runs with such an error, and not less
    than the margin."""
    away = -float(scipy.special.stdtrit(estimate.freedom, level / 2)) + float(
        scipy.special.stdtrit(estimate.freedom, SEEN)
    )
    return max(margin, exp(min(away * estimate.error, LARGEST)))


def _by_cell(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """The trials of each cell, whichever uplink a run is about: two lines of a site are compared so."""
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        here = {factor: level for factor, level in trial.params.items() if factor != UPLINK}
        cells.setdefault(cell_key(trial.vpn, here), []).append(trial)
    return cells


def _levels(cell: Trial) -> str:
    return text.levels(cell.params)


def _cell_title(cell: Trial) -> str:
    return f"{cell.vpn} ({_levels(cell)})"
