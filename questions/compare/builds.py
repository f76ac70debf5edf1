"""Builds and versions of one VPN, which took turns in one run."""

from __future__ import annotations

from collections.abc import Sequence

from questions.compare.judgement import VERDICTS, Comparison, MetricChange, change_of, comparison_of, visible
from runner.data.checks import check
from runner.data.trials import MOST_LOOKS, Run, Trial
from runner.evidence.estimates import Estimate
from runner.evidence.stats import compare_blocks, ratio_of
from runner.ranking.basis import Basis, bases
from runner.ranking.model import Verdict
from runner.ranking.verdicts import verdicts

NO_NUMBER = ("failed", "unsupported")
LEAST_SHARE = 0.05  # of a run, before which nothing is decided


def builds_of(run: Run) -> dict[str, list[str]]:
    """VPN -> its builds and versions in their order, the image's own among them; without VPNs of which the run has one
    only."""
    found: dict[str, list[str]] = {}
    for name in run.vpns:
        found.setdefault(name.partition("@")[0], []).append(name)
    return {vpn: names for vpn, names in found.items() if len(names) > 1}


def compare_builds(run: Run, trials: Sequence[Trial], share: float | None = None) -> list[Comparison]:
    """Of each VPN with several builds, the first one beside each of the others, in the metrics for which the run's
    experiments ask; empty where the run has no two builds of a VPN. The verdicts are those of the run's pairs, at its
    level and margins; ``share``: how much of the time is over of a run that goes on. Raises UsageError for what
    ``runner.data.checks`` refuses."""
    if not (builds := builds_of(run)):
        return []
    check(run, trials)
    asked = {name for experiment in run.experiments for name in experiment.metrics}
    every = bases(run, trials)
    looks, over = (run.looks, 1.0) if share is None else (run.looks + MOST_LOOKS - 1, min(1.0, max(LEAST_SHARE, share)))
    given = verdicts(every, [asked] * len(every), looks, over)
    both_ways = [*given, *(verdict.other_way for verdict in given)]
    pairs = {(each.configuration, each.image, each.metric, each.a, each.b): each for each in both_ways}
    made = []
    for before, *others in builds.values():
        for after in others:
            failed = [trial.reason for trial in trials if trial.vpn == after and trial.status in NO_NUMBER]
            changes: dict[str, MetricChange] = {}
            for basis in every:
                for metric in basis.values:
                    if metric in asked and metric not in changes and before in basis.values[metric]:
                        verdict = pairs.get((basis.configuration, basis.image, metric, after, before))
                        changes[metric] = _change(basis, metric, before, after, verdict, failed)
            made.append(
                comparison_of(_name_builds(run, before), _name_builds(run, after), [*changes.values()], turns=True)
            )
    return made


def _name_builds(run: Run, name: str) -> str:
    """A build by its name and its digest, a version by its title; else it is the image's own."""
    record = run.vpns[name]
    if record.build:
        return f"{name} (digest {record.build})"
    whose = record.title if "@" in name else f"of the image {run.image.get('name', '')}"
    return f"{name} ({whose})"


def _change(
    basis: Basis, metric: str, before: str, after: str, verdict: Verdict | None, failed: Sequence[str]
) -> MetricChange:
    known, values = basis.metrics[metric], basis.values[metric]
    change = change_of(known, after, values[before], values.get(after, {}), failed)
    if verdict is None:
        return change
    estimate = _estimate(basis, metric, before, after)
    paired = "trimmed mean of the log ratios by round"
    return change.model_copy(
        update={
            "ratio": ratio_of(estimate, paired) if estimate else compare_blocks(values[after], values[before]),
            "visible": visible(estimate, verdict.level, known.margin) if estimate else None,
            "verdict": VERDICTS[verdict.decision],
            "reason": verdict.reason,
        }
    )


def _estimate(basis: Basis, metric: str, before: str, after: str) -> Estimate | None:
    """The log ratio of after over before, as the verdicts have it."""
    pairs = basis.pairs(metric)
    turned_round = pairs.get((before, after))
    return turned_round._replace(centre=-turned_round.centre) if turned_round else pairs.get((after, before))
