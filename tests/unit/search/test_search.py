"""The throughput search on devices whose answer is known: every engine, every flag, every refusal."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from runner.data.errors import MeasurementError, UsageError
from runner.search import TAKES, Engine, Loss, Measure, SearchResult, find_throughput
from runner.search.settings import UdpSearch
from tests.bench.devices import Device, population

PLAIN = Device(300e6, noise=0.005, floor=0.001, seed=7)
FAST: dict[str, Any] = {"confirm": None, "relative_width": 0.02, "trial_duration_s": 1.0}


def device(**changes: Any) -> Device:
    """A fresh, quiet device of 300 Mbit/s."""
    return Device(**{"capacity_bps": 300e6, "noise": 0.005, "floor": 0.001, "seed": 7, **changes})


def sharp(capacity_bps: float) -> Measure:
    """Forwards everything up to a capacity, in exact numbers."""
    return lambda rate_bps, _: Loss(1.0, min(1.0, capacity_bps / rate_bps))


def assert_no_number(result: SearchResult, flag: str) -> None:
    assert flag in result.flags
    assert result.rate_bps is None
    assert result.interval_bps is None
    assert result.confirmed_rate_bps is None


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544", "scan"])
def test_every_engine_finds_a_quiet_device(engine: Engine) -> None:
    dut = device(noise=0.002)
    result = find_throughput(dut, engine=engine, max_rate_bps=1e9)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.015)
    assert result.confirmed_rate_bps is not None
    assert result.confirmed_rate_bps <= dut.true_throughput() * 1.01
    assert not result.flags


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544"])
def test_everything_passes_means_the_generator_is_the_limit(engine: Engine) -> None:
    assert_no_number(find_throughput(sharp(1e12), engine=engine), "generator_limited")


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544", "scan"])
@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(lambda rate_bps, _: Loss(1000, 0), id="zero received"),
        pytest.param(lambda rate_bps, _: Loss(1000, 900), id="a tenth lost at any rate"),
        pytest.param(lambda rate_bps, _: Loss(1000, 1000 * min(1.0, 5e5 / rate_bps)), id="below the minimum"),
    ],
)
def test_nothing_passes(engine: Engine, measure: Measure) -> None:
    assert_no_number(find_throughput(measure, engine=engine), "no_throughput")


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544", "scan"])
def test_a_sender_that_falls_short_passes_nothing_it_did_not_offer(engine: Engine) -> None:
    def short(rate_bps: float, duration_s: float) -> Loss:
        return Loss(1000, 1000, min(rate_bps, 40e6))

    assert_no_number(find_throughput(short, engine=engine), "generator_limited")


@pytest.mark.parametrize("engine", ["bayes", "binary"])
def test_a_sender_that_falls_short_above_the_throughput_does_no_harm(engine: Engine) -> None:
    def short(rate_bps: float, duration_s: float) -> Loss:
        offered_bps = min(rate_bps, 800e6)
        return dut(offered_bps, duration_s)._replace(offered_rate_bps=offered_bps)

    dut = device()
    result = find_throughput(short, engine=engine)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.02)


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544", "scan"])
def test_a_hang_is_an_error_that_names_the_trial(engine: Engine) -> None:
    def hang(rate_bps: float, duration_s: float) -> Loss:
        raise TimeoutError("no answer")

    with pytest.raises(MeasurementError, match=r"Mbit/s for .* did not end"):
        find_throughput(hang, engine=engine)


def test_what_measure_raises_is_not_swallowed() -> None:
    def broken(rate_bps: float, duration_s: float) -> Loss:
        raise RuntimeError("cable")

    with pytest.raises(RuntimeError, match="cable"):
        find_throughput(broken)


@pytest.mark.parametrize(
    "loss", [Loss(0, 0), Loss(10, -1), Loss(float("nan"), 1), Loss(10, float("inf")), Loss(10, 10, 0.0)]
)
def test_counts_that_make_no_sense_are_an_error(loss: Loss) -> None:
    with pytest.raises(MeasurementError):
        find_throughput(lambda rate_bps, duration_s: loss)


@pytest.mark.parametrize(
    "arguments",
    [
        {"loss_ratio": -0.1},
        {"loss_ratio": 1.0},
        {"loss_ratio": float("nan")},
        {"min_rate_bps": 0},
        {"max_rate_bps": float("inf")},
        {"min_rate_bps": 2e9, "max_rate_bps": 1e9},
        {"relative_width": 0},
        {"relative_width": 1.0},
        {"trial_duration_s": 0},
        {"trial_duration_s": -1},
        {"budget_s": 0},
        {"confirm": (0, 10.0)},
        {"confirm": (2.5, 10.0)},
        {"confirm": (10, 0.0)},
        {"first_rate_bps": 0},
        {"first_rate_bps": 20e9},
        {"overhead_s": -1},
        {"engine": "guess"},
    ],
    ids=str,
)
def test_nonsense_is_refused_before_anything_is_measured(arguments: dict[str, Any]) -> None:
    def never(rate_bps: float, duration_s: float) -> Loss:
        pytest.fail("measured")

    with pytest.raises(UsageError, match=next(iter(arguments))):
        find_throughput(never, **arguments)


UNUSUAL: dict[str, Any] = {
    "relative_width": 0.05,
    "trial_duration_s": 1.0,
    "first_rate_bps": 250e6,
    "confirm": (3, 1.0),
}


@pytest.mark.parametrize("argument", UNUSUAL)
@pytest.mark.parametrize("engine", get_args(Engine))
def test_an_argument_changes_the_search_or_is_refused(engine: Engine, argument: str) -> None:
    def search(**arguments: Any) -> SearchResult:
        # the scan begins below 1 Gbit/s, so that it ends soon
        return find_throughput(device(), engine=engine, min_rate_bps=200e6, max_rate_bps=1e9, **arguments)

    if argument in TAKES[engine]:
        assert search(**{argument: UNUSUAL[argument]}).trials != search().trials
    else:
        with pytest.raises(UsageError, match=f"{argument} has no effect in the engine {engine}. Leave it out"):
            search(**{argument: UNUSUAL[argument]})


@pytest.mark.parametrize("engine", get_args(Engine))
def test_one_way_to_ask_serves_every_engine(engine: Engine) -> None:
    dut = device(noise=0.002)
    asked = UdpSearch(engine=engine, max_rate_bps=1e9)
    assert asked.find(dut, 250e6, 0.0).rate_bps == pytest.approx(dut.true_throughput(), rel=0.02)


def test_time_is_durations_plus_overheads_and_the_budget_holds() -> None:
    result = find_throughput(device(noise=0.05), confirm=None, budget_s=30, overhead_s=0.5)
    assert result.elapsed_s == pytest.approx(sum(t.duration_s + 0.5 for t in result.trials))
    assert result.elapsed_s <= 30


def test_a_budget_too_small_for_the_confirmation_leaves_it_unconfirmed() -> None:
    result = find_throughput(device(), budget_s=70)
    assert result.flags == {"unconfirmed"}
    assert result.rate_bps is not None
    assert result.confirmed_rate_bps is None


@pytest.mark.parametrize("engine", ["bayes", "binary", "rfc2544", "scan"])
def test_a_budget_for_one_trial_gives_no_number(engine: Engine) -> None:
    own: dict[str, Any] = {"trial_duration_s": 10.0} if engine == "bayes" else {}
    assert_no_number(find_throughput(device(), engine=engine, budget_s=11, **own), "unconfirmed")


@pytest.mark.parametrize("loss_ratio", [0.0, 0.001, 0.05])
def test_ndr_and_pdr_with_the_same_call(loss_ratio: float) -> None:
    dut = device(noise=0.0, floor=0.0)
    result = find_throughput(dut, loss_ratio=loss_ratio, confirm=None)
    assert result.rate_bps == pytest.approx(dut.capacity_bps / (1 - loss_ratio), rel=0.01)


def test_quick_and_warm_searches_take_few_trials() -> None:
    quick = find_throughput(device(), **FAST)
    warm = find_throughput(device(), **FAST, first_rate_bps=310e6)
    assert len(quick.trials) <= 8
    assert len(warm.trials) <= 6
    assert max(trial.offered_rate_bps for trial in warm.trials) < 400e6  # no overload


def test_one_accident_does_not_decide() -> None:
    dut, count = device(), 0

    def stalls_once(rate_bps: float, duration_s: float) -> Loss:
        nonlocal count
        count += 1
        loss = dut(rate_bps, duration_s)
        return loss._replace(received=loss.received * 0.9) if count == 3 else loss

    result = find_throughput(stalls_once, confirm=None)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.01)


@pytest.mark.parametrize(("startup_s", "stalled_s"), [(0.012, 0.0), (0.012, 0.1)])
def test_a_stall_in_the_first_long_trial_does_not_hide_a_start_up(startup_s: float, stalled_s: float) -> None:
    """In trials of one second this device loses more than 1 % at any rate: without a start-up there is no number."""
    dut, longs = device(startup_s=startup_s), 0

    def stalls_once(rate_bps: float, duration_s: float) -> Loss:
        nonlocal longs
        longs += duration_s > 1
        loss = dut(rate_bps, duration_s)
        stalled = stalled_s if duration_s > 1 and longs == 1 else 0.0
        return loss._replace(received=loss.received * (1 - stalled / duration_s))

    result = find_throughput(stalls_once, confirm=None, trial_duration_s=1.0)
    assert longs >= 1 + (stalled_s > 0)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.01)


def test_half_a_stall_in_the_first_long_trial_does_not_send_the_search_to_the_bottom() -> None:
    """It leaves a start-up that is too short to explain the loss: a second long trial finds the whole of it."""
    dut = population(80, 152_000, "startup")[51]
    result = find_throughput(dut, confirm=None, trial_duration_s=1.0, overhead_s=0.3)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.01)


@pytest.mark.parametrize(("floor", "startup_s"), [(0.001, 0.004), (0.005, 0.0)])
def test_what_a_quiet_device_loses_at_any_rate_is_tried_in_a_long_trial(floor: float, startup_s: float) -> None:
    """A start-up and a floor look the same in trials of one duration, and only one of them counts for ten seconds."""
    dut = device(floor=floor, startup_s=startup_s)
    result = find_throughput(dut, confirm=None, trial_duration_s=1.0)
    assert any(trial.duration_s > 1 for trial in result.trials)
    assert result.interval_bps is not None
    assert result.interval_bps[0] < dut.true_throughput() < result.interval_bps[1]
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.004)


def test_the_same_measurements_give_the_same_search() -> None:
    assert find_throughput(device(), **FAST) == find_throughput(device(), **FAST)


def collapsing(rate_bps: float, duration_s: float) -> Loss:
    """A tunnel that carries 200 Mbit/s and breaks down above it, as an SSH session does."""
    return Loss(1000, 1000 if rate_bps <= 200e6 else 0, rate_bps)


@pytest.mark.parametrize("first_bps", [100e6, 190e6, 600e6])
@pytest.mark.parametrize("budget_s", [5.0, 9.0, 60.0])
def test_no_budget_makes_a_number_above_what_was_seen_to_fail(first_bps: float, budget_s: float) -> None:
    found = find_throughput(
        collapsing,
        relative_width=0.02,
        trial_duration_s=1.0,
        confirm=None,
        budget_s=budget_s,
        first_rate_bps=first_bps,
        overhead_s=0.1,
    )
    failed = [trial.offered_rate_bps for trial in found.trials if trial.loss_ratio > 0.01]
    if found.rate_bps is not None:
        assert found.rate_bps <= min(failed, default=float("inf"))
    else:
        assert found.flags, "no number without a flag that says why"


def test_probes_overload_a_little_and_show_the_capacity() -> None:
    result = find_throughput(device(), confirm=None, trial_duration_s=1.0)
    probes = [trial for trial in result.trials if trial.purpose == "probe"]
    assert len(probes) >= 4
    assert result.rate_bps is not None
    for probe in probes:
        assert 1.05 < probe.offered_rate_bps / result.rate_bps < 1.25
        assert probe.forwarded_rate_bps == pytest.approx(300e6, rel=0.03)


def test_a_device_that_breaks_down_under_a_probe_is_not_probed_again() -> None:
    result = find_throughput(collapsing, confirm=None, trial_duration_s=1.0, first_rate_bps=190e6)
    assert [trial.loss_ratio > 0.5 for trial in result.trials if trial.purpose == "probe"].count(True) <= 1
    assert any(trial.loss_ratio > 0.5 for trial in result.trials)


def test_livelock_does_not_bend_the_estimate() -> None:
    dut = device(livelock=1.0)
    result = find_throughput(dut, confirm=None, trial_duration_s=1.0)
    assert result.rate_bps == pytest.approx(dut.true_throughput(), rel=0.01)
    assert "unstable" not in result.flags


@pytest.mark.parametrize(("livelock", "share"), [(0.0, 2), (1.0, 4)])
def test_a_device_in_livelock_is_probed_seldom(livelock: float, share: int) -> None:
    """Its loss is more than its excess by an unknown factor: at the answer itself that does not matter."""
    result = find_throughput(device(livelock=livelock, noise=0.03), confirm=None, trial_duration_s=1.0)
    probes = [trial.purpose == "probe" for trial in result.trials if trial.purpose in ("probe", "estimate")]
    assert np.mean(probes[len(probes) // 2 :]) == pytest.approx(1 / share, abs=0.06)


@pytest.mark.parametrize(("lead", "flags"), [(1.0, set()), (1.1, {"unstable"})])
def test_one_trial_that_forwarded_more_is_enough_to_know_of_a_faster_state(lead: float, flags: set[str]) -> None:
    slow, fast, count = device(), device(capacity_bps=300e6 * lead), 0

    def first_faster(rate_bps: float, duration_s: float) -> Loss:
        nonlocal count
        count += 1
        return (fast if count == 1 else slow)(rate_bps, duration_s)

    result = find_throughput(first_faster, confirm=None, trial_duration_s=1.0)
    assert result.rate_bps == pytest.approx(slow.true_throughput(), rel=0.015)
    assert result.flags == flags
