"""What `make bench-decide-real` makes of the runs that it measures."""

from __future__ import annotations

import math
import sys

import pytest

from runner.data.trials import Trial, Value
from runner.evidence.model import Ratio
from runner.ranking.model import Verdict
from tests.bench import decide_real as bench_decide_real
from tests.bench.decide_real import (
    in_words,
    mean_ratios,
    search_ends,
    told_of_equals,
    told_of_searches,
    told_of_slowed,
)
from tests.unit.synthetic import CBC, UDP, make_trial

MBIT = 1e6


def verdict(a: str, b: str, ratio: float, error: float | None = 0.05) -> Verdict:
    low, high = (None, None) if error is None else (ratio * math.exp(-error), ratio * math.exp(error))
    return Verdict(
        configuration="comparable", image="", metric="tcp_throughput", a=a, b=b, decision="undecided", margin=1.1,
        ratio=ratio, low=low, high=high,
    )  # fmt: skip


def test_noise_of_both_signs_is_no_shift() -> None:
    (mean,) = mean_ratios([verdict("a", "b", ratio) for ratio in (1.04, 1 / 1.04, 1.03, 1 / 1.03)])
    assert mean.ratio == pytest.approx(1)
    assert mean.error == pytest.approx(0.02005, rel=0.001)  # their deviation, 0.0401, over the root of four


def test_a_shift_is_found_whichever_copy_is_named_first() -> None:
    (mean,) = mean_ratios([verdict("a", "b", 1.02), verdict("b", "a", 1 / 1.02)])
    assert mean.ratio == pytest.approx(1.02)
    assert mean.error == pytest.approx(0)


def test_what_equal_copies_come_to() -> None:
    found = [verdict("a", "b", 1.02), verdict("a", "c", 0.9), verdict("b", "c", 1.1, None)]
    assert told_of_equals(found) == (
        "median half-width 1.051; 1 of 2 intervals hold 1; mean ratio of the pair that is furthest from 1: 0.9000"
    )
    assert told_of_equals([]) == "0 of 0 intervals hold 1"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> Ratio:
    return Ratio(blocks=7, ratio=value, low=low, high=high, significant=False, method="not separable")


def test_a_run_without_an_interval_does_not_end_the_others() -> None:
    assert in_words(ratio(0.9, 0.85, 0.95)) == "0.9000 (0.8500 to 0.9500), 7 rounds"
    assert in_words(ratio(0.9)) == "0.9000 (no interval), 7 rounds"
    assert in_words(ratio(None)) == "no ratio (not separable)"
    assert told_of_slowed([ratio(0.9, 0.85, 0.95), ratio(0.9), ratio(None)]) == (
        "found in 1 of 3 runs; 1 hold the pooled 0.900"
    )
    assert told_of_slowed([ratio(None)]) == "no ratio in 1 runs"


def searched(vpn: str, repetition: int, value: float, interval: list[float] | None) -> Trial:
    detail = {"pooled": False, "interval_bps": interval}
    found = [Value(metric="udp_throughput", value=value, detail=detail)]
    return make_trial(vpn, {**CBC, **UDP}, repetition).model_copy(update={"measurements": found})


def test_a_search_ends_with_what_all_its_instances_say() -> None:
    trials = [
        searched("a", 2, 300 * MBIT, [90 * MBIT, 110 * MBIT]),
        searched("a", 1, 200 * MBIT, [50 * MBIT, 150 * MBIT]),
        searched("b", 1, 100 * MBIT, [100 * MBIT, 121 * MBIT]),
        searched("c", 1, 100 * MBIT, None),
        searched("none", 1, 900 * MBIT, [800 * MBIT, 900 * MBIT]),
    ]
    ends = search_ends(trials)
    assert ends == {"a": (90 * MBIT, 110 * MBIT), "b": (100 * MBIT, 121 * MBIT)}
    assert told_of_searches(ends) == "99, 110 Mbit/s; CoV 0.071; 2 of 2 intervals hold the pooled value"
    assert told_of_searches({}) == "0 of them found a throughput"


def test_a_part_is_chosen_with_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(bench_decide_real, "equals", lambda *what, **how: asked.append((what, how)))
    monkeypatch.setattr(sys, "argv", ["bench", "busy", "--runs", "1", "--first", "21", "--seconds", "30"])
    bench_decide_real.main()
    assert asked == [(("openvpn", range(21, 22), 30), {"busy": True})]
    monkeypatch.setattr(sys, "argv", ["bench", "equal", "slow"])
    with pytest.raises(SystemExit):
        bench_decide_real.main()
