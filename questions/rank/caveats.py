"""What a reader must know before believing a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from questions.rank.judgement import Ranked
from questions.rank.words import loss_sentences
from runner.data.levels import unusual
from runner.evidence.model import Configuration
from runner.ranking.model import Ranking
from runner.report.text import count_noun, levels


def caveats(ranked: Ranked) -> list[str]:
    """The caveats of the rankings, a sentence each."""
    sentences = [
        sentence
        for ranking, failed in zip(ranked.rankings, ranked.failed, strict=True)
        for sentence in (
            *_lost_metrics(ranking, failed),
            *(f"Ranking {ranking.configuration}: {sentence}" for sentence in loss_sentences(ranking)),
            *_thin(ranking, ranked.blocks),
            *_from_below(ranking),
        )
    ]
    return sentences + unusual_traffic(ranked.bases)


def _lost_metrics(ranking: Ranking, failed: Mapping[str, int]) -> list[str]:
    """A sentence for each metric that does not count because its trials failed. ``failed``: title -> how many."""
    return [
        f"Ranking {ranking.configuration}: {title} does not count: no VPN has it, and "
        f"{count_noun(count, 'trial')} of it failed."
        for title, count in failed.items()
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
