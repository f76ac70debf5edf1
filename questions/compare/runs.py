"""Two runs, before and after a change, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import scipy

from questions.compare.judgement import (
    SIGNIFICANCE,
    VERDICTS,
    Comparison,
    MetricChange,
    change_of,
    comparison_of,
    visible,
)
from runner.data.checks import check
from runner.data.errors import UsageError
from runner.data.levels import BASELINE, UPLINK
from runner.data.merge import identity, merge_metrics, same_estimands
from runner.data.metric import Metric
from runner.data.trials import Run, Trial, cell_key
from runner.evidence.cells import Baseline, shares_of
from runner.evidence.estimates import Estimate, RoundValues, alone, independent
from runner.evidence.model import Blocks, Ratio
from runner.evidence.stats import block_values, compare_independent, lower_bounds, ratio_of
from runner.ranking.agreement import agreement
from runner.ranking.model import Decision
from runner.ranking.verdicts import Tested, bounded_decision, level_of, probabilities
from runner.report import text
from runner.report.kinds import by_kind

MACHINE = ("lab cpu", "lab cores", "lab guest", "lab kind")  # where one differs, absolute values do, too
Whole = tuple[Run, Sequence[Trial]]
Plain = Sequence[Mapping[str, Baseline]]  # of either run: metric -> its baseline


def compare_kinds(before: Whole, after: Whole) -> list[Comparison]:
    """Compare two runs on each kind of machine that both have, or as a whole where each has one kind, with
    `compare_runs`. The machines that only one run has are named among the cells that only this run has.

    Raises UsageError where they have no kind in common, and as `compare_runs` does."""
    ours, theirs = ({_kind(*part): part for part in by_kind(*whole)} for whole in (before, after))
    shared: dict[str, tuple[Whole, Whole]] = {kind: (ours[kind], theirs[kind]) for kind in ours if kind in theirs}
    if len(ours) == len(theirs) == 1:
        shared = {"": (before, after)}
    if not shared:
        raise UsageError(
            f"{before[0].run_id} was measured on {_list(ours)}, and {after[0].run_id} on {_list(theirs)}: no kind of "
            "machine is in both, so that nothing can be compared. vpneval report DIR --across machines has a report "
            "for each kind of a run"
        )
    only_before = _left_out(before[0], [part[0] for part, _ in shared.values()])
    only_after = _left_out(after[0], [part[0] for _, part in shared.values()])
    comparisons = []
    for kind, both in shared.items():
        made = compare_runs(*both)
        only = {"only_before": made.only_before + only_before, "only_after": made.only_after + only_after}
        comparisons.append(made.model_copy(update={"machines": kind, **only}))
    return comparisons


def _kind(run: Run, trials: Sequence[Trial]) -> str:
    return next((run.machines[trial.machine].kind for trial in trials if trial.machine in run.machines), "")


def _list(kinds: Iterable[str]) -> str:
    return "; ".join(kind or "a single machine" for kind in kinds)


def _left_out(run: Run, kinds: Sequence[Run]) -> list[str]:
    """The machines of the run that are in none of these parts of it, as a phrase; empty where there are none."""
    names = [name for name in run.machines if not any(name in kind.machines for kind in kinds)]
    return [f"the machines {', '.join(names)}"] if names else []


def compare_runs(before: Whole, after: Whole) -> Comparison:
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
    references = {vpn for vpn, record in run_b.vpns.items() if record.reference}
    plain = [{name: Baseline(trials, name) for name in metrics} for trials in (trials_a, trials_b)]
    tests = [
        _test(metric, old[0].vpn in references, old, cells_b[key], plain)
        for key, old in cells_a.items()
        for metric in metrics.values()
        if key in cells_b and block_values(old, metric.name)
    ]
    ours, theirs = identity(run_a), identity(run_b)
    differences = {name: f"{name}: {value} → {theirs[name]}" for name, value in ours.items() if theirs[name] != value}
    changes = _judge_tests(tests, other_machine=any(name in differences for name in MACHINE))
    return comparison_of(
        run_a.run_id,
        run_b.run_id,
        changes,
        differences=[*differences.values()],
        only_before=sorted({_cell_title(cells_a[key][0]) for key in cells_a.keys() - cells_b.keys()}),
        only_after=sorted({_cell_title(cells_b[key][0]) for key in cells_b.keys() - cells_a.keys()}),
        agreement=agreement(before, after),
    )


@dataclass(frozen=True, eq=False)
class _Test:
    """One change that is not judged yet, the p-value of none, and the log ratio of after over before."""

    metric: Metric
    change: MetricChange
    p: float | None
    estimate: Estimate | None


def _side(trials: Sequence[Trial], metric: Metric, baseline: Baseline) -> tuple[Blocks, Blocks]:
    """One metric of one cell in one run: its values, and their shares of that run's own baseline, where it tells."""
    values = block_values(trials, metric.name)
    plain, bounded = baseline.values_at(trials[0].params)
    tells = plain and min(plain.values()) > 0 and not bounded and not metric.absolute and trials[0].vpn != BASELINE
    return values, shares_of(values, plain) if plain and tells else {}


