"""The weighted average rank of the OSLV paper ( "Performance evaluation
results"): rank the VPNs for each attribute, weight the ranks, and average.

Two things are added. A rank is 1 + the number of VPNs that are *significantly* better, so that VPNs which
the measurement cannot tell apart share one. And the order's own uncertainty is given, as the probability
that each VPN is best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from scipy import stats

from runner.errors import UsageError
from runner.metrics import METRICS
from runner.model import TRAFFIC_FACTORS, Run, Strict, Trial
from runner.stats import Array, block_values, compare_blocks
from runner.weights import Weights, default_weights

Missing = Literal["unranked", "worst"]
Blocks = Mapping[int, float]

STREAM = {"transport": "tcp", "streams": "1", "direction": "forward", "payload": "random"}
# The traffic that a metric is ranked by. Only ``transport`` must be named by a trial's parameters.
RANKED_BY: dict[str, dict[str, str]] = {
    "tcp_throughput": STREAM,
    "cpu_per_gigabyte": STREAM,
    "udp_throughput": {"transport": "udp", "payload": "random"},
    "rtt": {"transport": "idle"},
    "jitter": {"transport": "udp"},
    "setup_time": {"transport": "idle"},
}
DRAWS = 20_000


class Standing(Strict):
    """One VPN in a ranking. ``ranks`` has every metric that it delivers; ``average``, ``place`` and
    ``best_probability`` are None where it is not ranked. ``missing`` maps the weighted metrics that it
    lacks to the reason; ``imputed`` are those which were given the worst rank instead."""

    vpn: str
    levels: dict[str, str]
    ranks: dict[str, int]
    blocks: dict[str, int]
    average: float | None = None
    place: int | None = None
    best_probability: float | None = None
    missing: dict[str, str] = {}
    imputed: list[str] = []


class Ranking(Strict):
    """The ranking of one named configuration. ``standings``: the ranked by place, then the unranked by
    name. ``traffic`` is what each metric was measured with; ``image`` the gateways' software, if a factor."""

    configuration: str
    image: str
    weights: Weights
    traffic: dict[str, dict[str, str]]
    standings: list[Standing]
    method: str
    probability_method: str


def rank_all(
    run: Run,
    trials: Sequence[Trial],
    *,
    configurations: Sequence[str] | None = None,
    weights: Weights | None = None,
    missing: Missing = "unranked",
) -> list[Ranking]:
    """A ranking for each configuration, and each gateway image where that is a factor.

    By default the configurations in which something was measured, with ``balanced`` weights over what was.
    Raises UsageError for a configuration that no VPN of the run has.
    """
    known = sorted({name for record in run.vpns.values() for name in record.configurations})
    for name in configurations or ():
        if name not in known:
            raise UsageError(f"unknown configuration {name!r}. Valid: {', '.join(known)}")
    images = sorted({trial.params.get("image", "") for trial in trials}) or [""]
    rankings = []
    for name in configurations or known:
        for image in images:
            chosen = [trial for trial in trials if trial.params.get("image", "") == image]
            measured = _measurements(run, _selected(run, chosen, name))
            if measured or configurations:
                given = weights or default_weights(measured)
                rankings.append(rank(run, chosen, configuration=name, weights=given, missing=missing, image=image))
    return rankings


