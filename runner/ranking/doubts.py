"""What a run has not decided yet, and what it would take: where the next rounds should go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.data.levels import BASELINE, outside_of_tunnel
from runner.data.trials import Cell, Run, Trial
from runner.ranking.basis import Basis, bases
from runner.ranking.verdicts import Verdict, verdicts
from runner.ranking.weights import Weights, default_weights


@dataclass(frozen=True)
class Doubt:
    """A pair that needs more measuring. ``seconds``: about how much longer both VPNs would have to be measured; None
    where too little has been measured to tell. ``levels``: VPN -> its tunnel's levels; ``traffic``: of what would be
    measured. ``peers``: the number of other VPNs that each of the two is compared with in this metric. ``decided``: the
    verdict is decided, but the ratio is known less exactly than wanted."""

    metric: str
    configuration: str
    image: str
    a: str
    b: str
    seconds: float | None
    levels: Mapping[str, Mapping[str, str]]
    traffic: Mapping[str, str]
    peers: int = 1
    decided: bool = False

    @property
    def words(self) -> str:
        """``rtt: openvpn and ssh_tun (comparable)``."""
        where = self.configuration + (f", {self.image}" if self.image else "")
        return f"{self.metric}: {self.a} and {self.b} ({where})"

    def asks_for(self, cell: Cell) -> bool:
        """Would measuring this cell help? It must be a cell of either VPN, or of the baseline, with the same tunnel and
        traffic."""
        image = {"image": self.image} if self.image else {}
        tunnels = {vpn: {**levels, **image} for vpn, levels in self.levels.items()} | {BASELINE: {}}
        return (
            cell.vpn in tunnels
            and cell.params.items() >= tunnels[cell.vpn].items()
            and outside_of_tunnel(cell.params) == self.traffic
        )


def look(run: Run, trials: Sequence[Trial], weights: Weights | None = None, looks: int | None = None) -> list[Verdict]:
    """All verdicts of a run, in the metrics that count in its rankings (by default ``balanced``). The significance
    level is that of a run that is looked at ``looks`` times; by default the run's own number. A conductor that may look
    six times passes six at each look."""
    basis_list = bases(run, trials)
    counted = [(weights or default_weights(basis.values)).counted.keys() for basis in basis_list]
    return verdicts(basis_list, counted, run.looks if looks is None else looks)


def doubts(
    run: Run,
    trials: Sequence[Trial],
    weights: Weights | None = None,
    looks: int | None = None,
    share: float = 1.0,
    widths: Mapping[str, float] | None = None,
) -> list[Doubt]:
    """The undecided pairs for which more measuring may help, the soonest decided first; see ``look``. Pairs with too
    little data for an estimate come before all. ``share``: the share of the run's time that is over. ``widths``: metric
    -> the largest factor from the middle of a ratio's 95 % interval to its end. Decided pairs of the first
    configuration with a wider interval come last."""
    basis_list = bases(run, trials)
    counted = [(weights or default_weights(basis.values)).counted.keys() for basis in basis_list]
    of = {(basis.configuration, basis.image): basis for basis in basis_list}
    every = verdicts(basis_list, counted, run.looks if looks is None else looks, share)
    undecided = [
        _doubt(of[verdict.configuration, verdict.image], verdict)
        for verdict in every
        if verdict.decision == "undecided"
    ]
    wide = [
        _doubt(of[verdict.configuration, verdict.image], verdict)
        for verdict in every
        if verdict.decision != "undecided"
        and verdict.configuration == basis_list[0].configuration
        and half_width(verdict) > (widths or {}).get(verdict.metric, math.inf)
    ]
    return sorted(undecided, key=lambda doubt: -1.0 if doubt.seconds is None else doubt.seconds) + wide


def half_width(verdict: Verdict) -> float:
    """The factor from the middle of a ratio's 95 % interval to its end; 1 where there is none."""
    return math.sqrt(verdict.high / verdict.low) if verdict.high and verdict.low else 1.0


def cells_in_doubt(pairs_in_doubt: Sequence[Doubt], cells: Sequence[Cell]) -> list[Cell]:
    """The cells that go on, in their order: those of the pairs in doubt, and their baseline's."""
    asked = [cell for cell in cells if any(doubt.asks_for(cell) for doubt in pairs_in_doubt)]
    return asked if any(cell.vpn != BASELINE for cell in asked) else []


def _doubt(basis: Basis, verdict: Verdict) -> Doubt:
    return Doubt(
        metric=verdict.metric,
        configuration=verdict.configuration,
        image=verdict.image,
        a=verdict.a,
        b=verdict.b,
        seconds=verdict.seconds,
        levels={vpn: basis.levels[vpn] for vpn in (verdict.a, verdict.b)},
        traffic=basis.traffic[verdict.metric],
        peers=len(basis.values[verdict.metric]) - 1,
        decided=verdict.decision != "undecided",
    )
