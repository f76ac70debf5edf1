"""MLRsearch, which the benches set beside the engines: it agrees, and what it is not believed."""

from __future__ import annotations

import pytest

from runner.search import Loss
from tests.bench.mlr import find_by_mlrsearch
from tests.unit.search.test_search import device, sharp


def test_mlrsearch_agrees() -> None:
    dut = device(noise=0.002)
    result = find_by_mlrsearch(dut, max_rate_bps=1e9, trial_duration_s=1.0)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.02)
    assert "no_throughput" in find_by_mlrsearch(sharp(1e5)).flags
    assert "generator_limited" in find_by_mlrsearch(sharp(1e12)).flags


def test_mlrsearch_is_not_believed_where_the_generator_fell_short_of_the_rate_that_it_found() -> None:
    """Nothing is lost up to 500 Mbit/s, of which the generator offered 300."""
    found = find_by_mlrsearch(
        lambda rate_bps, _: Loss(1e6, 1e6 if rate_bps < 500e6 else 0.5e6, min(rate_bps, 300e6)),
        max_rate_bps=1e9,
        trial_duration_s=1.0,
    )
    assert (found.rate_bps, *found.flags) == (None, "generator_limited")
