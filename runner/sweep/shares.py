"""How a deadline's time is shared out: among the blocks, and between what a ranking is made of and the rest."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from runner.data.levels import BASELINE, outside_of_tunnel, tunnel_levels
from runner.data.trials import Cell
from runner.sweep.plan import TUNNEL_S, Block, PlannedTunnel, Sums, expected_s
from runner.sweep.settings import Stage

UP_SHARE = 0.25  # of the time for what no ranking is made of bringing tunnels up may take, else it is taken whole


@dataclass
class Shares:
    """How the time of a deadline is divided; without a deadline every share is unlimited.

    ``ranked``: the keys of the cells that a ranking is made of; ``side_left_s``: the time that all other cells may
    still take; ``pace``: real over expected time, learnt during the run.
    """

    stage: Stage
    ranked: Collection[str]
    side_left_s: float = 0.0
    pace: float = 1.0

    def is_ranked(self, tunnel: PlannedTunnel) -> bool:
        """Is a ranking made of any trial of this tunnel?"""
        return any(trial.cell.key in self.ranked for trial in tunnel.trials)

    def took(self, tunnel: PlannedTunnel, seconds: float) -> None:
        """Learn the pace from how long a tunnel with its trials has taken."""
        self.pace += 0.1 * (seconds / expected_s(tunnel, self.stage.profile) - self.pace)

    def need_s(self, tunnels: Sequence[PlannedTunnel]) -> float:
        """How long these tunnels will take, one after another, in seconds."""
        return self.pace * sum(expected_s(tunnel, self.stage.profile) for tunnel in tunnels)

    def ranked_s(self, planned: Block, later: Sums) -> float:
        """How many seconds the ranked tunnels of this block may take; infinite without a deadline."""
        if self.stage.deadline is None:
            return float("inf")
        single_s = self.need_s(planned.single) + self.pace * later.single_s
        side_s = self.side_left_s if any(not self.is_ranked(tunnel) for tunnel in planned.standing) else 0.0
        left_s = self.stage.deadline - time.monotonic() - single_s - max(0.0, side_s)
        return left_s / (1 + later.standing)

    def side_s(self, side: Sequence[PlannedTunnel], blocks_left: int) -> float:
        """How many seconds the unranked tunnels ``side`` may take in this block: an even share of what is left for
        them, or all of it where an even share would hardly bring them up. Infinite without a deadline."""
        if self.stage.deadline is None:
            return float("inf")
        up_s = TUNNEL_S * len(side)
        even_s = self.side_left_s / blocks_left
        share_s = even_s if UP_SHARE * even_s > up_s else self.side_left_s
        return share_s if share_s > up_s else 0.0

    def too_late(self, tunnel: PlannedTunnel, planned: Sequence[PlannedTunnel]) -> bool:
        """Would this tunnel end after the deadline? Time for the block's last baseline is reserved."""
        if self.stage.deadline is None:
            return False
        last = [other for other in planned if other.trials[0].position == "last" and other is not tunnel]
        return time.monotonic() + self.need_s([tunnel, *last]) > self.stage.deadline


def side_share(
    cells: Sequence[Cell], ranked: Collection[str], experiments_of: Mapping[str, Sequence[str]], usual: float
) -> float:
    """The share of a deadline's time for tunnels that no ranking is made of. It is ``usual``, or their part of all
    tunnels where every experiment has such tunnels, so that nothing else was asked for. ``experiments_of``: cell key ->
    the experiments that have the cell."""
    tunnels: dict[bool, set[str]] = {True: set(), False: set()}
    names, sweeps = set[str](), set[str]()
    of_rankings = {_tunnel_of(cell) for cell in cells if cell.key in ranked}
    for cell in cells:
        is_ranked = cell.vpn == BASELINE or _tunnel_of(cell) in of_rankings
        tunnels[is_ranked].add(_tunnel_of(cell))
        names |= {*experiments_of.get(cell.key, [])}
        sweeps |= set() if is_ranked else {*experiments_of.get(cell.key, [])}
    only_sweeps = names and names == sweeps
    return len(tunnels[False]) / (len(tunnels[True]) + len(tunnels[False])) if only_sweeps else usual


def _tunnel_of(cell: Cell) -> str:
    return f"{cell.vpn} {sorted(tunnel_levels(cell.params).items())}"


def parts(tunnels: Sequence[PlannedTunnel], most: int) -> list[Sequence[PlannedTunnel]]:
    """The tunnels in groups of at most ``most``. Tunnels with the same conditions are compared and stay together."""
    together = sorted(tunnels, key=lambda tunnel: str(outside_of_tunnel(tunnel.params)))
    count = -(-len(together) // most)
    size = -(-len(together) // count) if count else 1
    return [together[start : start + size] for start in range(0, len(together), size)]
