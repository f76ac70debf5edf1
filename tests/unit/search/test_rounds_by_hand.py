"""The search that takes turns, trial by trial: what it offers, when it gives up, and what one trial tells it, held to
SciPy's distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from runner.search import find_throughput
from runner.search.model import Loss, SearchTrial
from runner.search.rounds import COLLAPSE, DISTURBANCE, DISTURBED, LAPSE, SPREADS, StepwiseSearch, dependence

PACKETS = 1e6


def trial(rate_bps: float, loss: float = 0.0, *, asked_bps: float = 0.0) -> SearchTrial:
    return SearchTrial(asked_bps or rate_bps, rate_bps, 0.4, PACKETS, PACKETS * (1 - loss), "estimate")


def told(*trials: SearchTrial, **settings: Any) -> StepwiseSearch:
    rounds = StepwiseSearch(**settings)
    for one in trials:
        rounds.learn(one)
    return rounds


SEEDED = (trial(60e6), trial(180e6, 0.45))


def test_it_begins_at_twenty_megabit_or_where_it_is_told_to_with_short_trials() -> None:
    assert StepwiseSearch().next_load() == (20e6, 0.15)
    assert StepwiseSearch(first_rate_bps=90e6).next_load() == (90e6, 0.15)
    assert StepwiseSearch(trial_duration_s=0.1).next_load() == (20e6, 0.1)
    assert StepwiseSearch(careful=True, trial_duration_s=0.2).next_load() == (20e6, 0.1)
    assert StepwiseSearch(max_rate_bps=5e6).next_load().rate_bps == 5e6
    assert StepwiseSearch(min_rate_bps=50e6).next_load().rate_bps == 50e6


def test_it_goes_threefold_up_after_a_pass_and_down_after_a_fail_until_it_has_both() -> None:
    assert told(trial(20e6)).next_load().rate_bps == pytest.approx(60e6)
    assert told(trial(20e6), trial(60e6)).next_load().rate_bps == pytest.approx(180e6)
    assert told(trial(20e6, 0.3)).next_load().rate_bps == pytest.approx(20e6 / 3)
    assert told(trial(20e6), careful=True).next_load().rate_bps == pytest.approx(24e6)
    assert told(trial(20e6, 0.3), careful=True).next_load().rate_bps == pytest.approx(20e6 / 1.2)
    seeding, seeded = told(trial(60e6)), told(*SEEDED)
    assert (seeding.seeding, seeding.purpose) == (True, "seed")
    assert (seeded.seeding, seeded.purpose) == (False, "estimate")
    assert seeded.next_load().duration_s == 0.4
    assert told(*SEEDED, careful=True).next_load().duration_s == 0.2


@pytest.mark.parametrize(
    ("passed_bps", "failed_bps", "loss", "seed_bps"),
    [
        (60e6, 180e6, 0.4, 108e6),  # what the fail forwarded
        (60e6, 180e6, 0.9, (60e6 * 60e6 * 180e6) ** (1 / 3)),  # but no less than a third of the way
        (60e6, 180e6, 0.02, 176.4e6),
        (20e6, 10e6, 0.9, (10e6 * 10e6 * 20e6) ** (1 / 3)),  # an accident below a pass
        (20e6, 10e6, 0.02, (10e6 * 10e6 * 20e6) ** (1 / 3)),
    ],
)
def test_the_seed_ends_between_a_pass_and_a_fail(
    passed_bps: float, failed_bps: float, loss: float, seed_bps: float
) -> None:
    for order in ((0, 1), (1, 0)):
        trials = trial(passed_bps), trial(failed_bps, loss)
        rounds = told(*(trials[number] for number in order))
        assert math.exp(rounds._seed) == pytest.approx(seed_bps)


def test_overloads_and_a_load_below_follow_each_other_around_the_estimate() -> None:
    trials = [*SEEDED, *[trial(100e6), trial(130e6, 0.22), trial(140e6, 0.28)] * 2]
    for count in range(3, len(trials)):
        rounds = told(*trials[:count])
        over = math.log(rounds.next_load().rate_bps / rounds.median().rate_bps)
        assert over == pytest.approx((0.25, -0.08, 0.35)[count % 3])


@pytest.mark.parametrize(("passed_bps", "held"), [(90e6, True), (109e6, False)])
def test_where_overload_breaks_it_the_steps_are_small_and_never_a_tenth_above_what_passed(
    passed_bps: float, held: bool
) -> None:
    trials = [trial(80e6), trial(120e6, 0.1), *[trial(passed_bps), trial(140e6, 0.215)] * 4]
    for count in range(3, len(trials)):
        rounds = told(*trials[:count], careful=True)
        wanted_bps = rounds.median().rate_bps * math.exp((0.03, -0.05, 0.04)[count % 3])
        assert rounds.next_load().rate_bps == pytest.approx(min(wanted_bps, 1.1 * passed_bps))
    assert (wanted_bps > 1.1 * passed_bps) is held


def test_three_passes_at_the_highest_rate_are_the_generators_limit_and_six_once_something_has_failed() -> None:
    highest = trial(1e9)
    short = trial(0.9e9, asked_bps=0.99e9)
    for last in (highest, short):
        assert not told(last, last, max_rate_bps=1e9).generator_limited
        assert told(last, last, last, max_rate_bps=1e9).generator_limited
        assert not told(last, last, trial(0.5e9), last, max_rate_bps=1e9).generator_limited, "in a row"
        assert not told(*SEEDED, *[last] * 5, max_rate_bps=1e9).generator_limited
        limited = told(*SEEDED, *[last] * 6, max_rate_bps=1e9)
        assert limited.generator_limited
        assert limited.next_load().rate_bps == 1e9
    assert not told(*[trial(1e9, 0.3)] * 3, max_rate_bps=1e9).generator_limited


def test_three_fails_at_the_lowest_rate_and_no_pass_are_hopeless() -> None:
    lowest = trial(1e6, 0.5)
    assert not told(trial(3e6, 0.5), lowest, lowest).hopeless
    assert told(trial(3e6, 0.5), lowest, lowest, lowest).hopeless
    assert not told(lowest, lowest, lowest, trial(1e6)).hopeless


def test_before_the_trials_the_rate_is_log_normal_around_the_seed_and_the_spread_around_six_per_cent() -> None:
    rounds = told(*SEEDED)
    prior = np.array(rounds._total() - rounds._by_seeds)
    rate = stats.norm.logpdf(rounds._grid(), loc=rounds._seed, scale=1.0)
    spread = stats.norm.logpdf(np.log(SPREADS), loc=math.log(0.06), scale=1.0)
    expected = rate[:, None, None] + spread[None, :, None]
    assert np.ptp(prior - expected) == pytest.approx(0, abs=1e-9), "but for a constant"


def test_a_pass_and_a_collapse_are_each_others_complement() -> None:
    """But for the lapses, which may be either."""
    rounds = told(*SEEDED)
    passed, collapsed = (np.exp(rounds._log_likelihood_of(trial(100e6, loss))) for loss in (0.0, 0.9))
    assert np.allclose(passed + collapsed, 1 + LAPSE)


@pytest.mark.parametrize(("rate_bps", "loss"), [(120e6, 0.2), (120e6, 0.02), (400e6, COLLAPSE), (90e6, 0.3)])
def test_what_a_fail_forwarded_is_its_logistic_capacity_or_what_a_disturbance_left_of_it(
    rate_bps: float, loss: float
) -> None:
    rounds = told(*SEEDED)
    at = math.log(rate_bps * (1 - loss) / 0.99)  # what it could have forwarded with a loss of the ratio
    theta, spread = np.array(rounds._grid())[:, None], SPREADS[None, :]
    capacity = stats.logistic.pdf(at, loc=theta, scale=spread)
    # It lost what it could have forwarded, or what it was offered where that is less, by an exponential share.
    disturbed = stats.expon.pdf(np.minimum(theta, math.log(rate_bps)) - at, scale=DISTURBANCE)
    share = DISTURBED[0, 0]
    expected = LAPSE + (1 - LAPSE) * ((1 - share) * np.array(capacity)[..., None] + share * disturbed[..., None])
    assert np.exp(rounds._log_likelihood_of(trial(rate_bps, loss))) == pytest.approx(expected, rel=1e-6)


def test_a_pass_is_as_likely_as_its_capacity_is_above() -> None:
    rounds = told(*SEEDED)
    above = stats.logistic.sf(math.log(100e6), loc=rounds._grid()[:, None], scale=SPREADS[None, :])
    expected = LAPSE + (1 - LAPSE) * (1 - DISTURBED[0, 0]) * np.array(above)[..., None]
    assert np.exp(rounds._log_likelihood_of(trial(100e6))) == pytest.approx(expected, rel=1e-6)


def test_a_fail_reads_what_it_forwarded() -> None:
    rounds = told(*SEEDED, *[trial(130e6, 0.22)] * 4)
    assert rounds.reading_bps(trial(130e6, 0.22)) == pytest.approx(130e6 * 0.78 / 0.99)
    assert rounds.reading_bps(trial(130e6, 0.5)) == pytest.approx(130e6 * 0.5 / 0.99)


@pytest.mark.parametrize("share", [0.9, 1.0, 1.1])
def test_what_tells_no_capacity_reads_the_mean_of_those_above_or_below(share: float) -> None:
    rounds = told(*SEEDED, *[trial(130e6, 0.22), trial(95e6), trial(110e6, 0.1)] * 3)
    believed = rounds.median()
    centre, offered = math.log(believed.rate_bps), math.log(share * believed.rate_bps)
    above = stats.logistic.expect(lb=offered, conditional=True, loc=centre, scale=believed.spread)
    below = stats.logistic.expect(ub=offered, conditional=True, loc=centre, scale=believed.spread)
    assert rounds.reading_bps(trial(share * believed.rate_bps)) == pytest.approx(math.exp(above), rel=1e-4)
    assert rounds.reading_bps(trial(share * believed.rate_bps, 0.9)) == pytest.approx(math.exp(below), rel=1e-4)


def test_an_interval_is_narrow_where_it_is_within_the_width_on_both_sides() -> None:
    rounds = told(*SEEDED, *[trial(130e6, 0.22), trial(95e6), trial(110e6, 0.1)] * 3)
    found = rounds.median()
    half = (found.high_bps - found.low_bps) / 2 / found.rate_bps
    assert rounds.narrow(half * 1.001)
    assert not rounds.narrow(half * 0.999)
    assert math.log(found.high_bps / found.rate_bps) == pytest.approx(math.log(found.rate_bps / found.low_bps))


def test_a_grid_that_the_answer_leaves_is_laid_anew_and_forgets_nothing() -> None:
    """A seed by accident at a fiftieth of the rate: the estimate still gets there."""
    rounds = told(trial(2e6), trial(6e6, 0.6), *[trial(100e6)] * 6, *[trial(130e6, 0.22), trial(95e6)] * 8)
    assert rounds.median().rate_bps == pytest.approx(102e6, rel=0.03)


def test_neighbours_that_are_alike_tell_less_by_their_correlation() -> None:
    # Of the seven pairs of neighbours four are alike and three are not: a correlation of 1 in 8.
    assert dependence([0, 0, 1, 1, 0, 0, 1, 1]) == pytest.approx((1 + 1 / 8) / (1 - 1 / 8))
    assert dependence([0, 1, 0, 1, 0, 1, 0, 1]) == 1, "less than independent is not believed"
    assert dependence([0.0] * 20 + [1.0] * 20) == pytest.approx(4), "nor more than a correlation of 0.6"
    assert dependence([0, 0, 0, 1, 1, 1, 1]) == 1, "seven are too few"
    assert dependence([3.0] * 9) == 1


def searched(measure: Any, **settings: Any) -> Any:
    return find_throughput(measure, engine="rounds", trial_duration_s=0.4, **settings)


def test_a_whole_search_has_twelve_to_sixty_trials() -> None:
    random = np.random.default_rng(1)

    def noisy(noise: float) -> Any:
        return lambda rate_bps, _: Loss(1e6, 1e6 * min(1, 1e8 * math.exp(noise * random.standard_normal()) / rate_bps))

    assert len(searched(noisy(0.3), relative_width=0.005).trials) == 60
    assert 12 <= len(searched(noisy(0.001), relative_width=0.1).trials) <= 14
    assert searched(noisy(0.3), relative_width=0.005).flags == frozenset()


def test_a_whole_search_that_ends_early_says_so() -> None:
    spent = searched(lambda rate_bps, _: Loss(1e6, 1e6 * min(1, 1e8 / rate_bps)), budget_s=2.5, relative_width=0.001)
    assert spent.flags == {"unconfirmed"}
    assert spent.rate_bps is not None
    assert spent.elapsed_s <= 2.5
    begun = searched(lambda rate_bps, _: Loss(1e6, 1e6), budget_s=0.2)
    assert (begun.rate_bps, begun.flags) == (None, frozenset({"unconfirmed"}))
    dead = searched(lambda rate_bps, _: Loss(1e6, 0.5e6))
    assert (dead.rate_bps, dead.flags) == (None, frozenset({"no_throughput"}))
    assert dead.trials[-1].asked_rate_bps == dead.trials[-3].asked_rate_bps == 1e6