def rank(
    run: Run,
    trials: Sequence[Trial],
    *,
    configuration: str,
    weights: Weights,
    missing: Missing = "unranked",
    image: str = "",
) -> Ranking:
    """Rank the run's VPNs, references left out, in the named configuration.

    A VPN without a weighted metric is not ranked, with its reason; with ``missing="worst"`` it gets the
    last rank there is (the number of VPNs with any weighted metric), unless it has none at all.
    """
    selected = _selected(run, trials, configuration)
    values = _measurements(run, selected)
    ranks = {metric: metric_ranks(metric, by_vpn) for metric, by_vpn in values.items()}
    alive = {vpn for metric in weights.counted for vpn in values.get(metric, {})}
    standings = []
    for vpn, record in run.vpns.items():
        if record.reference:
            continue
        absent = {
            metric: _reason(run, vpn, metric, selected)
            for metric in weights.counted
            if vpn not in values.get(metric, {})
        }
        own = {metric: found[vpn] for metric, found in ranks.items() if vpn in found}
        imputed = sorted(absent) if missing == "worst" and vpn in alive else []
        own |= dict.fromkeys(imputed, len(alive))
        average = None if (absent and not imputed) or not weights.counted else weighted_average(own, weights)
        standings.append(
            Standing(
                vpn=vpn,
                levels=record.configurations.get(configuration, {}),
                ranks=own,
                blocks={metric: len(by_vpn[vpn]) for metric, by_vpn in values.items() if vpn in by_vpn},
                average=average,
                missing=absent,
                imputed=imputed,
            )
        )
    standings, probability_method = _with_probabilities(_with_places(standings), values, weights, len(alive), run.seed)
    return Ranking(
        configuration=configuration,
        image=image,
        weights=weights,
        traffic={metric: _traffic(metric, selected) for metric in values},
        standings=standings,
        method="rank per metric = 1 + number of VPNs significantly better (95 % interval of the ratio paired within "
        "blocks, each pair on its own); weighted average rank after the OSLV paper",
        probability_method=probability_method,
    )


def measured_metrics(trials: Sequence[Trial]) -> set[str]:
    """The metrics that at least one ok trial measured: those that weights may name."""
    return {measurement.metric for trial in trials if trial.status == "ok" for measurement in trial.measurements}


def metric_ranks(metric: str, values: Mapping[str, Blocks]) -> dict[str, int]:
    """VPN -> 1 + the number of VPNs significantly better. ``values``: VPN -> block -> value."""
    higher = METRICS[metric].better == "higher"

    def beats(a: Blocks, b: Blocks) -> bool:
        ratio = compare_blocks(a, b)
        return ratio.significant and ratio.ratio is not None and (ratio.ratio > 1) == higher

    return {vpn: 1 + sum(beats(other, own) for other in values.values()) for vpn, own in values.items()}


def weighted_average(ranks: Mapping[str, float], weights: Weights) -> float:
    """Σ weight·rank / Σ weight over the metrics that count."""
    return sum(weight * ranks[metric] for metric, weight in weights.counted.items()) / sum(weights.counted.values())


def _with_places(standings: Sequence[Standing]) -> list[Standing]:
    """Place = 1 + number of VPNs with a lower average, so that equals share one; the unranked at the end."""
    averages = [standing.average for standing in standings if standing.average is not None]
    placed = [
        standing
        if (own := standing.average) is None
        else standing.model_copy(update={"place": 1 + sum(other < own - 1e-9 for other in averages)})
        for standing in standings
    ]
    return sorted(placed, key=lambda standing: (standing.place or len(placed) + 1, standing.vpn))


def _with_probabilities(
    standings: list[Standing], values: Mapping[str, Mapping[str, Blocks]], weights: Weights, worst: int, seed: int
) -> tuple[list[Standing], str]:
    """Each ranked VPN's probability of the lowest weighted average rank; ties within a draw share it."""
    ranked = [standing for standing in standings if standing.place]
    if len(ranked) < 2 or any(
        len(blocks) < 2 for metric in weights.counted for blocks in values.get(metric, {}).values()
    ):
        return standings, "no probability: it needs two VPNs, and two blocks of every weighted metric"
    rng = np.random.default_rng(seed)
    averages = np.zeros((DRAWS, len(ranked)))
    for metric, weight in weights.counted.items():
        if metric not in values:  # nobody has it: the worst rank for all moves no one
            continue
        draws = _draws(values[metric], rng)
        names = list(values[metric])
        sign = -1 if METRICS[metric].better == "higher" else 1
        drawn = stats.rankdata(sign * draws, axis=1)
        for column, standing in enumerate(ranked):
            rank_of = drawn[:, names.index(standing.vpn)] if standing.vpn in names else float(worst)
            averages[:, column] += weight * rank_of
    best = np.abs(averages - averages.min(axis=1, keepdims=True)) < 1e-9
    chances = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    by_vpn = {standing.vpn: float(chance) for standing, chance in zip(ranked, chances, strict=True)}
    done = [standing.model_copy(update={"best_probability": by_vpn.get(standing.vpn)}) for standing in standings]
    return done, (
        f"{DRAWS} draws of every VPN's mean logarithm from its t distribution (block effects removed), "
        f"ranked anew without ties; seed {seed}"
    )


