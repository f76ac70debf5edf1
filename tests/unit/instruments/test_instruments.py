"""The contract that every instrument keeps, and how it is played."""

import re
from typing import Any, cast

import pytest

from runner.catalogue import factors, instruments
from runner.data.errors import LabError, MeasurementError
from runner.data.levels import BY_PROFILE, Levels
from runner.design.profile import PROFILES
from runner.instruments import instrument as contract
from runner.instruments.instrument import Found, Go, Instrument, Measuring, at_once, play
from runner.instruments.result import Measured, measurement

OF_THE_TREE = instruments()
EVERY = pytest.mark.parametrize("instrument", OF_THE_TREE.values(), ids=lambda one: one.name)


# --- what every instrument says of itself ---------------------------------------------------------------------


@EVERY
def test_its_metrics_have_a_definition_and_its_factors_a_default(instrument: Instrument) -> None:
    assert re.fullmatch(r"[a-z_]+", instrument.name)
    assert instrument.metrics
    for metric in instrument.metrics:
        assert re.fullmatch(r"[a-z0-9_]+", metric.name)
        assert all((metric.title, metric.definition, metric.source))
    for factor, levels in instrument.factors.items():
        assert levels.named, factor
        assert len(set(levels.named)) == len(levels.named)
        assert levels.default in (None, BY_PROFILE) or is_level(str(levels.default), levels), factor


def is_level(level: str, of: Levels) -> bool:
    low, high = of.range or (1, 0)
    return level in of.named or (level.isdigit() and low <= int(level) <= high)


@EVERY
def test_each_of_its_trials_takes_time(instrument: Instrument) -> None:
    levels = {factor: levels.default or levels.named[0] for factor, levels in instrument.factors.items()}
    for profile in PROFILES.values():
        decided = {"payload_bytes": str(profile.udp_payload_bytes), "fragmentation": profile.fragmentation}
        params = {"measure": instrument.name} | levels | {f: decided[f] for f in decided if f in levels}
        for first in (True, False):
            assert 0 < instrument.expected_s(params, profile, first=first) < 24 * 3600, profile.name


def test_what_two_instruments_call_the_same_is_the_same() -> None:
    names = [metric.name for one in OF_THE_TREE.values() for metric in one.metrics]
    assert len(set(names)) == len(names)
    assert all(name == one.name for name, one in OF_THE_TREE.items())
    for one in OF_THE_TREE.values():
        for factor, levels in one.factors.items():
            assert factors()[factor] == levels


def test_every_class_with_a_name_is_an_instrument_of_its_own() -> None:
    found: list[type[Instrument]] = []

    def below(kind: type[Instrument]) -> None:
        for one in kind.__subclasses__():
            found.extend([one] if hasattr(one, "name") and one.__module__.startswith("runner.") else [])
            below(one)

    below(Instrument)  # type: ignore[type-abstract]
    assert sorted(kind.name for kind in found) == sorted(OF_THE_TREE)


# --- how it is played ---------------------------------------------------------------------------------------


def counting(slices: int, closed: list[str]) -> Measuring:
    """A measurement of so many slices, which says when it has cleaned up."""
    try:
        for number in range(1, slices + 1):
            if (yield {"number": number}) is Go.END:
                break
        return Measured([measurement("mine", number)])
    finally:
        closed.append("cleaned up")


def test_its_slices_are_kept_in_order_and_its_result_returned() -> None:
    kept, closed = list[Found](), list[str]()
    assert play(counting(3, closed), kept.append).measurements[0].value == 3
    assert kept == [{"number": 1}, {"number": 2}, {"number": 3}]
    assert closed == ["cleaned up"]
    assert at_once(counting(4, [])).measurements[0].value == 4


def test_a_measurement_that_nobody_goes_on_with_cleans_up() -> None:
    closed = list[str]()

    def full(found: Found) -> None:
        raise LabError("the disk is full")

    with pytest.raises(LabError, match="the disk is full"):
        play(counting(3, closed), full)
    assert closed == ["cleaned up"]


def test_one_that_is_told_to_end_returns_what_it_has() -> None:
    measuring = counting(5, [])
    assert next(measuring) == {"number": 1}
    assert measuring.send(Go.ON) == {"number": 2}
    with pytest.raises(StopIteration) as end:
        measuring.send(Go.END)
    assert end.value.value.measurements[0].value == 2


def test_one_without_a_yield_is_told_so() -> None:
    with pytest.raises(
        MeasurementError,
        match=r"^measure\(\) is not a generator: it has no yield. For one that measures in one piece, see Whole$",
    ):
        at_once(cast(Measuring, Measured()))


def test_what_cannot_be_cut_has_one_slice() -> None:
    class Mine(contract.Whole):
        name = "mine"

        def expected_s(self, *_: Any, **__: Any) -> float:
            return 1.0

        def once(self, *_: Any) -> Measured:
            return Measured([measurement("a", 1.0), measurement("b", 2.0)])

    kept = list[Found]()
    nobody: Any = None
    assert len(play(Mine().measure(nobody, nobody), kept.append).measurements) == 2
    assert kept == [{"a": 1.0, "b": 2.0}]
