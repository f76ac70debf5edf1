"""Judges the order of a run's VPNs: rankings, the verdicts on each pair, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence

from questions.rank.judgement import Ranked, RankedNumber, Spread
from runner.data.trials import MOST_LOOKS, Run, Trial
from runner.design.question import Evidence
from runner.evidence.configurations import for_metric
from runner.evidence.estimates import components, machines_of
from runner.evidence.model import Configuration
from runner.evidence.stats import blocks_of, summarise_all
from runner.ranking.basis import Basis
from runner.ranking.model import Ranking
from runner.ranking.ranking import weigh
from runner.ranking.rankings import Rankings
from runner.ranking.verdicts import verdicts
from runner.ranking.weights import PRESETS, default_weights, of_run
from runner.report import text
from runner.report.breakdowns import breakdowns
from runner.report.find_limits import find_limits

LEAST_SHARE = 0.05  # of a run, before which nothing is decided


def rank(evidence: Evidence) -> Ranked:
    """The verdicts, at the significance of a run that is looked at as often as it was, and all else that the words
    need; of a run that goes on, at that of one that is looked at as often as this call may, too, and nothing else."""
    run, trials = evidence.run, evidence.trials
    made = Rankings(run, trials, evidence.weights, evidence.configurations)
    if evidence.share is not None:
        counted = [(evidence.weights or default_weights(basis.values)).counted_metrics.keys() for basis in made.bases]
        over = min(1.0, max(LEAST_SHARE, evidence.share))
        found = verdicts(made.bases, counted, run.looks + MOST_LOOKS - 1, over)
        return Ranked(verdicts=found, evidence=evidence, bases=made.bases)
    return Ranked(
        weighed=evidence.weights is not None,
        rankings=made.rankings,
        verdicts=made.verdicts,
        spreads=spreads(made.bases),
        behind=[ranked_numbers(basis) for basis in made.bases],
        machines=made.machines,
        seconds_more=made.seconds_more,
        evidence=evidence,
        bases=made.bases,
        by_tcp=[_by_tcp(*pair) for pair in zip(made.bases, made.rankings, strict=True)],
        failed=[_failed_metrics(run, ranking, trials) for ranking in made.rankings],
        blocks=blocks_of([trial for trial in trials if trial.status == "ok"]),
        breakdowns=breakdowns(trials),
        limits=find_limits(run, trials, made.bases),
    )


def spreads(configurations: Sequence[Configuration]) -> list[Spread]:
    """The spread of every metric that was measured by rounds, for each ranking."""
    return [
        Spread(
            configuration=made.configuration,
            image=made.image,
            metric=metric,
            components=parts,
            between="machines" if machines_of(by_vpn) else "instances",
        )
        for made in configurations
        for metric, by_vpn in made.values.items()
        if (parts := components(by_vpn))
    ]


def ranked_numbers(made: Configuration) -> list[RankedNumber]:
    """The numbers of every metric that has values, in the order of the definitions."""
    numbers = []
    for metric, by_vpn in made.values.items():
        values = [list(blocks.values()) for blocks in by_vpn.values()]
        summaries = summarise_all(values, exact=made.metrics[metric].exact)
        numbers.append(
            RankedNumber(
                metric=metric,
                traffic=text.levels(made.traffic[metric]),
                summaries=dict(zip(by_vpn, summaries, strict=True)),
                at_least=[vpn for vpn, blocks in made.bounds[metric].items() if blocks],
            )
        )
    return numbers


def _by_tcp(basis: Basis, ranking: Ranking) -> Ranking | None:
    """The ranking by the preset ``tcp``. None where the weights are no balanced ones, where they leave out no VPN
    because it carries TCP only, and where the run did not measure what the preset counts."""
    left_out = (next(iter(one.causes.values()), "") for one in ranking.standings if one.place is None)
    if ranking.weights.name != "balanced" or "tcp only" not in left_out:
        return None
    weights = of_run(PRESETS["tcp"], basis.values)
    return weigh(basis, weights) if weights.counted_metrics.keys() <= basis.values.keys() else None


def _failed_metrics(run: Run, ranking: Ranking, trials: Sequence[Trial]) -> dict[str, int]:
    """Title -> how many trials failed, of each metric that the balanced preset counts and no VPN has."""
    tunnels = {standing.vpn: standing.levels.items() for standing in ranking.standings}
    failed = [t for t in trials if t.status == "failed" and t.params.items() >= tunnels.get(t.vpn, {("", "")})]
    balanced = PRESETS["balanced"].counted_metrics if ranking.weights.name == "balanced" else {}
    lost = {
        run.metrics[name].title: len(for_metric(run.metrics[name], failed))
        for name in balanced
        if name in run.metrics and name not in ranking.weights.values
    }
    return {title: count for title, count in lost.items() if count}
