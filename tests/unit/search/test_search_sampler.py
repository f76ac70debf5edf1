"""What the default engine decides from what it believes: the next trial, whether that is enough, and what to report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from runner.search.bayes import Sampler
from runner.search.model import Account, BudgetSpent, Goal, Loss, NoNumber, SearchTrial
from runner.search.posterior import PosteriorEstimate

BELIEVED: dict[str, float] = {
    **{"rate_bps": 100e6, "low_bps": 99e6, "high_bps": 101e6, "careful_bps": 98e6, "capacity_bps": 100e6},
    **{"noise": 0.02, "jitter": 0.001, "floor": 0.0, "stalls_per_s": 0.0, "startup_s": 0.0, "livelock": 0.0},
    **{"no_throughput": 0.0, "due_to_startup": 0.0},
}
GOAL: dict[str, Any] = {
    **{"loss_ratio": 0.01, "min_rate_bps": 1e6, "max_rate_bps": 1e9, "relative_width": 0.01},
    **{"trial_duration_s": 1.0, "confirm": None, "first_rate_bps": None},
}


def loses(ratio: float = 0.0, packets: float = 1e6) -> Callable[[float, float], Loss]:
    return lambda rate_bps, duration_s: Loss(packets, packets * (1 - ratio))


def sampler(
    measure: Callable[[float, float], Loss] | None = None,
    *,
    trials: Iterable[SearchTrial] = (),
    believed: dict[str, float] | None = None,
    budget_s: float | None = None,
    **goal: Any,
) -> Sampler:
    made = Sampler(Account(measure or loses(), budget_s=budget_s), Goal(**{**GOAL, **goal}))
    made.account.trials += trials
    made.estimate = PosteriorEstimate(**{**BELIEVED, **(believed or {})})
    made.posterior = SimpleNamespace(trials=made.account.trials, is_trustworthy=True, centre_bps=100e6)  # type: ignore[assignment]
    return made


def trial(
    rate_bps: float, loss: float = 0.0, duration_s: float = 1.0, *, asked_bps: float = 0.0, sent: float = 1e6
) -> SearchTrial:
    return SearchTrial(asked_bps or rate_bps, rate_bps, duration_s, sent, sent * (1 - loss), "estimate")


def test_no_rate_outside_of_the_range_is_offered() -> None:
    one = sampler(min_rate_bps=50e6, max_rate_bps=200e6)
    assert [one.offer(rate_bps, "seed").asked_rate_bps for rate_bps in (10e6, 70e6, 300e6)] == [50e6, 70e6, 200e6]


def test_a_start_up_counts_as_a_trial_of_ten_seconds_has_it() -> None:
    one = sampler()
    assert one.loss(trial(1e8, 0.05)) == pytest.approx(0.05)
    one.startup_s = 0.04
    assert one.loss(trial(1e8, 0.05)) == pytest.approx(0.05 - 0.04 * 0.9)
    assert one.loss(trial(1e8, 0.05, 10.0)) == pytest.approx(0.05)
    assert one.loss(trial(1e8, 0.05, 20.0)) == pytest.approx(0.05), "a longer trial understates nothing"
    assert one.loss(trial(1e8, 0.01)) == 0


def test_a_start_up_is_what_a_short_trial_loses_more() -> None:
    one = sampler()
    # s / 1 s - s / 5 s = 1.6 %: of a start-up of 20 ms
    assert one.startup_between(trial(1e8, 0.02), trial(1e8, 0.004, 5.0)) == pytest.approx(0.02)
    assert one.startup_between(trial(1e8, 0.01, 2.0), trial(1e8, 0.002, 10.0)) == pytest.approx(0.02)
    assert one.startup_between(trial(1e8, 0.02), trial(1e8, 0.01905, 5.0)) == 0, "less than a tenth of the ratio"
    # 400 of 10,000 packets scatter by 20, which are 0.2 %
    assert one.startup_between(trial(1e8, 0.04, sent=1e4), trial(1e8, 0.0381, 5.0)) == 0
    assert one.startup_between(trial(1e8, 0.04, sent=1e4), trial(1e8, 0.0379, 5.0)) > 0


def test_what_loses_nothing_has_no_start_up_to_look_for() -> None:
    one = sampler(loses(0.0019))
    one.look_for_startup(70e6)
    assert (one.startup_s, [t.asked_rate_bps for t in one.account.trials]) == (0, [70e6, 70e6])
    long = sampler(loses(0.5), trial_duration_s=2.1)
    long.look_for_startup(70e6)
    assert len(long.account.trials) == 2, "five times as long would be longer than ten seconds"


def test_one_long_trial_tells_a_start_up_and_a_stall_in_it_costs_another() -> None:
    def starting(rate_bps: float, duration_s: float) -> Loss:
        return Loss(1e6, 1e6 * (1 - 0.03 / duration_s))

    one = sampler(starting)
    one.look_for_startup(70e6)
    assert one.startup_s == pytest.approx(0.03)
    assert [t.duration_s for t in one.account.trials] == [1, 1, 5]
    ratios = iter([0.09, 0.03, 0.03, 0.006])  # a stall in the first, and in the first long one
    one = sampler(lambda rate_bps, duration_s: Loss(1e6, 1e6 * (1 - next(ratios))))
    one.look_for_startup(70e6)
    assert [t.duration_s for t in one.account.trials] == [1, 1, 5, 5]
    assert one.startup_s == pytest.approx((0.03 - 0.006) / 0.8)
    one = sampler(loses(0.03))
    one.look_for_startup(70e6)
    assert [t.duration_s for t in one.account.trials] == [1, 1, 5, 5], "two long ones say that there is none"
    assert one.startup_s == 0


def test_trials_are_near_from_half_the_rate_to_a_fifth_above_it_or_as_far_as_the_belief_spreads() -> None:
    rates_bps = [49e6, 51e6, 100e6, 100e6 * math.exp(0.19), 100e6 * math.exp(0.21), 100e6 * math.exp(0.31)]
    one = sampler(trials=map(trial, rates_bps))
    assert [t.offered_rate_bps for t in one.local(100e6, 0.0)] == rates_bps[1:4]
    assert [t.offered_rate_bps for t in one.local(100e6, 0.3)] == rates_bps[1:5]


@pytest.mark.parametrize(
    ("width", "fewest"), [(0.01, 24), (0.02, 6), (0.1, 3), (0.005, 40)], ids=["usual", "wider", "widest", "narrow"]
)
def test_an_interval_is_narrow_when_it_is_as_asked_and_of_enough_trials(width: float, fewest: int) -> None:
    """24 at ± 1 %, and by the square of the width more or fewer, from 3 to 40."""
    believed = {"low_bps": 100e6 * (1 - 0.999 * width), "high_bps": 100e6 * (1 + 0.999 * width)}
    one = sampler(trials=[trial(1e8)] * (fewest - 1), believed=believed, relative_width=width)
    assert not one.narrow()
    one.account.trials.append(trial(1e8))
    assert one.narrow()
    one.posterior.is_trustworthy = False  # type: ignore[misc]
    assert not one.narrow()
    wide = {"low_bps": 100e6 * (1 - 1.001 * width), "high_bps": 100e6 * (1 + 1.001 * width)}
    assert not sampler(trials=[trial(1e8)] * 50, believed=wide, relative_width=width).narrow()


def offered(one: Sampler, count: int) -> list[float]:
    """Over the estimate, of so many trials in turn; a probe of it is 1.13."""
    return [one.estimating_trial(number).asked_rate_bps / 100e6 for number in range(count)]


def test_every_second_trial_is_a_probe_and_the_others_are_at_the_estimate_or_half_a_deviation_above() -> None:
    above = math.exp(0.5 * 0.02)
    assert offered(sampler(), 6) == pytest.approx([1, 1.13, above, 1.13, 1, 1.13])
    assert offered(sampler(believed={"noise": 0.001}), 3)[2] == pytest.approx(math.exp(0.005)), "of 1 % at least"


@pytest.mark.parametrize("other", [{"jitter": 0.011}, {"livelock": 0.11}])
def test_what_loses_something_else_is_tried_at_the_estimate_and_seldom_probed(other: dict[str, float]) -> None:
    assert offered(sampler(believed=other), 7) == pytest.approx([1, 1.13, 1, 1, 1, 1.13, 1])
    assert offered(sampler(believed={"jitter": 0.01, "livelock": 0.1}), 4)[3] == pytest.approx(1.13)


@pytest.mark.parametrize(("loss", "again"), [(0.5, 1.13), (0.51, math.exp(0.01))])
def test_what_loses_more_than_half_of_a_probe_is_not_probed_again(loss: float, again: float) -> None:
    assert offered(sampler(loses(loss)), 4)[3] == pytest.approx(again)


def test_a_start_up_matters_where_it_moves_the_answer_or_may_leave_none() -> None:
    def matters(believed: dict[str, float], *, long_trials: int = 0, seen: bool = False) -> bool:
        one = sampler(believed=believed)
        one.startup_s, one.long_trials, one.compared = 0.0, long_trials, seen
        return one.startup_matters()

    assert not matters({"due_to_startup": 0.0025})
    assert matters({"due_to_startup": 0.0026}), "a quarter of the width"
    assert not matters({"no_throughput": 0.005})
    assert matters({"no_throughput": 0.006})
    assert matters({"due_to_startup": 0.0026}, long_trials=1)
    assert not matters({"due_to_startup": 0.9}, long_trials=2), "two long trials are enough"
    assert matters({"no_throughput": 0.006}, long_trials=2), "but whether there is a number is worth a third"
    assert not matters({"no_throughput": 0.006}, long_trials=3)
    wide = {"low_bps": 90e6, "high_bps": 110e6}  # half its width is 5 %, and a quarter of that 1.25 %
    assert not matters({**wide, "due_to_startup": 0.012}, seen=True)
    assert matters({**wide, "due_to_startup": 0.013}, seen=True)


def test_a_floor_of_three_tenths_of_the_ratio_may_be_a_start_up_until_one_was_looked_for() -> None:
    assert sampler(believed={"floor": 0.0031}).startup_matters()
    assert not sampler(believed={"floor": 0.003}).startup_matters()
    looked = sampler(believed={"floor": 0.0031})
    looked.startup_s = 0.0
    assert not looked.startup_matters()


def test_an_estimate_above_all_that_was_offered_is_the_generators_limit_or_wants_more_time() -> None:
    limits = ([trial(1e9)], [trial(1e8, asked_bps=2e8), trial(1.5e8)])
    for trials, rate_bps in zip(limits, (1.2e9, 2e8), strict=True):
        with pytest.raises(NoNumber) as end:
            sampler(trials=trials, believed={"rate_bps": rate_bps}).refuse_what_was_not_offered()
        assert end.value.flag == "generator_limited"
    with pytest.raises(BudgetSpent):
        sampler(trials=[trial(1e8), trial(5e7)], believed={"rate_bps": 1.1e8}).refuse_what_was_not_offered()
    sampler(trials=[trial(1e8), trial(5e7)], believed={"rate_bps": 1e8}).refuse_what_was_not_offered()


def test_an_estimate_below_the_lowest_rate_is_no_throughput() -> None:
    with pytest.raises(NoNumber) as end:
        sampler(trials=[trial(1e8)], believed={"rate_bps": 0.9e6}).refuse_what_was_not_offered()
    assert end.value.flag == "no_throughput"
    sampler(trials=[trial(1e8)], believed={"rate_bps": 1e6}).refuse_what_was_not_offered()


def test_an_estimate_is_contradicted_by_a_bad_fail_below_it_that_nothing_above_has_passed() -> None:
    def contradicted(*trials: SearchTrial) -> bool:
        return sampler(trials=trials).is_contradicted()

    assert contradicted(trial(90e6, 0.3))
    assert contradicted(trial(100e6, 0.3))
    assert not contradicted(trial(101e6, 0.3))
    assert not contradicted(trial(90e6, 0.2)), "that is no bad fail"
    assert not contradicted(trial(90e6, 0.3), trial(90e6, 0.009)), "it has passed as well"
    assert contradicted(trial(90e6, 0.3), trial(89e6, 0.009))
    assert not contradicted(trial(90e6))


def test_an_unfinished_search_has_the_highest_pass_below_a_fail() -> None:
    found = sampler(trials=[trial(50e6), trial(80e6, 0.009), trial(90e6, 0.3), trial(120e6, 0.5)]).unconfirmed_result()
    assert (found.rate_bps, found.interval_bps, *found.flags) == (80e6, (80e6, 90e6), "unconfirmed")
    for trials in ([trial(50e6)], [trial(90e6, 0.3)], []):
        found = sampler(trials=trials).unconfirmed_result()
        assert (found.rate_bps, found.interval_bps, *found.flags) == (None, None, "unconfirmed")


def test_a_confirmation_begins_at_the_careful_end_and_steps_down_by_the_width_four_times_at_most() -> None:
    """Five trials of two seconds each that do not pass, until the rate is low enough."""

    def up_to(highest_bps: float) -> Callable[[float, float], Loss]:
        return lambda rate_bps, duration_s: Loss(1e6, 1e6 * (1.0 if rate_bps <= highest_bps else 0.9))

    confirm: dict[str, Any] = {"confirm": (5, 2.0), "relative_width": 0.1}
    for highest_bps, confirmed_bps in ((98e6, 98e6), (97e6, 98e6 * 0.9), (98e6 * 0.9**3, 98e6 * 0.9**3), (7e7, None)):
        one = sampler(up_to(highest_bps), trials=[trial(100e6)] * 40, **confirm)
        found = one.confirm()
        assert found.confirmed_rate_bps == (confirmed_bps and pytest.approx(confirmed_bps))
        assert ("unconfirmed" in found.flags) is (confirmed_bps is None)
        assert found.rate_bps == 100e6
        assert found.interval_bps == (99e6, 101e6)
    lowest = sampler(up_to(0), min_rate_bps=97e6, **confirm)
    lowest.confirm()
    assert {t.asked_rate_bps for t in lowest.account.trials} == {98e6, 97e6}
    careful = sampler(believed={"careful_bps": 90e6}, min_rate_bps=95e6, **confirm)
    assert careful.confirm().confirmed_rate_bps == 95e6
    assert "unconfirmed" in sampler(budget_s=3.0, **confirm).confirm().flags


def test_a_generator_that_falls_short_confirms_nothing() -> None:
    short = sampler(lambda rate_bps, duration_s: Loss(1e6, 1e6, 0.5 * rate_bps), confirm=(2, 1.0))
    assert short.confirm().confirmed_rate_bps is None
    little = sampler(lambda rate_bps, duration_s: Loss(1e6, 1e6, 0.97 * rate_bps), confirm=(2, 1.0))
    assert little.confirm().confirmed_rate_bps == pytest.approx(0.97 * 98e6), "what was offered is confirmed"


@pytest.mark.parametrize(("half_width", "flagged"), [(0.0149, False), (0.0151, True)])
def test_an_interval_half_as_wide_again_as_asked_after_all_trials_is_unstable(half_width: float, flagged: bool) -> None:
    believed = {"low_bps": 100e6 * (1 - half_width), "high_bps": 100e6 * (1 + half_width)}
    one = sampler(believed=believed)
    assert one.flags() == frozenset()
    one.exhausted = True
    assert ("unstable" in one.flags()) is flagged


def test_a_belief_that_is_not_trusted_after_all_trials_is_unstable() -> None:
    one = sampler()
    one.posterior.is_trustworthy = False  # type: ignore[misc]
    assert one.flags() == frozenset()
    one.exhausted = True
    assert one.flags() == {"unstable"}


def comparing(long_loss: float, startup_s: float = 0.0) -> tuple[Sampler, list[str]]:
    """One that has compared a short trial in which it stalled with a long one, beside an earlier short one that did
    not; and whether it began a new belief or learned."""
    ratios = iter([0.05, long_loss])
    earlier = [trial(85e6, 0.02), trial(85e6, 0.001, 5.0)]
    one = sampler(lambda rate_bps, duration_s: Loss(1e6, 1e6 * (1 - next(ratios))), believed={"startup_s": startup_s})
    one.posterior = SimpleNamespace(trials=earlier, is_trustworthy=True, centre_bps=100e6)  # type: ignore[assignment]
    did: list[str] = []
    one.believe = lambda centre_bps, spread: did.append("believed")  # type: ignore[method-assign]
    one.learn = lambda *trials: did.append(f"learned {len(trials)}")  # type: ignore[method-assign]
    one.compare_durations()
    return one, did


def test_a_start_up_is_sought_by_the_best_short_trial_and_a_long_one_below_the_estimate() -> None:
    one, did = comparing(0.004)
    assert one.startup_s == pytest.approx((0.02 - 0.004) / 0.8)
    assert did == ["believed"], "what no hypothesis is about needs new ones"
    assert (one.compared, one.long_trials) == (True, 1)
    assert [(t.asked_rate_bps, t.duration_s) for t in one.account.trials] == [(85e6, 1), (85e6, 5)]


def test_a_start_up_that_is_believed_already_or_none_is_learned_from() -> None:
    assert comparing(0.004, startup_s=0.011)[1] == ["learned 2"]
    assert comparing(0.004, startup_s=0.009)[1] == ["believed"]
    one, did = comparing(0.02)
    assert (did, one.compared, one.startup_s) == (["learned 2"], False, None)
    one.account.measure = lambda rate_bps, duration_s: Loss(1e6, 1e6)
    one.compare_durations()
    assert one.compared, "twice none is none"
