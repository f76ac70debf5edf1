"""The claims of how much repetitions of one test vary."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy  # loads scipy.stats at its first use

from runner.data.trials import Trial
from runner.papers.claims import decide
from runner.papers.findings import Data, Judgement, NotMeasured
from runner.ranking.stats import block_values


def whole_tests(trial: Trial, metric: str, seconds: int) -> bool:
    """Is its ``metric`` that of whole tests of so many seconds or more (a sample is one), and not of slices?"""
    return any(m.metric == metric and not m.rounds and len(m.samples) >= seconds for m in trial.measurements)


def pooled_variation(data: Data, metric: str, vpns: Sequence[str], limit: float, seconds: int) -> Judgement:
    """The claim that the coefficient of variation of ``metric`` is ``limit`` at most, between whole tests of so many
    ``seconds``: one number for all cells. Shorter tests vary more, and slices of a fraction of a second much more.

    The largest of many grows with their number; the pooled one does not. The variances of the logarithms are pooled
    over the cells by their degrees of freedom, and the interval is that of a variance (chi squared). Raises NotMeasured
    where no cell has three repetitions, and where they are no whole tests.
    """
    mine = [trial for trial in data.trials if trial.vpn in vpns and trial.status == "ok"]
    same: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in mine:
        if whole_tests(trial, metric, seconds):
            same[trial.cell, trial.position].append(trial)
    if not same and any(measured.metric == metric for trial in mine for measured in trial.measurements):
        raise NotMeasured(
            f"the paper's are whole tests, and iPerf's last {seconds} s; these are shorter, and vary more: "
            f"`vpneval run thesis --duration {seconds} --reps 10`"
        )
    many = {trials[0].id: (trials[0].vpn, block_values(trials, metric)) for trials in same.values()}
    logs = [(vpn, np.log([*blocks.values()])) for vpn, blocks in many.values() if len(blocks) > 2]
    if not logs:
        raise NotMeasured("a coefficient of variation needs three repetitions")
    freedom = sum(len(cell) - 1 for _, cell in logs)
    squares = float(sum(((cell - cell.mean()) ** 2).sum() for _, cell in logs))
    ends = [float(scipy.stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025)]
    value, low, high = (math.sqrt(math.expm1(squares / by)) for by in (freedom, *ends))
    judgement = decide(value, low, high, (0.0, limit)).of(*(vpn for vpn, _ in logs))
    return judgement.model_copy(
        update={"published": limit, "reason": f"pooled over {len(logs)} cells: {judgement.reason}"}
    )
