"""What a reader must know before believing a ranking."""

from __future__ import annotations

from collections.abc import Sequence

from questions.rank.judgement import Ranked
from questions.rank.words import loss_sentences
from runner.data.levels import unusual
from runner.data.trials import Run, Trial
from runner.evidence.configurations import for_metric
from runner.evidence.model import Configuration
from runner.ranking.model import Ranking
from runner.ranking.weights import PRESETS
from runner.report.facts import blocks_of
from runner.report.text import count_noun, levels


def caveats(ranked: Ranked) -> list[str]:
    """The caveats of the rankings, a sentence each."""
    run, trials = ranked.evidence.run, ranked.evidence.trials
    blocks = blocks_of([trial for trial in trials if trial.status == "ok"])
    sentences = [
        sentence
        for ranking in ranked.rankings
        for sentence in (
            *_lost_metrics(run, ranking, trials),
            *(f"Ranking {ranking.configuration}: {sentence}" for sentence in loss_sentences(ranking)),
            *_thin(ranking, blocks),
            *_from_below(ranking),
        )
    ]
    return sentences + unusual_traffic(ranked.bases)


def _lost_metrics(run: Run, ranking: Ranking, trials: Sequence[Trial]) -> list[str]:
    """A sentence for each metric that the balanced preset counts, but that no VPN has because its trials failed."""
    tunnels = {standing.vpn: standing.levels.items() for standing in ranking.standings}
    failed = [t for t in trials if t.status == "failed" and t.params.items() >= tunnels.get(t.vpn, {("", "")})]
    balanced = PRESETS["balanced"].counted_metrics if ranking.weights.name == "balanced" else {}
    lost = {
        run.metrics[name].title: len(for_metric(run.metrics[name], failed))
        for name in balanced
        if name in run.metrics and name not in ranking.weights.values
    }
    return [
        f"Ranking {ranking.configuration}: {title} does not count: no VPN has it, and "
        f"{count_noun(count, 'trial')} of it failed."
        for title, count in lost.items()
        if count
    ]


def _thin(ranking: Ranking, blocks: int) -> list[str]:
    """A sentence that names the VPNs that are ranked on fewer blocks than others."""
    thin = [
        standing.vpn
        for standing in ranking.standings
        if standing.place
        and any(standing.blocks.get(metric, blocks) < min(2, blocks) for metric in ranking.weights.counted_metrics)
    ]
    if not thin:
        return []
    return [
        f"Ranking {ranking.configuration}: in some metric, only one trial of {', '.join(thin)} ended ok. vpneval takes "
        "the spread there from the other VPNs."
    ]


def _from_below(ranking: Ranking) -> list[str]:
    """A sentence for each metric in which VPNs were faster than could be measured. They rank no lower for that."""
    by_metric: dict[str, list[str]] = {}
    for standing in ranking.standings:
        for metric in standing.at_least if standing.place else []:
            if metric in ranking.weights.counted_metrics:
                by_metric.setdefault(metric, []).append(standing.vpn)
    return [
        f"Ranking {ranking.configuration}: the {ranking.titles[metric]} of {', '.join(vpns)} is a lower bound (≥), so "
        "vpneval does not call it worse than any other."
        for metric, vpns in by_metric.items()
    ]


def unusual_traffic(configurations: Sequence[Configuration]) -> list[str]:
    """A sentence for each ranking and each unusual traffic that some of its metrics were measured with."""
    sentences = []
    for configuration in configurations:
        metrics: dict[str, list[str]] = {}
        for metric, asked in configuration.traffic.items():
            if under := unusual(asked):
                metrics.setdefault(levels(under), []).append(configuration.metrics[metric].title)
        sentences += [
            f"Ranking {configuration.configuration}: {', '.join(titles)}: ranked by what was measured with {under}, as "
            "most VPNs were."
            for under, titles in metrics.items()
        ]
    return sentences
