"""What a reader must know before believing the numbers: the lab's facts, caveats that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.model import Run, Strict, Trial, cell_key
from runner.ranking import Ranking
from runner.report.text import change, counted, percent, title, traffic
from runner.stats import BOOTSTRAP_FROM, drift

BASELINE = "none"  # the VPN that is none
FEW_BLOCKS = 5
GOAL_MEASURING = 0.7  # what the quick profile promises
FIRST_FACTS = ("kind", "kernel", "machine", "cpu", "cores")


class Fact(Strict):
    name: str
    value: str


def facts(run: Run, trials: Sequence[Trial]) -> list[Fact]:
    """The lab (kind, kernel, CPU and cores first), the image, and the version of each VPN as it said itself."""
    lab = {name: run.lab[name] for name in FIRST_FACTS if name in run.lab} | run.lab
    found = [Fact(name="lab " + name.replace("_", " "), value=_plain(value)) for name, value in lab.items()]
    image = {name: value for name, value in run.image.items() if name != "packages"}
    found += [Fact(name="image " + name.replace("_", " "), value=_plain(value)) for name, value in image.items()]
    versions: dict[str, str] = {}
    for trial in trials:
        if trial.evidence and trial.evidence.version:
            version = trial.evidence.version
            versions.setdefault(trial.vpn, f"{trial.vpn} {version}" if version[0].isdigit() else version)
    found += [Fact(name=f"version of {vpn}", value=version) for vpn, version in versions.items()]
    return [*found, Fact(name="seed", value=str(run.seed))]


def caveats(run: Run, trials: Sequence[Trial], rankings: Sequence[Ranking]) -> list[str]:
    """Sentences, the gravest first."""
    ok = [trial for trial in trials if trial.status == "ok"]
    said = []
    if not ok:
        said.append("No trial ended ok: there is nothing to compare.")
    stopped = [call.outcome for call in run.invocations[-1:] if call.outcome not in ("", "complete", "ok")]
    said += [f"The run did not end as planned: {outcome}." for outcome in stopped]
    if run.invocations and (trimmed := run.invocations[-1].trimmed):
        said.append(f"{counted(trimmed, 'trial')} left out to keep the deadline.")
    if run.lab.get("nodes_share_cores") or run.lab.get("kind") == "netns":
        cores = f"{run.lab['cores']} cores" if "cores" in run.lab else "cores"
        said.append(
            f"Hosts, gateways and WAN share the {cores} of one machine: rates are what all of them together "
            "reach, and the CPU cost includes the hosts' traffic generators. Compare the VPNs, not the numbers "
            "with those of real gateways."
        )
    blocks = len({trial.repetition for trial in ok})
    if ok and blocks < 2:
        said.append("One repetition: no number has an interval, no VPN can be told from another, and all tie.")
    elif ok and blocks < FEW_BLOCKS:
        said.append(f"{blocks} repetitions: the intervals are wide, and small differences are not seen.")
    said += _drift(ok)
    elapsed = sum(call.elapsed_s for call in run.invocations)
    share = sum(call.measuring_s for call in run.invocations) / elapsed if elapsed else 1.0
    if share < GOAL_MEASURING:
        said.append(f"Only {percent(share, 0)} of the time was spent measuring; the rest was set-up and proof.")
    said += [sentence for ranking in rankings for sentence in _thin(ranking, blocks)]
    return said


def warnings(trials: Sequence[Trial]) -> list[str]:
    """The trials' warnings, each once, with the VPNs and the number of trials that had it."""
    found: dict[str, list[str]] = {}
    for trial in trials:
        for warning in trial.warnings:
            found.setdefault(warning, []).append(trial.vpn)
    return [
        f"{warning} ({', '.join(dict.fromkeys(vpns))}: {counted(len(vpns), 'trial')})"
        for warning, vpns in found.items()
    ]


def interval_method(repetitions: int) -> str:
    """How the report's intervals were made, in a sentence for its foot."""
    how = (
        "BCa bootstrap of the median"
        if repetitions >= BOOTSTRAP_FROM
        else "Student's t on logarithms, which suits fewer than ten repetitions"
    )
    return (
        f"Median and 95 % interval ({how}) over n repetitions; CoV: coefficient of variation. The share of the "
        "baseline (plain IP, measured first and last in each block) is paired within blocks. ×÷ k: an interval wider "
        "than a factor of ten, from a k-th of the value to k times it."
    )


def _drift(trials: Sequence[Trial]) -> list[str]:
    baseline: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.vpn == BASELINE:
            baseline.setdefault(cell_key(trial.vpn, trial.params), []).append(trial)
    moves = [
        (metric, same[0].params, drift(same, metric))
        for same in baseline.values()
        for metric in dict.fromkeys(m.metric for trial in same for m in trial.measurements)
    ]
    judged = [move for move in moves if move[2].blocks > 1]
    moved = [
        f"{title(metric)} ({traffic(params)}) {change(ratio)}" for metric, params, ratio in judged if ratio.significant
    ]
    if not moved:
        return []
    return [
        f"Drift: from first to last in the blocks the baseline moved by more than its interval in {len(moved)} of "
        f"{counted(len(judged), 'measurement')}: {'; '.join(moved)}."
    ]


def _thin(ranking: Ranking, blocks: int) -> list[str]:
    """VPNs that are ranked on fewer blocks than others: what cannot be separated ties, in their favour."""
    thin = [
        standing.vpn
        for standing in ranking.standings
        if standing.place
        and any(standing.blocks.get(metric, blocks) < min(2, blocks) for metric in ranking.weights.counted)
    ]
    if not thin:
        return []
    return [
        f"Ranking {ranking.configuration}: {', '.join(thin)} ended ok once only in a metric, and ties there with all."
    ]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(inner) for inner in value)
    return "yes" if value is True else "no" if value is False else str(value)
