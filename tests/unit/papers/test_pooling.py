"""What several runs say together: tries summed, errors weighed, and runs that differ each heard."""

from __future__ import annotations

import math

import numpy as np
import pytest

from questions.papers.page import findings_in, rows_of
from runner.papers.claims import LESS, MORE, all_of, close, decide, opposite
from runner.papers.findings import Judgement
from runner.papers.pooling import pool
from runner.papers.shares import ALWAYS, share_of
from tests.unit.findings_worlds import made
from tests.unit.whole_report import build


def estimated(value: float, error: float, between: tuple[float, float] = MORE) -> Judgement:
    """A run's ratio whose logarithm has this standard error."""
    return decide(value, value * math.exp(-1.96 * error), value * math.exp(1.96 * error), between)


def test_tries_of_all_runs_are_counted_together() -> None:
    runs = [share_of(522, 525, ALWAYS), share_of(525, 525, ALWAYS)]
    assert [one.verdict for one in runs] == ["undecided", "reproduced"], "control"
    together = pool(runs)
    assert (together.verdict, together.value) == ("reproduced", 1047 / 1050)
    assert together.number == share_of(1047, 1050, ALWAYS).number


def test_runs_that_agree_are_surer_together() -> None:
    runs = [estimated(1.1, 0.06), estimated(1.12, 0.06)]
    assert {one.verdict for one in runs} == {"undecided"}, "control"
    together = pool(runs)
    assert (together.verdict, together.apart) == ("reproduced", False)
    assert together.value == pytest.approx(1.11, rel=0.01)
    assert together.low == pytest.approx(1.11 * math.exp(-1.96 * 0.06 / math.sqrt(2)), rel=0.01)


@pytest.mark.parametrize(
    ("values", "verdict"), [((1.3, 2.6), "reproduced"), ((0.5, 0.8), "not reproduced"), ((0.5, 2.6), "undecided")]
)
def test_of_runs_that_differ_each_has_to_give_the_verdict(values: tuple[float, float], verdict: str) -> None:
    runs = [estimated(value, 0.05) for value in values]
    together = pool(runs)
    assert (together.verdict, together.apart) == (verdict, True)
    assert (together.low, together.high) == pytest.approx((runs[0].low, runs[1].high))
    assert together.longer is None, "no more repetitions make them agree"


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("apart", [0.0, 0.05, 0.1, 0.5])
def test_the_interval_holds_the_mean_of_what_the_runs_have_in_truth(runs: int, apart: float) -> None:
    """Weighed or not, whether they are alike or not; with errors that differ twofold."""
    rng, times = np.random.default_rng(runs), 400
    held = []
    for _ in range(times):
        truths, errors = rng.normal(0, apart, runs), rng.uniform(0.05, 0.1, runs)
        together = pool([estimated(math.exp(rng.normal(t, e)), e) for t, e in zip(truths, errors, strict=True)])
        assert together.low
        assert together.high
        of = truths.mean() if together.apart else np.average(truths, weights=errors**-2)
        held.append(math.log(together.low) <= of <= math.log(together.high))
    assert sum(held) / times >= 0.92


def test_a_claim_of_several_parts_is_pooled_part_by_part() -> None:
    """The second run alone has the part that refutes."""
    first = all_of({"a": lambda: estimated(1.5, 0.05), "b": lambda: estimated(1.02, 0.05)})
    second = all_of({"a": lambda: estimated(1.6, 0.05), "c": lambda: estimated(0.5, 0.05)})
    together = pool([first, second])
    assert (together.verdict, together.part) == ("not reproduced", "c")
    assert together.value == pytest.approx(0.5)
    assert together.parts["a"].value == pytest.approx(math.sqrt(1.5 * 1.6))
    assert together.parts["b"].value == pytest.approx(1.02)


def test_the_opposite_claim_stays_the_opposite() -> None:
    runs = [opposite(estimated(value, 0.05, close(0.1))) for value in (2.0, 2.1)]
    assert {one.verdict for one in [*runs, pool(runs)]} == {"reproduced"}


def test_a_run_without_an_interval_says_nothing_beside_one_that_has_it() -> None:
    whole, bare = estimated(0.5, 0.05, LESS), decide(2.0, None, None, LESS)
    assert pool([bare, whole]) == whole
    assert pool([bare]) == bare


def test_the_page_says_a_finding_once_with_its_runs_and_their_machines() -> None:
    run, trials = made("thesis")
    slow = run.model_copy(update={"lab": {**run.lab, "cpu": "another"}})
    reports = {"A": build(run, trials), "B": build(run, trials), "C": build(slow, trials)}
    alone = {row.id: row for row in findings_in(reports["A"]).rows}
    rows = [(letters, row) for letters, row in rows_of(reports) if row.id == "forward-tun"]
    assert [letters for letters, _ in rows] == ["A, B, C"]
    ((_, row),) = rows
    assert row.value == pytest.approx(alone["forward-tun"].value)
    assert "on 2 kinds of machine" in row.note
