"""What a ranking is made from, whatever the weights: the values of a configuration, and the ranks drawn from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from runner.data.trials import Run, Trial
from runner.evidence.configurations import configurations_of
from runner.evidence.estimates import Estimate, estimate_pairs
from runner.evidence.model import Configuration
from runner.ranking.draws import DrawnRanks, Order, draw_ranks, order_of
from runner.ranking.model import Weights
from runner.ranking.ranks import separated_pairs


@dataclass(frozen=True)
class Basis(Configuration):
    """A configuration, with what was estimated and drawn of it so far."""

    _drawn: dict[str, DrawnRanks | None] = field(default_factory=dict)
    _pairs: dict[str, dict[tuple[str, str], Estimate]] = field(default_factory=dict)
    _better: dict[str, Set[tuple[str, str]]] = field(default_factory=dict)

    def pairs(self, metric: str) -> Mapping[tuple[str, str], Estimate]:
        """(a, b) -> the log ratio of a over b in this metric, of the pairs that have one."""
        if metric not in self._pairs:
            self._pairs[metric] = estimate_pairs(self.values[metric])
        return self._pairs[metric]

    def better(self, metric: str) -> Set[tuple[str, str]]:
        """The pairs (better, worse) that the metric tells apart, each on its own."""
        if metric not in self._better:
            self._better[metric] = separated_pairs(self.metrics[metric], self.values[metric], self.bounds[metric])
        return self._better[metric]

    def drawn(self, metric: str) -> DrawnRanks | None:
        """The metric's ranks in every draw, made when they are first asked for."""
        if metric not in self._drawn:
            bounded = {vpn for vpn, blocks in self.bounds[metric].items() if blocks}
            values, pairs = self.values[metric], self.pairs(metric)
            self._drawn[metric] = draw_ranks(
                self.metrics[metric], values, bounded, self.seed, pairs, self.lost[metric].keys()
            )
        return self._drawn[metric]

    def ranks(self, metric: str) -> dict[str, float]:
        """VPN -> its expected rank in the metric: the mean over the draws. Where nothing could be drawn, the order is
        unknown, and all VPNs have the middle rank."""
        drawn = self.drawn(metric)
        vpns = self.values[metric]
        return drawn.mean_ranks() if drawn else dict.fromkeys(vpns, (1 + len(vpns)) / 2)

    def order(self, weights: Weights, ranked: Sequence[str]) -> Order | None:
        """The order of the ranked VPNs in every draw. None with fewer than two VPNs, or without two blocks of each
        metric."""
        drawn = {metric: self.drawn(metric) for metric in weights.counted_metrics if metric in self.values}
        known = {metric: ranks for metric, ranks in drawn.items() if ranks}
        if len(ranked) < 2 or len(known) < len(drawn):
            return None
        return order_of(known, weights.counted_metrics, tuple(ranked))


def bases(
    run: Run, trials: Sequence[Trial], metrics: Collection[str] = (), configurations: Sequence[str] | None = None
) -> list[Basis]:
    """A basis for each configuration that is compared; see ``configurations_of``."""
    return [Basis(**vars(one)) for one in configurations_of(run, trials, metrics, configurations)]
