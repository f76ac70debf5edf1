"""Builds and versions of one VPN, which took turns in one run: what ``vpneval compare RUN`` says, and the run's own
exit code."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.checks import check
from runner.data.errors import UsageError
from runner.data.trials import Run, Trial
from runner.evidence.stats import Ratio, summarise
from runner.ranking.basis import Basis, bases
from runner.ranking.verdicts import Verdict, turned, verdicts
from runner.report.compare import VERDICTS, Comparison, MetricChange, comparison_of, visible


def builds_of(run: Run) -> dict[str, list[str]]:
    """VPN -> its builds and versions in their order, the image's own among them; without VPNs of which the run has one
    only."""
    found: dict[str, list[str]] = {}
    for name in run.vpns:
        found.setdefault(name.partition("@")[0], []).append(name)
    return {vpn: names for vpn, names in found.items() if len(names) > 1}


def compare_builds(run: Run, trials: Sequence[Trial]) -> list[Comparison]:
    """Of each VPN with several builds, the first one beside each of the others, in the metrics for which the run's
    experiments ask. The verdicts are those of the run's pairs, at its level and margins.

    Raises UsageError for a run without two builds of a VPN, and for what ``runner.data.checks`` refuses.
    """
    check(run, trials)
    builds = builds_of(run)
    if not builds:
        raise UsageError(
            f"{run.run_id} has no two builds of a VPN. Name two runs, before the change and after it, or measure "
            "builds: vpneval run builds --build VPN@old=PATH --build VPN@new=PATH"
        )
    asked = {name for experiment in run.experiments for name in experiment.metrics}
    every = bases(run, trials)
    given = verdicts(every, [asked] * len(every), run.looks)
    both_ways = [*given, *map(turned, given)]
    pairs = {(each.configuration, each.image, each.metric, each.a, each.b): each for each in both_ways}
    made = []
    for before, *others in builds.values():
        for after in others:
            changes: dict[str, MetricChange] = {}
            for basis in every:
                for metric in basis.values:
                    if metric in asked and metric not in changes and before in basis.values[metric]:
                        verdict = pairs.get((basis.configuration, basis.image, metric, after, before))
                        changes[metric] = _change(basis, metric, before, after, verdict, trials)
            compared = comparison_of(_named(run, before), _named(run, after), [*changes.values()])
            made.append(compared.model_copy(update={"turns": True}))
    return made


def _named(run: Run, name: str) -> str:
    """A build by its name and its digest, a version by its title; else it is the image's own."""
    record = run.vpns[name]
    if record.build:
        return f"{name} (digest {record.build})"
    whose = record.title if "@" in name else f"of the image {run.image.get('name', '')}"
    return f"{name} ({whose})"


def _change(
    basis: Basis, metric: str, before: str, after: str, verdict: Verdict | None, trials: Sequence[Trial]
) -> MetricChange:
    known, values = basis.metrics[metric], basis.values[metric]
    change = MetricChange(
        vpn=after,
        levels="",
        metric=metric,
        title=known.title,
        unit=known.unit,
        better=known.better,
        reference=False,
        before=summarise([*values[before].values()]),
        after=summarise([*values[after].values()]) if after in values else None,
        ratio=None,
        of_baseline=False,
        bounded=[],
        margin=known.margin,
        verdict="not separable",
        reason="not measured",
    )
    if verdict is None:
        failed = [trial.reason for trial in trials if trial.vpn == after and trial.status in ("failed", "unsupported")]
        reason = " ".join(failed[0].split()) if failed else change.reason
        return change.model_copy(update={"verdict": "now failing" if failed else change.verdict, "reason": reason})
    pair = basis.pairs(metric)
    estimate = pair.get((after, before)) or pair.get((before, after))
    return change.model_copy(
        update={
            "ratio": _ratio(verdict),
            "visible": visible(estimate, verdict.level, known.margin) if estimate else None,
            "verdict": VERDICTS[verdict.decision],
            "reason": verdict.reason,
        }
    )


def _ratio(verdict: Verdict) -> Ratio:
    apart = bool(verdict.low and verdict.high and not verdict.low <= 1 <= verdict.high)
    return Ratio(
        blocks=verdict.blocks,
        ratio=verdict.ratio,
        low=verdict.low,
        high=verdict.high,
        significant=apart,
        method="trimmed mean of the log ratios by round",
    )
