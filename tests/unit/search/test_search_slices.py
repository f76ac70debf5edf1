"""The throughput search as an instrument measures by it: cut into its trials."""

from collections.abc import Callable
from typing import Any

import pytest

from runner.data.errors import MeasurementError
from runner.instruments.instrument import Found, Go
from runner.instruments.tools.searched import run_search
from runner.search import Loss, SearchResult, find_throughput
from runner.search.settings import UdpSearch
from runner.search.steps import Offer, steps
from tests.bench.devices import Device

SEARCH = UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=(3, 2.0))


def device() -> Device:
    return Device(capacity_bps=300e6, noise=0.02, floor=0.001, stalls_per_s=0.01, seed=7)


def drive(search: Any, measure: Callable[[float, float], Loss], most: int | None = None) -> SearchResult:
    """Play the trials of ``steps``; after ``most`` of them, the search is told to end."""
    try:
        load, done = next(search), 0
        while True:
            assert isinstance(load, Offer)
            done += 1
            loss = measure(*load)
            load = search.send(None if done == most else loss)
    except StopIteration as end:
        result: SearchResult = end.value
        return result


@pytest.mark.parametrize("engine", ["bayes", "binary"])
def test_steps_find_what_find_throughput_finds(engine: Any) -> None:
    arguments: dict[str, Any] = {"engine": engine, "max_rate_bps": 1e9, "overhead_s": 0.3}
    whole = find_throughput(device(), **arguments)
    stepped = drive(steps(lambda measure: find_throughput(measure, **arguments)), device())
    assert stepped == whole
    assert len(whole.trials) > 5


def test_two_searches_in_turn_find_what_each_finds_alone() -> None:
    devices = [Device(capacity_bps=rate_bps, noise=0.02, seed=3) for rate_bps in (200e6, 700e6)]
    alone = [find_throughput(Device(capacity_bps=one.capacity_bps, noise=0.02, seed=3)) for one in devices]
    running: dict[int, Any] = {number: steps(find_throughput) for number in (0, 1)}
    loads, found = {number: next(search) for number, search in running.items()}, dict[int, SearchResult]()
    while loads:
        for number in list(loads):
            try:
                loads[number] = running[number].send(devices[number](*loads[number]))
            except StopIteration as end:
                found[number] = end.value
                del loads[number]
    assert [found[0], found[1]] == alone


def searching(offer: Any, ended_after: int | None = None) -> tuple[SearchResult, list[Found]]:
    """Play ``searched``; after so many slices it is told to end."""
    measuring, slices, go = run_search(SEARCH, offer, None, 0.3), list[Found](), Go.ON
    try:
        slices.append(next(measuring))
        while True:
            go = Go.END if len(slices) == ended_after else Go.ON
            slices.append(measuring.send(go))
    except StopIteration as end:
        return end.value, slices


def test_each_trial_of_a_search_is_a_slice() -> None:
    result, slices = searching(device())
    assert result == SEARCH.find(device(), None, 0.3)
    assert [found["asked_rate_bps"] for found in slices] == [trial.asked_rate_bps for trial in result.trials]
    assert all(0 <= found["received"] <= found["sent"] for found in slices)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_search_that_is_told_to_end_returns_what_it_has(count: int) -> None:
    whole, all_slices = searching(device())
    result, slices = searching(device(), ended_after=count)
    assert slices == all_slices[:count]
    assert list(result.trials) == list(whole.trials)[:count]
    assert {"unconfirmed"} <= {*result.flags}


def test_a_trial_that_does_not_end_fails_the_search() -> None:
    def hang(rate_bps: float, duration_s: float) -> Loss:
        raise TimeoutError("iperf3 said nothing for 30 s")

    with pytest.raises(
        MeasurementError, match=r"^the trial at [\d.]+ Mbit/s did not end: iperf3 said nothing for 30 s$"
    ):
        searching(hang)


def test_a_search_that_is_closed_early_leaves_nothing_behind() -> None:
    measuring = run_search(SEARCH, device(), None, 0.3)
    next(measuring)
    measuring.close()
    with pytest.raises(StopIteration):
        next(measuring)
