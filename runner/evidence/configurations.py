"""What of a run is compared: the VPNs, the trials of each metric, their values, and why a VPN has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from runner.data.errors import UsageError
from runner.data.levels import WAYS, outside_of_tunnel, ranked_by, unusual
from runner.data.metric import Metric
from runner.data.remarks import Kind
from runner.data.scale import no_scale
from runner.data.trials import Run, Trial, measured_metrics
from runner.evidence.model import Blocks, Configuration, Why
from runner.evidence.stats import block_values, lower_bounds

TCP_ONLY = "carries TCP only"
CAUSES: tuple[Kind, ...] = ("no kernel", "tcp only")
Levels = tuple[tuple[str, str], ...]  # factors with their levels, as what can be counted


def configurations_of(
    run: Run, trials: Sequence[Trial], metrics: Collection[str] = (), names: Sequence[str] | None = None
) -> list[Configuration]:
    """Each configuration that the run compares, and each gateway image where that is a factor.

    By default those in which something was measured. ``metrics``: metrics that may count beside the measured ones.
    Raises UsageError for a configuration that no VPN of the run has.
    """
    known = sorted({name for record in run.vpns.values() for name in record.configurations})
    for name in names or ():
        if name not in known:
            raise UsageError(f"unknown configuration {name!r}. Valid: {', '.join(known)}")
    images = sorted({trial.params.get("image", "") for trial in trials}) or [""]
    found = []
    for name in names or known:
        for image in images:
            chosen = [trial for trial in trials if trial.params.get("image", "") == image]
            one = configuration_of(run, chosen, name, metrics, image)
            found += [one] if one.values or names else []
    return found


def configuration_of(
    run: Run, trials: Sequence[Trial], configuration: str, metrics: Collection[str] = (), image: str = ""
) -> Configuration:
    """The configuration of this name. ``metrics``: metrics that may count beside the measured ones."""
    selected = _trials_by_vpn(run, trials, configuration)
    measured = measured_metrics(trials)
    traffics = {name: _traffic(metric, selected) for name, metric in run.metrics.items() if name in measured}
    ranked = {name: _ranked_trials(run.metrics[name], traffic, selected) for name, traffic in traffics.items()}
    values = _measurements(ranked)
    bounds = _bounds(ranked, values)
    whole = is_whole(run)
    weighed = [*run.metrics, *sorted(set(metrics) - run.metrics.keys())]
    candidates = comparable(run)
    return Configuration(
        configuration=configuration,
        image=image,
        seed=run.seed,
        metrics=run.metrics,
        levels={vpn: run.vpns[vpn].configurations.get(configuration, {}) for vpn in candidates},
        traffic={metric: traffics[metric] for metric in values},
        values=values,
        bounds=bounds,
        lost={
            metric: lost_of({vpn: ranked[metric][vpn] for vpn in by_vpn}, whole) for metric, by_vpn in values.items()
        },
        seconds={metric: {vpn: _seconds(ranked[metric][vpn]) for vpn in by_vpn} for metric, by_vpn in values.items()},
        why={
            vpn: {
                metric: _why(run, vpn, metric, selected)
                for metric in weighed
                if (metric in metrics or metric in values) and vpn not in values.get(metric, {})
            }
            for vpn in candidates
        },
    )


def comparable(run: Run) -> list[str]:
    """The VPNs that the run may compare: on machines that are no scale for data planes (runner/data/scale.py), those
    whose packets the kernel carries."""
    apart = no_scale(run) is not None
    return [
        vpn
        for vpn, record in run.vpns.items()
        if not record.reference and not (apart and record.dataplane == "userspace")
    ]


def absent_vpns(run: Run, trials: Sequence[Trial]) -> list[str]:
    """The VPNs without a number, those of the kernel's data path first."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    without = [vpn for vpn in comparable(run) if vpn not in measured]
    return sorted(without, key=lambda vpn: (run.vpns[vpn].dataplane != "kernel", vpn))


