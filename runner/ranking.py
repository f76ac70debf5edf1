"""The weighted average rank of the OSLV paper ( "Performance evaluation
results"): rank the VPNs for each attribute, weight the ranks, and average.

Two things are added. A rank is 1 + the number of VPNs that are *significantly* better, so that VPNs which
the measurement cannot tell apart share one. And the order's own uncertainty is given: the probability that
each VPN is best, the interval of its place, how sure each pair of neighbours is, and how far each weight may
move before another VPN wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import combinations, pairwise
from typing import Literal

from runner.draws import CONFIDENCE, DRAWS, Blocks, Order, draw_order
from runner.errors import UsageError
from runner.metrics import METRICS
from runner.model import TRAFFIC_FACTORS, WAN_FACTORS, Run, Strict, Trial
from runner.stats import block_values, compare_blocks, lower_bounds
from runner.weights import Slack, Weights, default_weights, slack

Missing = Literal["unranked", "worst"]
STREAM = {"transport": "tcp", "streams": "1", "direction": "forward", "payload": "random"}


class Standing(Strict):
    """One VPN in a ranking. ``ranks`` has every metric that it delivers; ``average``, ``place`` and
    ``best_probability`` are None where it is not ranked. ``missing`` maps the weighted metrics that it
    lacks to the reason; ``imputed`` are those which were given the worst rank instead; ``at_least`` are those
    known from below only, in one block or more. ``place_interval``: from which to which place 95 % of the
    draws put it."""

    vpn: str
    levels: dict[str, str]
    ranks: dict[str, int]
    blocks: dict[str, int]
    average: float | None = None
    place: int | None = None
    best_probability: float | None = None
    place_interval: tuple[int, int] | None = None
    at_least: list[str] = []
    missing: dict[str, str] = {}
    imputed: list[str] = []


class Pair(Strict):
    """Two neighbours of a ranking, in their order. ``probability`` is the share of the draws in which ``first`` has
    the lower average, ``equal`` the share in which both are equal; None where nothing could be drawn.
    ``separated``: ``second`` is ahead in 5 % of the draws at most, so that the order holds, or is a tie."""

    first: str
    second: str
    probability: float | None = None
    equal: float | None = None
    separated: bool = False

    @property
    def certainty(self) -> float:
        """The share of the draws in which ``second`` is not ahead; 0 where nothing could be drawn."""
        return 0.0 if self.probability is None or self.equal is None else self.probability + self.equal


class Ranking(Strict):
    """The ranking of one named configuration. ``standings``: the ranked by place, then the unranked by
    name. ``traffic`` is what each metric was measured with; ``image`` the gateways' software, if a factor.
    ``pairs`` are the ranked VPNs and the next after each; ``slack`` has the counted metrics, see there."""

    configuration: str
    image: str
    weights: Weights
    traffic: dict[str, dict[str, str]]
    standings: list[Standing]
    pairs: list[Pair]
    slack: list[Slack]
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
            measured = _measurements(_selected(run, chosen, name))
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
    values = _measurements(selected)
    bounds = _bounds(selected, values)
    ranks = {metric: metric_ranks(metric, by_vpn, bounds[metric]) for metric, by_vpn in values.items()}
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
                at_least=[metric for metric, by_vpn in bounds.items() if by_vpn.get(vpn)],
                missing=absent,
                imputed=imputed,
            )
        )
    standings = _with_places(standings)
    placed = [standing.vpn for standing in standings if standing.place]
    bounded = {metric: {vpn for vpn, found in by_vpn.items() if found} for metric, by_vpn in bounds.items()}
    order = draw_order(values, bounded, weights.counted, placed, len(alive), run.seed)
    standings = _with_chances(standings, order)
    return Ranking(
        configuration=configuration,
        image=image,
        weights=weights,
        traffic={metric: _traffic(metric, selected) for metric in values},
        standings=standings,
        pairs=[_pair(a, b, order) for a, b in pairwise(standing for standing in standings if standing.place)],
        slack=slack({standing.vpn: standing.ranks for standing in standings if standing.place}, weights),
        method="rank per metric = 1 + number of VPNs significantly better (95 % interval of the ratio paired within "
        "blocks, each pair on its own; what is known from below only is never called worse); weighted average rank "
        "after the OSLV paper",
        probability_method=f"{DRAWS} draws of every VPN's mean logarithm from its t distribution (block effects "
        f"removed; a VPN with one block has the others' spread), ranked anew without ties; seed {run.seed}"
        if order
        else "no probability: it needs two VPNs, and two blocks of one VPN at least of every weighted metric",
    )


def measured_metrics(trials: Sequence[Trial]) -> set[str]:
    """The metrics that at least one ok trial measured: those that weights may name."""
    return {measurement.metric for trial in trials if trial.status == "ok" for measurement in trial.measurements}


def ranked_by(metric: str) -> dict[str, str]:
    """The traffic that a metric is ranked by. Only ``transport`` must be named by a trial's parameters."""
    transport = METRICS[metric].transport
    return STREAM if transport == "tcp" else {"transport": transport, "payload": "random"}


