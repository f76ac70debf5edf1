"""The weighted average rank of the OSLV paper ( "Performance evaluation
results"): rank the VPNs for each attribute, weight the ranks, and average.

Two things are added. A rank is 1 + the number of VPNs that are *significantly* better, so that VPNs which
the measurement cannot tell apart share one. And the order's own uncertainty is given: the probability that
each VPN is best, the interval of its place, how sure each pair of neighbours is, and how far each weight may
move before another VPN wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Literal

from runner.draws import CONFIDENCE, DRAWS, Blocks, DrawnRanks, Order, draw_ranks, order_of
from runner.errors import UsageError
from runner.metrics import METRICS
from runner.model import TRAFFIC_FACTORS, WAN_FACTORS, Run, Strict, Trial
from runner.stats import block_values, compare_blocks, lead_of_differences, lower_bounds
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


@dataclass(frozen=True)
class Basis:
    """What a ranking of one configuration is made from, whatever the weights. ``values``: metric -> VPN -> block ->
    value; ``bounds``: the blocks in which it is a lower bound; ``better``: metric -> the pairs (better, worse) that it
    tells apart; ``ranks``: metric -> VPN -> rank, which follows from them; ``levels``: VPN -> its tunnel, of all that
    are not references; ``reasons``: VPN -> metric -> why it has no value."""

    configuration: str
    image: str
    seed: int
    levels: Mapping[str, dict[str, str]]
    traffic: Mapping[str, dict[str, str]]
    values: Mapping[str, Mapping[str, Blocks]]
    bounds: Mapping[str, Mapping[str, Set[int]]]
    better: Mapping[str, Set[tuple[str, str]]]
    ranks: Mapping[str, Mapping[str, int]]
    reasons: Mapping[str, Mapping[str, str]]
    _drawn: dict[str, DrawnRanks | None] = field(default_factory=dict)

    def drawn(self, metric: str) -> DrawnRanks | None:
        """The metric's ranks in every draw, made when they are first asked for."""
        if metric not in self._drawn:
            bounded = {vpn for vpn, found in self.bounds[metric].items() if found}
            self._drawn[metric] = draw_ranks(metric, self.values[metric], bounded, self.seed)
        return self._drawn[metric]

    def order(self, weights: Weights, ranked: Sequence[str], worst: int) -> Order | None:
        """The order of the ranked VPNs in every draw, or None without two of them and two blocks of each metric."""
        drawn = {metric: self.drawn(metric) for metric in weights.counted if metric in self.values}
        known = {metric: ranks for metric, ranks in drawn.items() if ranks}
        if len(ranked) < 2 or len(known) < len(drawn):
            return None
        return order_of(known, weights.counted, tuple(ranked), worst)


def rank_all(
    run: Run,
    trials: Sequence[Trial],
    *,
    configurations: Sequence[str] | None = None,
    weights: Weights | None = None,
    missing: Missing = "unranked",
) -> list[Ranking]:
    """A ranking for each basis (see ``bases``), by default with ``balanced`` weights over what was measured."""
    counted = weights.counted if weights else ()
    found = bases(run, trials, counted, configurations)
    return [weigh(basis, weights or default_weights(basis.values), missing) for basis in found]


def bases(
    run: Run, trials: Sequence[Trial], metrics: Collection[str] = (), configurations: Sequence[str] | None = None
) -> list[Basis]:
    """What to rank by, for each configuration, and each gateway image where that is a factor.

    By default the configurations in which something was measured. ``metrics``: those that may count beside the
    measured ones. Raises UsageError for a configuration that no VPN of the run has.
    """
    known = sorted({name for record in run.vpns.values() for name in record.configurations})
    for name in configurations or ():
        if name not in known:
            raise UsageError(f"unknown configuration {name!r}. Valid: {', '.join(known)}")
    images = sorted({trial.params.get("image", "") for trial in trials}) or [""]
    found = []
    for name in configurations or known:
        for image in images:
            chosen = [trial for trial in trials if trial.params.get("image", "") == image]
            basis = _basis(run, chosen, name, metrics, image)
            if basis.values or configurations:
                found.append(basis)
    return found


