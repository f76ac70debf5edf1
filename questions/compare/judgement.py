"""What became of each measurement, and of all together: data that every comparison has, of two runs or of two
builds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import scipy
from pydantic import Field

from runner.data.kinds import Strict
from runner.data.metric import Metric
from runner.data.numbers import exp
from runner.evidence.estimates import Estimate
from runner.evidence.model import Blocks, Ratio, Summary
from runner.evidence.stats import summarise
from runner.ranking.model import Agreement, Decision

Verdict = Literal["regression", "improvement", "no difference", "not separable", "not judged", "now failing"]
Outcome = Literal["worse", "fine", "nothing found", "cannot tell", "nothing measured"]
VERDICTS: Mapping[Decision, Verdict] = {
    "worse": "regression",
    "better": "improvement",
    "same": "no difference",
    "undecided": "not separable",
}
UNCHANGED: tuple[Verdict, ...] = ("no difference", "not separable")
SIGNIFICANCE = 0.05
LARGEST = 50.0  # of a logarithm: beyond, it is only known to be huge
SEEN = 0.8  # of the runs in which a difference as large as ``visible`` would be found


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
    measurement is decided (``nothing found``, down to what is visible; ``cannot tell`` where that is not known, or more
    than ``at_least``); or they share none. References (plain IP) do not count, their change is the machine's.
    ``differences``: how the runs' labs differ. ``smallest``, ``largest``: of what is ``visible`` in the measurements
    that count and did not change. ``at_least``: metric -> the smallest ratio above 1 that had to be visible in it.
    ``agreement``: whether both rank the VPNs alike. ``machines``: the kind of machine that this is about, where a run
    has several. ``turns``: these are two builds of one VPN, which took turns in one run."""

    before: str
    after: str
    differences: list[str] = []
    changes: list[MetricChange]
    only_before: list[str] = []
    only_after: list[str] = []
    outcome: Outcome
    smallest: float | None = None
    largest: float | None = None
    at_least: dict[str, float] = {}
    agreement: list[Agreement] = []
    machines: str = ""
    turns: bool = False


class Comparisons(Strict):
    """Of two runs one for each kind of machine that both have; of builds one for each but the first."""

    comparisons: list[Comparison] = []


def change_of(
    metric: Metric, vpn: str, before: Blocks, after: Blocks, failed: Sequence[str], levels: str = ""
) -> MetricChange:
    """A change that is not judged yet. ``failed``: why trials of it failed after the change."""
    return MetricChange(
        vpn=vpn,
        levels=levels,
        metric=metric.name,
        title=metric.title,
        short=metric.short,
        unit=metric.unit,
        better=metric.better,
        reference=False,
        before=summarise([*before.values()]),
        after=summarise([*after.values()]) if after else None,
        ratio=None,
        of_baseline=False,
        bounded=[],
        margin=metric.margin,
        verdict="now failing" if failed and not after else "not separable",
        reason=" ".join(failed[0].split()) if failed else "" if after else "not measured",
    )


def comparison_of(before: str, after: str, changes: Sequence[MetricChange], **more: Any) -> Comparison:
    """The comparison that these changes make, with its outcome. ``more``: other fields of it."""
    seen = [change.visible for change in decisive_changes(changes) if change.visible and change.verdict in UNCHANGED]
    return Comparison(
        before=before,
        after=after,
        changes=list(changes),
        outcome=_outcome(changes, {}),
        smallest=min(seen, default=None),
        largest=max(seen, default=None),
        **more,
    )


def decisive_changes(changes: Sequence[MetricChange]) -> list[MetricChange]:
    """The changes that decide what the outcome is."""
    return [change for change in changes if not change.reference and change.verdict != "not judged"]


def with_at_least(judged: Comparisons, at_least: Mapping[str, float]) -> Comparisons:
    """The comparisons, where what is not decided was visible down to ``at_least`` (metric -> ratio above 1)."""
    made = [
        one.model_copy(update={"at_least": dict(at_least), "outcome": _outcome(one.changes, at_least)})
        for one in judged.comparisons
    ]
    return Comparisons(comparisons=made)


def too_coarse(changes: Sequence[MetricChange], at_least: Mapping[str, float]) -> list[MetricChange]:
    """The undecided changes that would have been found only if they were larger than that, or nobody knows."""
    undecided = [change for change in decisive_changes(changes) if change.verdict == "not separable"]
    return [
        change for change in undecided if not change.visible or change.visible > at_least.get(change.metric, math.inf)
    ]


def _outcome(changes: Sequence[MetricChange], at_least: Mapping[str, float]) -> Outcome:
    """What the changes that decide say together."""
    counts = decisive_changes(changes)
    if any(change.verdict in ("regression", "now failing") for change in counts):
        return "worse"
    if any(change.metric in at_least for change in too_coarse(changes, at_least)):
        return "cannot tell"
    if any(change.verdict in ("improvement", "no difference") for change in counts):
        return "fine"
    if any(change.visible for change in counts):
        return "nothing found"
    return "cannot tell" if any(change.after for change in changes) else "nothing measured"


def visible(estimate: Estimate, level: float, margin: float) -> float:
    """The smallest ratio above 1 that is told from 1 at this level in SEEN of the runs with such an error, and not less
    than the margin."""
    away = -float(scipy.special.stdtrit(estimate.freedom, level / 2)) + float(
        scipy.special.stdtrit(estimate.freedom, SEEN)
    )
    return max(margin, exp(min(away * estimate.error, LARGEST)))
