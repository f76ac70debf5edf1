"""The claims of how much repetitions of one test vary."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy  # loads scipy.stats at its first use

from runner.data.trials import Trial
from runner.evidence.stats import block_values
from runner.papers.claims import decide
from runner.papers.findings import Data, Judgement, NotMeasured

FEWEST = 3  # values of a cell, for its variation to be known


def whole_tests(trial: Trial, metric: str, seconds: int) -> bool:
    """Is its ``metric`` that of whole tests of so many seconds or more (a sample is one), and not of slices?"""
    return any(m.metric == metric and not m.rounds and len(m.samples) >= seconds for m in trial.measurements)


def whole_tests_of(trials: Sequence[Trial], metric: str, seconds: int) -> list[list[float]]:
    """The values of ``metric`` of whole tests of so many seconds or more: a list for each cell, and of plain IP for
    each position in its block."""
    same: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.status == "ok" and whole_tests(trial, metric, seconds):
            same[trial.cell, trial.position].append(trial)
    return [[*block_values(of_cell, metric).values()] for of_cell in same.values()]


def coefficient(cells: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The coefficient of variation of positive values within ``cells``, and the ends of its 95 % interval.

    The variances of the logarithms are pooled over the cells with at least FEWEST values, one of which there must be,
    by their degrees of freedom; the interval is that of a variance (chi squared).
    """
    logs = [np.log(cell) for cell in cells if len(cell) >= FEWEST]
    freedom = sum(len(cell) - 1 for cell in logs)
    squares = float(sum(((cell - cell.mean()) ** 2).sum() for cell in logs))
    ends = [float(scipy.stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025)]
    value, low, high = (math.sqrt(math.expm1(squares / by)) for by in (freedom, *ends))
    return value, low, high


def pooled_variation(data: Data, metric: str, vpns: Sequence[str], limit: float, seconds: int) -> Judgement:
    """The claim that the coefficient of variation of ``metric`` is ``limit`` at most, between whole tests of so many
    ``seconds``: one number for all cells. Shorter tests vary more, and slices of a fraction of a second much more.

    The largest of many grows with their number; the pooled one does not. Raises NotMeasured where no cell has FEWEST
    repetitions, and where they are no whole tests.
    """
    mine = {vpn: [t for t in data.trials if (t.vpn, t.status) == (vpn, "ok")] for vpn in vpns}
    tests = {vpn: whole_tests_of(trials, metric, seconds) for vpn, trials in mine.items()}
    of_any_length = any(m.metric == metric for own in mine.values() for trial in own for m in trial.measurements)
    if of_any_length and not any(tests.values()):
        raise NotMeasured(
            f"the paper's are whole tests, and iPerf's last {seconds} s; these are shorter, and vary more"
        )
    cells = [(vpn, values) for vpn, own in tests.items() for values in own if len(values) >= FEWEST]
    if not cells:
        raise NotMeasured("a coefficient of variation needs three repetitions")
    judgement = decide(*coefficient([values for _, values in cells]), (0.0, limit)).with_systems(
        *(vpn for vpn, _ in cells)
    )
    return judgement.model_copy(
        update={"published": limit, "reason": f"pooled over {len(cells)} cells: {judgement.reason}"}
    )