def rank(
    run: Run,
    trials: Sequence[Trial],
    *,
    configuration: str,
    weights: Weights,
    missing: Missing = "unranked",
    image: str = "",
) -> Ranking:
    """Rank the run's VPNs, references left out, in the named configuration; see ``weigh``."""
    return weigh(_basis(run, trials, configuration, weights.counted, image), weights, missing)


def weigh(basis: Basis, weights: Weights, missing: Missing = "unranked") -> Ranking:
    """Weight a basis' ranks.

    A VPN without a weighted metric is not ranked, with its reason; with ``missing="worst"`` it gets the
    last rank there is (the number of VPNs with any weighted metric), unless it has none at all.
    """
    alive = {vpn for metric in weights.counted for vpn in basis.values.get(metric, {})}
    standings = []
    for vpn, levels in basis.levels.items():
        absent = [metric for metric in weights.counted if vpn not in basis.values.get(metric, {})]
        own = {metric: found[vpn] for metric, found in basis.ranks.items() if vpn in found}
        imputed = sorted(absent) if missing == "worst" and vpn in alive else []
        own |= dict.fromkeys(imputed, len(alive))
        average = None if (absent and not imputed) or not weights.counted else weighted_average(own, weights)
        standings.append(
            Standing(
                vpn=vpn,
                levels=levels,
                ranks=own,
                blocks={metric: len(by_vpn[vpn]) for metric, by_vpn in basis.values.items() if vpn in by_vpn},
                average=average,
                at_least=[metric for metric, by_vpn in basis.bounds.items() if by_vpn.get(vpn)],
                missing={metric: basis.reasons[vpn][metric] for metric in absent},
                imputed=imputed,
            )
        )
    standings = _with_places(standings)
    order = basis.order(weights, [standing.vpn for standing in standings if standing.place], len(alive))
    standings = _with_chances(standings, order)
    return Ranking(
        configuration=basis.configuration,
        image=basis.image,
        weights=weights,
        traffic=dict(basis.traffic),
        standings=standings,
        pairs=[_pair(a, b, order) for a, b in pairwise(standing for standing in standings if standing.place)],
        slack=slack({standing.vpn: standing.ranks for standing in standings if standing.place}, weights),
        method="rank per metric = 1 + number of VPNs significantly better (95 % interval of the ratio paired within "
        "blocks, each pair on its own; what is known from below only is never called worse); weighted average rank "
        "after the OSLV paper",
        probability_method=f"{DRAWS} draws of every VPN's mean logarithm from its t distribution (block effects "
        f"removed; a VPN with one block has the others' spread), ranked anew without ties; seed {basis.seed}"
        if order
        else "no probability: it needs two VPNs, and two blocks of one VPN at least of every weighted metric",
    )


