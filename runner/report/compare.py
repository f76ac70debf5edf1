"""Did it get slower? A comparison of two runs, before and after, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import scipy

from runner.data.checks import check
from runner.data.levels import outside_of_tunnel
from runner.data.merge import identity, merge_metrics, same_estimands
from runner.data.metric import Metric
from runner.data.numbers import exp
from runner.data.trials import Run, Strict, Trial
from runner.ranking.agreement import Agreement, agreement
from runner.ranking.estimates import Blocks, Estimate, RoundValues, alone, independent
from runner.ranking.stats import Ratio, Summary, block_values, compare_independent, lower_bounds, summarise
from runner.ranking.ties import excludes_zero
from runner.ranking.verdicts import Decision, decide, held, level_of, probabilities
from runner.report import text
from runner.report.facts import BASELINE
from runner.report.kinds import Whole, shared_kinds

Verdict = Literal["regression", "improvement", "no difference", "not separable", "now failing"]
COUNTED: tuple[Verdict, ...] = ("no difference", "not separable")  # these changes are only counted, others shown
SIGNIFICANCE = 0.05
ABSOLUTE = ("setup_time",)  # plain IP has no tunnel to set up: its value is the probe's own time, and mostly noise


class Change(Strict):
    """One metric of one cell. ``ratio`` is after over before: of the shares of each run's own baseline where
    ``of_baseline``, else of the values; ``adjusted_p`` is its p-value among all of the comparison's
    (Benjamini–Hochberg), None where there is no test. ``decision``: is it better or worse after, or the same up to the
    metric's margin, by the rule of a ranking's pairs (runner.ranking.verdicts). Summaries are of the values, in
    ``unit``; ``bounded`` tells whose value is a lower bound."""

    vpn: str
    levels: str
    metric: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    reference: bool
    before: Summary
    after: Summary | None
    ratio: Ratio | None
    of_baseline: bool
    bounded: list[Literal["before", "after"]]
    adjusted_p: float | None
    verdict: Verdict
    decision: Decision = "undecided"
    reason: str = ""


class Comparison(Strict):
    """Two runs. ``regressed``: some ranked VPN has a regression, or fails where it did not; references
    (plain IP) do not count, their change is the machine's. ``differences``: how the runs' labs differ.
    ``agreement``: whether both rank the VPNs alike. ``machines``: the kind of machine that this is about, where a run
    has several."""

    before: str
    after: str
    differences: list[str]
    changes: list[Change]
    only_before: list[str]
    only_after: list[str]
    regressed: bool
    agreement: list[Agreement] = []
    machines: str = ""


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
    """Compare every cell and metric that both runs measured, by Welch's t-test on logarithms. A change gets a verdict
    where its p-value, adjusted for the number of comparisons, is below 5 %. Without this adjustment, a hundred equal
    cells would give five false alarms in every run of the CI.

    Where both runs have a baseline of the same traffic, the shares of each run's own baseline are compared, block by
    block: on a day when the whole machine is slower, the baseline is slower too, and this cancels out.

    Raises UsageError where a metric means different things in the two runs."""
    (run_a, trials_a), (run_b, trials_b) = before, after
    check(*before)
    check(*after)
    metrics = merge_metrics([run_a, run_b])
    same_estimands([before, after])
    cells_a, cells_b = _by_cell(trials_a), _by_cell(trials_b)
    tests = []
    for key, old in cells_a.items():
        for metric in metrics.values():
            if key in cells_b and block_values(old, metric.name):
                sides = _Side(old, trials_a, metric.name), _Side(cells_b[key], trials_b, metric.name)
                tests.append(_change(run_b, old[0], metric, *sides))
    tested = [p for _, p, _ in tests if p is not None]
    adjusted = iter([float(p) for p in scipy.stats.false_discovery_control(tested)] if tested else [])
    changes = [_judged(change, None if p is None else next(adjusted)) for change, p, _ in tests]
    changes = _decided(changes, [estimate for _, _, estimate in tests], metrics)
    bad = ("regression", "now failing")
    ours, theirs = identity(run_a), identity(run_b)
    return Comparison(
        before=run_a.run_id,
        after=run_b.run_id,
        differences=[f"{name}: {value} → {theirs[name]}" for name, value in ours.items() if theirs[name] != value],
        changes=changes,
        only_before=sorted({_cell_title(cells_a[key][0]) for key in cells_a.keys() - cells_b.keys()}),
        only_after=sorted({_cell_title(cells_b[key][0]) for key in cells_b.keys() - cells_a.keys()}),
        regressed=any(change.verdict in bad and not change.reference for change in changes),
        agreement=agreement(before, after),
    )


class _Side:
    """One metric of one cell in one run: its values, and their shares of that run's baseline by block."""

    def __init__(self, trials: Sequence[Trial], run: Sequence[Trial], metric: str) -> None:
        blocks = block_values(trials, metric)
        mine = outside_of_tunnel(trials[0].params)
        plain = [trial for trial in run if trial.vpn == BASELINE and outside_of_tunnel(trial.params) == mine]
        baseline = block_values(plain, metric)
        usable = metric not in ABSOLUTE and trials[0].vpn != BASELINE
        usable = usable and not lower_bounds(plain, metric) and min(baseline.values(), default=0) > 0
        self.trials = trials
        self.values = list(blocks.values())
        self.bounded = bool(lower_bounds(trials, metric))
        self.blocks = blocks
        self.block_shares: Blocks = {
            block: value / baseline[block] for block, value in blocks.items() if usable and block in baseline
        }
        if isinstance(blocks, RoundValues):
            self.block_shares = RoundValues(self.block_shares, blocks.instances)
        self.shares = list(self.block_shares.values())


