"""``--until-significant``: which cells to measure again, because they may still change the ranking's order."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.levels import BASELINE
from runner.data.trials import Cell, Run, Trial
from runner.ranking.basis import conditions_of
from runner.ranking.ranking import Pair, Ranking, rank_all
from runner.ranking.weights import Weights

INITIAL_REPETITIONS = 3  # before them, nothing is known of the spread
# Who looks after every block sees by chance what is not there: of two equal VPNs, 40 of 100 runs would end with one
# called better if 95 % of the draws were enough, 14 if it takes 99 (30 blocks, noise 2 %).
CERTAIN = 0.99
MOST_REPETITIONS = 30  # the end where no deadline is given: a VPN repeated so often that still ties, ties


def next_cells(
    run: Run, trials: Sequence[Trial], cells: Sequence[Cell], weights: Weights | None = None
) -> tuple[list[Cell], list[str]]:
    """What the next block should have, and the pairs that are in doubt, in words; both empty at the end.

    No cells beside doubts: what is in doubt is not among ``cells``.

    ``cells`` are all that may be measured. Chosen are those of the VPNs of each such pair, at the levels and with
    the traffic that a weighted metric is ranked by, and the baseline's with the same traffic.
    """
    chosen: dict[str, Cell] = {}
    doubts = []
    for ranking in rank_all(run, trials, weights=weights):
        for pair in ranking.pairs:
            if pair.certainty >= CERTAIN:
                continue
            where = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
            doubts.append(f"{pair.words} ({where})")
            chosen |= {cell.key: cell for cell in _cells_of(run, ranking, pair, cells)}
    if all(cell.vpn == BASELINE for cell in chosen.values()):  # the VPNs in doubt are not among what was asked for
        return [], doubts
    return [cell for cell in cells if cell.key in chosen], doubts


def _cells_of(run: Run, ranking: Ranking, pair: Pair, cells: Sequence[Cell]) -> list[Cell]:
    image = {"image": ranking.image} if ranking.image else {}
    found = []
    for metric in ranking.weights.counted:
        traffic = ranking.traffic.get(metric, {})
        levels = {vpn: run.vpns[vpn].configurations[ranking.configuration] | image for vpn in (pair.first, pair.second)}
        levels[BASELINE] = {}
        found += [
            cell
            for cell in cells
            if cell.vpn in levels
            and cell.params.items() >= levels[cell.vpn].items()
            and conditions_of(cell.params) == traffic
        ]
    return found