def _basis(run: Run, trials: Sequence[Trial], configuration: str, metrics: Collection[str], image: str) -> Basis:
    selected = _selected(run, trials, configuration)
    measured = measured_metrics(trials)
    traffics = {metric: _traffic(metric, selected) for metric in METRICS if metric in measured}
    values = _measurements(selected, traffics)
    bounds = _bounds(selected, values, traffics)
    better = {metric: apart(metric, by_vpn, bounds[metric]) for metric, by_vpn in values.items()}
    candidates = [vpn for vpn, record in run.vpns.items() if not record.reference]
    return Basis(
        configuration=configuration,
        image=image,
        seed=run.seed,
        levels={vpn: run.vpns[vpn].configurations.get(configuration, {}) for vpn in candidates},
        traffic={metric: traffics[metric] for metric in values},
        values=values,
        bounds=bounds,
        better=better,
        ranks={metric: _ranks(by_vpn, better[metric]) for metric, by_vpn in values.items()},
        reasons={
            vpn: {
                metric: _reason(run, vpn, metric, selected)
                for metric in METRICS
                if (metric in metrics or metric in values) and vpn not in values.get(metric, {})
            }
            for vpn in candidates
        },
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
    """VPN -> 1 + the number of VPNs significantly better. ``values``: VPN -> block -> value; ``bounds``: see apart."""
    return _ranks(values, apart(metric, values, bounds))


def _ranks(vpns: Collection[str], better: Set[tuple[str, str]]) -> dict[str, int]:
    ahead = Counter(worse for _, worse in better)
    return {vpn: 1 + ahead[vpn] for vpn in vpns}


def apart(
    metric: str, values: Mapping[str, Blocks], bounds: Mapping[str, Set[int]] | None = None
) -> set[tuple[str, str]]:
    """The pairs (better, worse) of VPNs that the metric tells apart. ``values``: VPN -> block -> value.

    ``bounds``: VPN -> the blocks in which its value is a lower bound. Where the comparison uses one of them,
    it cannot show that this VPN is below another.
    """
    higher = METRICS[metric].better == "higher"
    found = set()
    for a, b in combinations(values, 2):
        ratio = compare_blocks(values[a], values[b])
        if ratio.ratio is None:  # a value is not positive, a verdict of 0, say
            lead = lead_of_differences(values[a], values[b])
        else:
            lead = ratio.significant * (1 if ratio.ratio > 1 else -1)
        if not lead:
            continue
        more, less = (a, b) if lead > 0 else (b, a)
        if not (bounds or {}).get(less, set()) & values[a].keys() & values[b].keys():
            found.add((more, less) if higher else (less, more))
    return found


def weighted_average(ranks: Mapping[str, float], weights: Weights) -> float:
    """Σ weight·rank / Σ weight over the metrics that count, added one after the other as the report's page does
    (``sum`` compensates for rounding since Python 3.12)."""
    total = counted = 0.0
    for metric, weight in weights.counted.items():
        total += weight * ranks[metric]
        counted += weight
    return total / counted


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
    selected: dict[str, list[Trial]] = {}
    wanted: dict[str, dict[str, str]] = {}
    for vpn, record in run.vpns.items():
        if not record.reference and configuration in record.configurations:
            selected[vpn], wanted[vpn] = [], record.configurations[configuration]
    for trial in trials:
        if trial.vpn in wanted and trial.params.items() >= wanted[trial.vpn].items():
            selected[trial.vpn].append(trial)
    return selected


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


def _measurements(
    selected: Mapping[str, Sequence[Trial]], traffics: Mapping[str, dict[str, str]]
) -> dict[str, dict[str, dict[int, float]]]:
    """Metric -> VPN -> block -> value, with what was measured only; ``traffics``: metric -> what it is ranked by."""
    values = {}
    for metric, traffic in traffics.items():
        by_vpn = {vpn: block_values(_with(traffic, metric, trials), metric) for vpn, trials in selected.items()}
        if any(by_vpn.values()):
            values[metric] = {vpn: blocks for vpn, blocks in by_vpn.items() if blocks}
    return values


def _bounds(
    selected: Mapping[str, Sequence[Trial]],
    values: Mapping[str, Mapping[str, Blocks]],
    traffics: Mapping[str, dict[str, str]],
) -> dict[str, dict[str, set[int]]]:
    """Metric -> VPN -> the blocks in which its value is a lower bound."""
    return {
        metric: {vpn: lower_bounds(_with(traffics[metric], metric, selected[vpn]), metric) for vpn in by_vpn}
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
    for trial in selected[vpn]:
        if unsure := trial.attempt.get("inconclusive", {}).get(metric):
            return f"inconclusive: {unsure['reason']}"
    first = next(iter(asked or ([] if worked else told)), None)
    return f"{first.status}: {first.reason}" if first else why_absent(run, vpn, metric)


def why_absent(run: Run, vpn: str, metric: str) -> str:
    """Why an ok trial has no value of ``metric``, as far as the plugin's own data tells."""
    udp = METRICS[metric].transport == "udp" or metric == "udp_rtt"
    return "carries TCP only" if udp and vpn in run.vpns and run.vpns[vpn].carries == "tcp" else "not measured"
