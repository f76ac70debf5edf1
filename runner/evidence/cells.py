"""What was measured in cells: values by block, their summary, their share of the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runner.data.levels import BASELINE, beside_plain_ip, outside_of_tunnel
from runner.data.trials import Cell, Trial, cell_key
from runner.evidence.estimates import RoundValues
from runner.evidence.model import Blocks, Ratio, Summary
from runner.evidence.stats import block_values, compare_all, lower_bounds, summarise_all


class Baseline:
    """The baseline's values of one metric, by the levels that a cell shares with the baseline: all outside of the
    tunnel, or, where plain IP has no such level, as of a crypto driver, all but that."""

    def __init__(self, trials: Sequence[Trial], metric: str) -> None:
        same: dict[str, list[Trial]] = {}
        for trial in trials:
            if trial.vpn == BASELINE and trial.status == "ok":
                same.setdefault(cell_key(BASELINE, outside_of_tunnel(trial.params)), []).append(trial)
        self._found = {key: (block_values(own, metric), lower_bounds(own, metric)) for key, own in same.items()}

    def values_at(self, params: Mapping[str, str]) -> tuple[dict[int, float] | None, set[int]]:
        """Block -> value, and the blocks whose value is a lower bound; None where the baseline was not measured at such
        levels."""
        keys = [cell_key(BASELINE, levels(params)) for levels in (outside_of_tunnel, beside_plain_ip)]
        return next((self._found[key] for key in keys if key in self._found), (None, set()))


def shares_of(values: Blocks, plain: Blocks) -> Blocks:
    """Block -> value over that of plain IP, of the blocks that both have. Rounds stay rounds."""
    shares = {block: value / plain[block] for block, value in values.items() if block in plain}
    if isinstance(values, RoundValues):
        return RoundValues(shares, values.instances, (), values.search_error)
    return shares


class Numbers(NamedTuple):
    """What was measured in one cell: block -> value, their summary, their share of the baseline."""

    blocks: dict[int, float]
    summary: Summary | None
    share: Ratio | None


def numbers_of(
    cells: Sequence[Cell], blocks: Sequence[dict[int, float]], baseline: Baseline, *, exact: bool = False
) -> list[Numbers]:
    """The numbers of all cells of a table at once: together, the intervals take little more time than those of one
    cell. ``exact``: as ``summarise_all``."""
    summaries = iter(summarise_all([list(own.values()) for own in blocks if own], exact=exact))
    plain = [None if cell.vpn == BASELINE else baseline.values_at(cell.params)[0] for cell in cells]
    shares = iter(compare_all([(own, under) for own, under in zip(blocks, plain, strict=True) if under is not None]))
    return [
        Numbers(own, next(summaries) if own else None, None if under is None else next(shares))
        for own, under in zip(blocks, plain, strict=True)
    ]
