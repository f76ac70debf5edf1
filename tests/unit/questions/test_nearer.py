"""On which side of the middle a build is: simulated rounds of a good one, a bad one and a third."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from questions.nearer import Nearer, Side
from runner.data.trials import ExperimentRecord, Trial
from runner.design.question import Evidence
from tests.bench.simulated_rounds import Machine, play, run_of

NAMES = ("openvpn@good", "openvpn@bad", "openvpn@abc")
ASKED = ExperimentRecord(
    name="builds", question="", method="", source="", factors={}, metrics=["tcp_throughput", "paced_cpu"], cells=[]
)


def judged(
    bad: float, third: float, seed: int = 1, rounds: int = 14, metric: str = "tcp_throughput", instances: int = 10
) -> Side:
    """The side, where the bad and the third build differ from the good one by these logarithms."""
    rng = np.random.default_rng(seed)
    values = play(replace(Machine(), slice=0.1), [0.0, bad, third], instances, rounds, rng)
    run, trials = run_of({metric: dict(zip(NAMES, values, strict=True))})
    return Nearer().judge(Evidence(run.model_copy(update={"experiments": [ASKED]}), trials))


@pytest.mark.parametrize(("metric", "bad"), [("tcp_throughput", -0.3), ("paced_cpu", 0.3)])
def test_the_side_is_found_and_never_the_other(metric: str, bad: float) -> None:
    sure: tuple[tuple[float, Literal["first", "second"]], ...] = ((0.0, "first"), (bad, "second"))
    for third, right in sure:
        sides = [judged(bad, third, seed, metric=metric).nearer_to for seed in range(20)]
        assert {*sides} <= {right, None}
        assert sides.count(right) >= 18


def test_a_large_difference_is_told_by_one_tunnel() -> None:
    """A commit that makes it four times as slow needs seconds."""
    sides = [judged(-math.log(4), 0.0, seed, rounds=8, instances=1).nearer_to for seed in range(20)]
    assert {*sides} <= {"first", None}
    assert sides.count("first") >= 15


def test_who_is_in_the_middle_is_on_no_side() -> None:
    sides = [judged(-0.3, -0.15, seed).nearer_to for seed in range(40)]
    assert sides.count(None) >= 36


def test_without_three_builds_there_is_no_side() -> None:
    values = play(Machine(), [0.0, 0.1], 2, 5, np.random.default_rng(1))
    run, trials = run_of({"tcp_throughput": dict(zip(NAMES[:2], values, strict=True))})
    nothing = list[Trial]()
    assert Nearer().judge(Evidence(run, trials)) == Nearer().judge(Evidence(run, nothing)) == Side()


def test_all_builds_go_on_until_the_side_is_known() -> None:
    run, trials = run_of(
        {"tcp_throughput": dict.fromkeys(NAMES, play(Machine(), [0.0], 2, 5, np.random.default_rng(1))[0])}
    )
    cells = [cell for record in run.experiments for cell in record.cells]
    known, unknown = Side(nearer_to="first"), Side()
    assert Nearer().going(Evidence(run, trials), unknown, cells, 10.0).undecided
    assert not Nearer().going(Evidence(run, trials), known, cells, 10.0).undecided