def for_metric(metric: Metric, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that measure the metric with the traffic that it is ranked by, whether they ended ok or not."""
    wanted = ranked_by(metric.measure)
    return [
        trial
        for trial in trials
        if trial.params.get("measure") == wanted["measure"]
        and all(trial.params.get(factor, level) == level for factor, level in wanted.items())
    ]


def why_absent(run: Run, vpn: str, metric: str) -> str:
    """Why an ok trial has no value of ``metric``, as far as the plugin's own data tells."""
    udp = metric == "udp_rtt" or (metric in run.metrics and run.metrics[metric].measure == "udp")
    return TCP_ONLY if udp and vpn in run.vpns and run.vpns[vpn].carries == "tcp" else "not measured"


def _trials_by_vpn(run: Run, trials: Sequence[Trial], configuration: str) -> dict[str, list[Trial]]:
    """Candidate VPN -> its trials at the configuration's tunnel levels."""
    selected: dict[str, list[Trial]] = {}
    wanted: dict[str, dict[str, str]] = {}
    for vpn in comparable(run):
        if configuration in (configurations := run.vpns[vpn].configurations):
            selected[vpn], wanted[vpn] = [], configurations[configuration]
    for trial in trials:
        if trial.vpn in wanted and trial.params.items() >= wanted[trial.vpn].items():
            selected[trial.vpn].append(trial)
    return selected


def _traffic(metric: Metric, selected: Mapping[str, Sequence[Trial]]) -> dict[str, str]:
    """The one traffic that the metric is ranked by: the traffic that most VPNs have. Of equals the one with the fewest
    WAN conditions, then that from gw1 alone, then the one with most ok trials, then the largest payload."""
    counts: Counter[Levels] = Counter()
    vpns: dict[Levels, set[str]] = {}
    for vpn, trials in selected.items():
        for trial in for_metric(metric, trials):
            if any(measurement.metric == metric.name for measurement in trial.measurements):
                traffic: Levels = tuple(outside_of_tunnel(trial.params).items())
                counts[traffic] += 1
                vpns.setdefault(traffic, set()).add(vpn)

    def preference(traffic: Levels) -> tuple[int, int, bool, int, str]:
        levels = dict(traffic)
        payload = levels.get("payload_bytes", "").zfill(9)
        return len(vpns[traffic]), -len(unusual(levels)), WAYS not in levels, counts[traffic], payload

    most: Levels = max(sorted(counts), key=preference) if counts else ()
    return dict(most)


def _ranked_trials(
    metric: Metric, traffic: Mapping[str, str], selected: Mapping[str, Sequence[Trial]]
) -> dict[str, list[Trial]]:
    """VPN -> the trials that the metric is ranked by, all with this one traffic."""
    return {
        vpn: [trial for trial in for_metric(metric, trials) if outside_of_tunnel(trial.params) == traffic]
        for vpn, trials in selected.items()
    }


def _measurements(ranked: Mapping[str, Mapping[str, Sequence[Trial]]]) -> dict[str, dict[str, dict[int, float]]]:
    """Metric -> VPN -> block -> value, without VPNs that were not measured; ``ranked``: metric -> VPN -> its trials."""
    values = {}
    for metric, trials_of in ranked.items():
        by_vpn = {vpn: block_values(trials, metric) for vpn, trials in trials_of.items()}
        if any(by_vpn.values()):
            values[metric] = {vpn: blocks for vpn, blocks in by_vpn.items() if blocks}
    return values


def _bounds(
    ranked: Mapping[str, Mapping[str, Sequence[Trial]]], values: Mapping[str, Mapping[str, Blocks]]
) -> dict[str, dict[str, set[int]]]:
    """Metric -> VPN -> the blocks in which its value is a lower bound."""
    return {
        metric: {vpn: lower_bounds(ranked[metric][vpn], metric) for vpn in by_vpn} for metric, by_vpn in values.items()
    }


def is_whole(run: Run) -> bool:
    """Did the run measure all that it planned? Then a trial without a line was taken out of its file."""
    calls = run.invocations
    stopped_early = any(call.outcome != "complete" or call.trimmed or call.passed_over for call in calls)
    return bool(calls) and not stopped_early and not run.machines


def lost_of(trials: Mapping[str, Sequence[Trial]], whole: bool) -> dict[str, int]:
    """VPN -> how many repetitions of a metric's trials failed, and have no other value, or are missing from a ``whole``
    run in which every other VPN has them; without VPNs that lost none. What the lab is to blame for is not lost."""
    ok = {vpn: {trial.repetition for trial in own if trial.status == "ok"} for vpn, own in trials.items()}
    lost = {}
    for vpn, own in trials.items():
        gone = {trial.repetition for trial in own if trial.status == "failed"}
        others = [repetitions for other, repetitions in ok.items() if other != vpn]
        if whole and others:
            gone |= set.intersection(*others) - {trial.repetition for trial in own}
        if gone := gone - ok[vpn]:
            lost[vpn] = len(gone)
    return lost


def _seconds(trials: Sequence[Trial]) -> float:
    """How long the trials that ended ok measured, in seconds."""
    return sum(trial.measuring_s for trial in trials if trial.status == "ok")


def _why(run: Run, vpn: str, metric: str, selected: Mapping[str, Sequence[Trial]]) -> Why:
    """Why ``vpn`` has no value of ``metric``: the reason of its own trial, or what the plugin declares."""
    if vpn not in selected:
        return Why("has no such configuration")
    explained = [trial for trial in selected[vpn] if trial.status != "ok" and trial.reason]
    asked = for_metric(run.metrics[metric], explained) if metric in run.metrics else []
    worked = any(trial.status == "ok" for trial in selected[vpn])
    for trial in selected[vpn]:
        if unsure := trial.attempt.get("inconclusive", {}).get(metric):
            return Why(f"inconclusive: {unsure['reason']}")
    first = next(iter(asked or ([] if worked else explained)), None)
    if not first:
        absent = why_absent(run, vpn, metric)
        return Why(absent, "tcp only" if absent == TCP_ONLY else "")
    causes = [remark.kind for remark in first.remarks if remark.kind in CAUSES]
    return Why(f"{first.status}: {first.reason}", causes[0] if causes else "")
