"""Equal devices whose throughput is searched for in turns: how often their interval says that they differ."""

from __future__ import annotations

import pytest

from runner.evidence.estimates import RoundValues, alone, estimate_pair
from tests.bench.simulated_rounds import Machine
from tests.bench.simulated_search import told_apart


@pytest.mark.parametrize("machine", [Machine(), Machine(slice=0.3, stolen=0.1)], ids=["usual", "noisy"])
def test_equal_devices_are_seldom_told_apart(machine: Machine) -> None:
    outside, pairs = told_apart(machine, instances=2, rounds=3, runs=12, seed=3)
    assert outside <= 0.05 * pairs


def test_the_error_of_a_search_comes_on_top() -> None:
    rounds = {number: 1.0 + 0.01 * (number % 3) for number in range(12)}
    which = {number: number // 6 for number in rounds}
    read, searched = RoundValues(rounds, which), RoundValues(rounds, which, (), 0.3)
    other = RoundValues(dict.fromkeys(rounds, 1.0), which)
    without, within = estimate_pair(read, other), estimate_pair(searched, other)
    assert without
    assert within
    assert within.error == pytest.approx((without.error**2 + 0.3**2) ** 0.5)
    assert (within.centre, within.freedom) == (without.centre, without.freedom)
    single, plain = alone(searched), alone(read)
    assert single
    assert plain
    assert single.error > plain.error
    on_a_farm = RoundValues(rounds, which, ("a", "b"), 0.3)
    assert alone(on_a_farm) == alone(RoundValues(rounds, which, ("a", "b")))
