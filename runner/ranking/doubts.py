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
    """An undecided pair. ``seconds``: about how much longer both would have to be measured; None where nothing tells,
    because too little has been measured. ``levels``: VPN -> its tunnel's; ``traffic``: of what would be measured.
    ``peers``: with how many others each of the two is compared in this metric. ``decided``: it is not undecided, only
    its ratio is known less exactly than is wanted."""

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
        """Would measuring this cell help? Either VPN's, with the same tunnel and traffic, and the baseline's."""
        image = {"image": self.image} if self.image else {}
        tunnels = {vpn: {**levels, **image} for vpn, levels in self.levels.items()} | {BASELINE: {}}
        return (
            cell.vpn in tunnels
            and cell.params.items() >= tunnels[cell.vpn].items()
            and outside_of_tunnel(cell.params) == self.traffic
        )


def look(run: Run, trials: Sequence[Trial], weights: Weights | None = None, looks: int | None = None) -> list[Verdict]:
    """All verdicts of a run, of the metrics that count in its rankings (by default ``balanced``), at the significance
    level of a run that is looked at ``looks`` times: by default the run's own number. A conductor that may look six
    times asks with six at each."""
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
    """The pairs that are undecided, of which more measuring may help, the soonest decided first; see ``look``. Pairs
    of which nothing can be told yet come before all. ``share``: how much of the run's time is over. ``widths``: metric
    -> by what factor the 95 % interval of a ratio may reach from its middle. Decided pairs of the first configuration
    whose interval reaches farther come last."""
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
    """Of these cells those that go on, in their order: those of an undecided pair, and their baseline's."""
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