def conditions_of(params: Mapping[str, str]) -> dict[str, str]:
    """What cells must share to be compared: the levels of the traffic and of the WAN, not those of the tunnel."""
    return {factor: params[factor] for factor in (*TRAFFIC_FACTORS, *WAN_FACTORS) if factor in params}


def metric_ranks(
    metric: str, values: Mapping[str, Blocks], bounds: Mapping[str, Set[int]] | None = None
) -> dict[str, int]:
    """VPN -> 1 + the number of VPNs significantly better. ``values``: VPN -> block -> value.

    ``bounds``: VPN -> the blocks in which its value is a lower bound. Where the comparison uses one of them,
    it cannot show that this VPN is below another.
    """
    higher = METRICS[metric].better == "higher"
    ranks = dict.fromkeys(values, 1)
    for a, b in combinations(values, 2):
        ratio = compare_blocks(values[a], values[b])
        if not ratio.significant or ratio.ratio is None:
            continue
        less = b if ratio.ratio > 1 else a
        if not (bounds or {}).get(less, set()) & values[a].keys() & values[b].keys():
            ranks[less if higher else (a if less == b else b)] += 1
    return ranks


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


def _with_chances(standings: Sequence[Standing], order: Order | None) -> list[Standing]:
    """The probability of being best and the interval of the place, for the ranked; equals by their probability."""
    if order is None:
        return list(standings)
    best, places = order.chances_of_best(), order.place_intervals()
    found = [
        standing.model_copy(
            update={"best_probability": best.get(standing.vpn), "place_interval": places.get(standing.vpn)}
        )
        for standing in standings
    ]
    return sorted(found, key=lambda standing: (standing.place or len(found) + 1, -(standing.best_probability or 0)))


def _pair(a: Standing, b: Standing, order: Order | None) -> Pair:
    """Who shares a place stands in the likelier order."""
    if order is None:
        return Pair(first=a.vpn, second=b.vpn)
    before, equal = order.pair(a.vpn, b.vpn)
    first, second = a.vpn, b.vpn
    if a.place == b.place and before + equal < 0.5:
        first, second, before = b.vpn, a.vpn, 1 - before - equal
    pair = Pair(first=first, second=second, probability=before, equal=equal)
    return pair.model_copy(update={"separated": pair.certainty >= CONFIDENCE})


def _selected(run: Run, trials: Sequence[Trial], configuration: str) -> dict[str, list[Trial]]:
    """Candidate VPN -> its trials at the configuration's tunnel levels."""
    return {
        vpn: [trial for trial in trials if trial.vpn == vpn and trial.params.items() >= levels.items()]
        for vpn, record in run.vpns.items()
        if not record.reference and (levels := record.configurations.get(configuration)) is not None
    }


def _for_metric(metric: str, trials: Sequence[Trial]) -> list[Trial]:
    wanted = ranked_by(metric)
    return [
        trial
        for trial in trials
        if trial.params.get("transport") == wanted["transport"]
        and all(trial.params.get(factor, level) == level for factor, level in wanted.items())
    ]


def _traffic(metric: str, selected: Mapping[str, Sequence[Trial]]) -> dict[str, str]:
    """The one traffic that the metric is ranked by: what most ok trials have, the largest payload of equals."""
    found: Counter[tuple[tuple[str, str], ...]] = Counter(
        tuple(conditions_of(trial.params).items())
        for trials in selected.values()
        for trial in _for_metric(metric, trials)
        if any(measurement.metric == metric for measurement in trial.measurements)
    )
    if not found:
        return {}
    most = max(sorted(found), key=lambda traffic: (found[traffic], dict(traffic).get("payload_bytes", "").zfill(9)))
    return dict(most)


def _measurements(selected: Mapping[str, Sequence[Trial]]) -> dict[str, dict[str, dict[int, float]]]:
    """Metric -> VPN -> block -> value, with what was measured only."""
    values = {}
    for metric in METRICS:
        traffic = _traffic(metric, selected)
        by_vpn = {vpn: block_values(_with(traffic, metric, trials), metric) for vpn, trials in selected.items()}
        if any(by_vpn.values()):
            values[metric] = {vpn: blocks for vpn, blocks in by_vpn.items() if blocks}
    return values


def _bounds(
    selected: Mapping[str, Sequence[Trial]], values: Mapping[str, Mapping[str, Blocks]]
) -> dict[str, dict[str, set[int]]]:
    """Metric -> VPN -> the blocks in which its value is a lower bound."""
    return {
        metric: {vpn: lower_bounds(_with(_traffic(metric, selected), metric, selected[vpn]), metric) for vpn in by_vpn}
        for metric, by_vpn in values.items()
    }


def _with(traffic: Mapping[str, str], metric: str, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that the metric is ranked by, with this one traffic."""
    return [trial for trial in _for_metric(metric, trials) if conditions_of(trial.params) == traffic]


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
    udp = METRICS[metric].transport == "udp" or metric == "udp_rtt"
    return "carries TCP only" if udp and vpn in run.vpns and run.vpns[vpn].carries == "tcp" else "not measured"