def _change(
    run: Run, cell: Trial, metric: Metric, before: _Side, after: _Side
) -> tuple[Change, float | None, Estimate | None]:
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
    change = Change(
        vpn=cell.vpn,
        levels=_levels(cell),
        metric=metric.name,
        title=metric.title,
        unit=metric.unit,
        better=metric.better,
        reference=cell.vpn in run.vpns and run.vpns[cell.vpn].reference,
        before=summarise(before.values),
        after=summarise(after.values) if after.values else None,
        ratio=ratio,
        of_baseline=of_baseline,
        bounded=[*(["before"] if before.bounded else []), *(["after"] if after.bounded else [])],
        adjusted_p=None,
        verdict="now failing" if failed and not after.values else "not separable",
        reason=" ".join(failed[0].split()) if failed else "" if after.values else "not measured",
    )
    return change, p, estimate


def _by_rounds(metric: Metric, estimate: Estimate) -> tuple[Ratio, float | None]:
    """The ratio of after over before for two runs that were measured by rounds, and the p-value of no change. The error
    is that of either run, with that of the instances in it."""
    low, high = estimate.interval()
    ratio = Ratio(
        blocks=estimate.blocks,
        ratio=exp(estimate.centre),
        low=exp(low),
        high=exp(high),
        significant=excludes_zero(low, high),
        method="Welch's t interval on trimmed means of rounds",
    )
    return ratio, probabilities(metric, "after", "before", estimate).differ


def _decided(
    changes: Sequence[Change], estimates: Sequence[Estimate | None], metrics: Mapping[str, Metric]
) -> list[Change]:
    """The changes, each with its decision. One or more of all decisions are false with a probability of at most 5 %."""
    tested = [
        None if estimate is None else probabilities(metrics[change.metric], "after", "before", estimate)
        for change, estimate in zip(changes, estimates, strict=True)
    ]
    level = level_of([test for test in tested if test], 1)
    return [
        change.model_copy(
            update={"decision": held(decide(test, level), "after", "before", set(change.bounded), test.metric)}
        )
        if test
        else change
        for change, test in zip(changes, tested, strict=True)
    ]


def _judged(change: Change, adjusted_p: float | None) -> Change:
    if adjusted_p is None or change.ratio is None or change.ratio.ratio is None:
        return change
    verdict: Verdict = "no difference"
    if adjusted_p < SIGNIFICANCE:
        less = "after" if change.ratio.ratio < 1 else "before"
        if less in change.bounded:  # the value may be higher, and as high as the other
            return change.model_copy(
                update={"adjusted_p": adjusted_p, "reason": f"{less}: only a lower bound is known"}
            )
        better = (change.ratio.ratio > 1) == (change.better == "higher")
        verdict = "improvement" if better else "regression"
    return change.model_copy(update={"adjusted_p": adjusted_p, "verdict": verdict})


def _by_cell(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    return cells


def _levels(cell: Trial) -> str:
    return text.levels(cell.params)


def _cell_title(cell: Trial) -> str:
    return f"{cell.vpn} ({_levels(cell)})"