def _draws(values: Mapping[str, Blocks], rng: np.random.Generator) -> Array:
    """Draws of each VPN's mean logarithm, shape (DRAWS, VPNs).

    A block's effect is the mean over the VPNs that have every block; it is taken off, because it moves all
    VPNs alike. That also takes 1/m of each VPN's own noise off, m of them: the scale gives it back.
    """
    positive = all(value > 0 for blocks in values.values() for value in blocks.values())
    log = np.log if positive else np.asarray  # a jitter of zero has no logarithm
    every = {block for blocks in values.values() for block in blocks}
    complete = [blocks for blocks in values.values() if blocks.keys() == every]
    effect = dict.fromkeys(every, 0.0)
    scale = 1.0
    if len(complete) > 1:
        effect = {block: float(np.mean(log([blocks[block] for blocks in complete]))) for block in every}
        scale = float(np.sqrt(len(complete) / (len(complete) - 1)))
    columns = []
    for blocks in values.values():
        own = log(list(blocks.values())) - np.array([effect[block] for block in blocks])
        spread = scale * float(stats.sem(own))
        columns.append(own.mean() + spread * rng.standard_t(len(own) - 1, DRAWS))
    return np.column_stack(columns)


def _selected(run: Run, trials: Sequence[Trial], configuration: str) -> dict[str, list[Trial]]:
    """Candidate VPN -> its trials at the configuration's tunnel levels."""
    return {
        vpn: [trial for trial in trials if trial.vpn == vpn and trial.params.items() >= levels.items()]
        for vpn, record in run.vpns.items()
        if not record.reference and (levels := record.configurations.get(configuration)) is not None
    }


def _for_metric(metric: str, trials: Sequence[Trial]) -> list[Trial]:
    wanted = RANKED_BY[metric]
    return [
        trial
        for trial in trials
        if trial.params.get("transport") == wanted["transport"]
        and all(trial.params.get(factor, level) == level for factor, level in wanted.items())
    ]


def _traffic(metric: str, selected: Mapping[str, Sequence[Trial]]) -> dict[str, str]:
    """The one traffic that the metric is ranked by: what most ok trials have, the largest payload of equals."""
    found: Counter[tuple[tuple[str, str], ...]] = Counter(
        tuple((factor, trial.params[factor]) for factor in TRAFFIC_FACTORS if factor in trial.params)
        for trials in selected.values()
        for trial in _for_metric(metric, trials)
        if any(measurement.metric == metric for measurement in trial.measurements)
    )
    if not found:
        return {}
    most = max(found, key=lambda traffic: (found[traffic], dict(traffic).get("payload_bytes", "").zfill(9)))
    return dict(most)


def _measurements(run: Run, selected: Mapping[str, Sequence[Trial]]) -> dict[str, dict[str, dict[int, float]]]:
    """Metric -> VPN -> block -> value, with what was measured only."""
    values = {}
    for metric in RANKED_BY:
        traffic = _traffic(metric, selected)
        by_vpn = {
            vpn: block_values([t for t in _for_metric(metric, trials) if t.params.items() >= traffic.items()], metric)
            for vpn, trials in selected.items()
        }
        if any(by_vpn.values()):
            values[metric] = {vpn: blocks for vpn, blocks in by_vpn.items() if blocks}
    return values


def _reason(run: Run, vpn: str, metric: str, selected: Mapping[str, Sequence[Trial]]) -> str:
    """Why ``vpn`` has no value of ``metric``: its own trial's reason, or what is known of it."""
    if vpn not in selected:
        return "has no such configuration"
    told = [trial for trial in selected[vpn] if trial.status != "ok" and trial.reason]
    asked = _for_metric(metric, told)
    worked = any(trial.status == "ok" for trial in selected[vpn])
    first = next(iter(asked or ([] if worked else told)), None)
    return f"{first.status}: {first.reason}" if first else why_absent(run, vpn, metric)


def why_absent(run: Run, vpn: str, metric: str) -> str:
    """Why an ok trial has no value of ``metric``, as far as the plugin's own data tells."""
    udp = metric in ("udp_throughput", "jitter")
    return "carries TCP only" if udp and vpn in run.vpns and run.vpns[vpn].carries == "tcp" else "not measured"
