"""Many intervals at once are those of scipy's bootstrap one by one, and those of each alone."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from runner.evidence import intervals
from runner.evidence.intervals import RESAMPLES, of_means, of_medians
from runner.evidence.model import ALL_EQUAL
from runner.evidence.stats import compare_all, compare_blocks, summarise, summarise_all


def scipys_own(sample: np.ndarray) -> tuple[float, float]:
    """scipy resamples the ordered sample with the same generator: the same draws, its own median of each."""
    found = scipy_stats.bootstrap(
        (sample,), np.median, n_resamples=RESAMPLES, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize("n", [10, 11, 30])
def test_the_median_has_scipys_own_interval_from_the_same_resamples(n: int) -> None:
    samples = [np.sort(sample) for sample in np.random.default_rng(n).normal(size=(5, n))]
    for sample, (low, high, method) in zip(samples, of_medians(samples), strict=True):
        assert (low, high) == pytest.approx(scipys_own(sample))
        assert method == "BCa bootstrap of the median"


@pytest.mark.parametrize("n", [11, 23, 29])
def test_so_has_a_median_that_is_skewed(n: int) -> None:
    """Two equal values below the middle and a gap above it, and the other way round."""
    half = n // 2
    sample = np.array([*range(half), half - 1, *range(n, n + half)], dtype=float)
    for one in (sample, np.sort(-sample)):
        ((low, high, _),) = of_medians([one])
        assert (low, high) == pytest.approx(scipys_own(one))


@pytest.mark.parametrize("n", [10, 30])
def test_the_mean_has_the_studentised_interval_worked_with_scipy(n: int) -> None:
    (sample,) = np.random.default_rng(n).gamma(2.0, size=(1, n))
    mean, error = sample.mean(), scipy_stats.sem(sample)
    t = scipy_stats.bootstrap(
        (sample,),
        lambda x, axis: (x.mean(axis) - mean) / scipy_stats.sem(x, axis),
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    ((low, high, method),) = of_means([sample])
    assert (low, high) == pytest.approx((mean - t.high * error, mean - t.low * error))
    assert method == "studentised bootstrap on logarithms"


def test_samples_of_all_lengths_and_kinds_come_back_in_their_order() -> None:
    rng = np.random.default_rng(1)
    many = [rng.lognormal(3, 0.1, n) for n in (12, 1, 3, 12, 40, 2, 3)]
    many += [np.full(12, 7.0), np.array([0.0, 1.0, 2.0]), np.array([5.0] * 11 + [6.0])]
    together, alone = summarise_all(list(map(list, many))), [summarise(list(one)) for one in many]
    for ours, own in zip(together, alone, strict=True):
        assert ours.model_dump(exclude={"low", "high"}) == own.model_dump(exclude={"low", "high"})
        assert (ours.low is None) == (own.low is None)
        assert (ours.low or 0, ours.high or 0) == pytest.approx((own.low or 0, own.high or 0), rel=1e-10)
    assert [one.n for one in together] == [len(one) for one in many]
    assert together[7].method == ALL_EQUAL


def test_a_ratio_is_the_same_to_the_last_bit_whatever_is_compared_with_it() -> None:
    """A rank that depended on how many VPNs there are would be a defect."""
    rng = np.random.default_rng(2)
    values = [dict(enumerate(rng.lognormal(0, 0.1, n))) for n in (12, 12, 3, 40, 40)] + [{0: 0.0, 1: 1.0}, {}]
    pairs = [(a, b) for a in values for b in values]
    assert compare_all(pairs) == [compare_blocks(a, b) for a, b in pairs]


def test_more_rows_than_one_step_takes() -> None:
    rows = list(np.random.default_rng(3).normal(size=(1500, 10)))
    assert [low for low, _, _ in of_means(rows)][::700] == [of_means([row])[0][0] for row in rows[::700]]


@pytest.mark.parametrize("n", [100, 101])
def test_the_places_of_medians_of_many_values_are_drawn_as_of_few(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.array(intervals._middles.__wrapped__(n))
    monkeypatch.setattr(intervals, "MOST_DRAWN", 10)
    directly = np.array(intervals._middles.__wrapped__(n))
    assert directly.mean(axis=1) == pytest.approx(every.mean(axis=1), abs=0.4)  # of 100 places; three standard errors
    assert directly.std(axis=1) == pytest.approx(every.std(axis=1), rel=0.06)
    assert (directly[0] == directly[1]).all() == (n % 2 == 1)
    apart = [(places[1] - places[0]).mean() for places in (every, directly)]
    assert apart[1] == pytest.approx(apart[0], abs=0.1)
    assert (directly >= 0).all()
    assert (directly < n).all()


def test_very_many_values_have_an_interval_at_once() -> None:
    sample = np.random.default_rng(1).normal(size=300_000)
    ((low, high, _),) = of_medians([sample])
    assert low is not None
    assert high is not None
    assert high - low == pytest.approx(2 * 1.96 * 1.2533 / np.sqrt(300_000), rel=0.1)
    ((low, high, _),) = of_means([sample])
    assert low is not None
    assert high is not None
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(300_000), rel=0.02)