def _test(metric: Metric, reference: bool, old: Sequence[Trial], new: Sequence[Trial], plain: Plain) -> _Test:
    """One metric of a cell that both runs have. Shares are compared only where every repetition has one."""
    sides = [_side(trials, metric, baselines[metric.name]) for trials, baselines in zip((old, new), plain, strict=True)]
    of_baseline = all(shares and len(shares) == len(values) for values, shares in sides)
    before, after = (shares if of_baseline else values for values, shares in sides)
    ours, theirs = alone(before), alone(after)
    estimate = independent(theirs, ours) if ours and theirs else None
    ratio: Ratio | None = None
    p: float | None = None
    if estimate and isinstance(before, RoundValues) and isinstance(after, RoundValues):
        ratio = ratio_of(estimate, "Welch's t interval on trimmed means of rounds")
        p = probabilities(metric, "after", "before", estimate).differ
    elif after:
        ratio, p = compare_independent([*before.values()], [*after.values()])
    failed = [trial.reason for trial in new if trial.status == "failed"]
    (values_before, _), (values_after, _) = sides
    change = change_of(metric, old[0].vpn, values_before, values_after, failed, text.levels(old[0].params))
    bounded = [name for name, trials in (("before", old), ("after", new)) if lower_bounds(trials, metric.name)]
    found = {"ratio": ratio, "of_baseline": of_baseline, "bounded": bounded, "reference": reference}
    return _Test(metric, change.model_copy(update=found), p, estimate)


def _judge_tests(tests: Sequence[_Test], *, other_machine: bool) -> list[MetricChange]:
    """The changes with their verdicts. On another machine, or one that is slower or faster than before, absolute values
    say nothing of a VPN; memory never does."""
    references = [test for test in tests if test.change.reference]
    judged = _verdicts(references)
    moved = any(change.verdict in ("regression", "improvement") for change in judged.values())

    def why_not(test: _Test) -> str:
        if test.metric.aside:
            return test.metric.aside
        if (other_machine or moved) and not test.change.of_baseline and test.change.verdict != "now failing":
            return "an absolute value, and the machine is another" if other_machine else "the machine has changed"
        return ""

    left_out = {test: why for test in tests if not test.change.reference and (why := why_not(test))}
    judged |= {
        test: test.change.model_copy(update={"verdict": "not judged", "reason": why}) for test, why in left_out.items()
    }
    judged |= _verdicts([test for test in tests if test not in judged])
    return [judged[test] for test in tests]


def _verdicts(tests: Sequence[_Test]) -> dict[_Test, MetricChange]:
    """The changes with the verdict on each of them, which are tested together."""
    tested = [test.p for test in tests if test.p is not None]
    adjusted = iter([float(p) for p in scipy.stats.false_discovery_control(tested)] if tested else [])
    both = [test.estimate and probabilities(test.metric, "after", "before", test.estimate) for test in tests]
    level = level_of([one for one in both if one], 1)
    return {
        test: _verdict(test.change, None if test.p is None else next(adjusted), one, level)
        for test, one in zip(tests, both, strict=True)
    }


def _verdict(change: MetricChange, adjusted_p: float | None, tested: Tested | None, level: float) -> MetricChange:
    if adjusted_p is None or tested is None:
        return change
    estimate = tested.estimate
    decision: Decision = "undecided"
    if adjusted_p < SIGNIFICANCE and abs(estimate.centre) > math.log(change.margin):
        decision = "better" if (estimate.centre > 0) == (change.better == "higher") else "worse"
    elif tested.alike <= level:
        decision = "same"
    firm = bounded_decision(decision, "after", "before", set(change.bounded), tested.metric)
    less = "after" if estimate.centre < 0 else "before"
    return change.model_copy(
        update={
            "adjusted_p": adjusted_p,
            "visible": visible(estimate, level, change.margin),
            "verdict": VERDICTS[firm],
            "reason": f"{less}: only a lower bound is known" if firm != decision else change.reason,
        }
    )


def _by_cell(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """The trials of each cell, whichever uplink a run is about: two lines of a site are compared so."""
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        here = {factor: level for factor, level in trial.params.items() if factor != UPLINK}
        cells.setdefault(cell_key(trial.vpn, here), []).append(trial)
    return cells


def _cell_title(cell: Trial) -> str:
    return f"{cell.vpn} ({text.levels(cell.params)})"
