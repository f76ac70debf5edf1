"""What the slices of a trial come to, and what a trial that was under way has when its run is read."""

import random
import re
from pathlib import Path

import pytest

from runner.data.errors import UsageError
from runner.data.slices import FOREIGN, at_rate, curve_of, foreign_ratio, middle_mean, values_of, with_values
from runner.data.store import complete_trials, last_round, open_store
from runner.data.trials import Slice, Trial, Value
from tests.unit.synthetic import CBC, IDLE, make_run, make_trial

RUN = make_run(("none", "openvpn"))
UNDER_WAY = make_trial("openvpn", CBC | IDLE, 1).model_copy(update={"status": "interrupted"})


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([3.0], 3.0),
        ([1.0, 2.0], 1.5),
        ([1.0, 2.0, 90.0], 2.0),
        ([1.0, 2.0, 4.0, 90.0], 3.0),
        ([90.0, 1.0, 2.0, 3.0, 4.0, 0.0, 5.0, 6.0], 3.5),
    ],
)
def test_the_middle_half_is_averaged(values: list[float], mean: float) -> None:
    assert middle_mean(values) == mean
    assert middle_mean(values[::-1]) == mean


def test_one_slice_in_four_may_be_anything() -> None:
    rng = random.Random(1)
    quiet = [rng.gauss(100, 1) for _ in range(30)]
    assert abs(middle_mean(quiet) - 100) < 1
    assert abs(middle_mean([*quiet, *[0.0] * 5, *[1e9] * 5]) - 100) < 1


def rows(*values: dict[str, float], first: int = 1) -> list[Slice]:
    return [
        Slice(trial=UNDER_WAY.id, number=number, round=number + first - 1, at_s=number, duration_s=0.5, values=one)
        for number, one in enumerate(values, 1)
    ]


def test_each_metric_has_the_samples_of_the_rounds_that_named_it() -> None:
    slices = rows({"rtt": 1.0, "setup_time": 9.0}, {"rtt": 2.0, "carried_bytes": 7.0}, {"rtt": 6.0}, first=11)
    rtt, setup_time = values_of(slices, ["rtt", "setup_time", "tcp_throughput"])
    assert (rtt.metric, rtt.value, rtt.samples, rtt.rounds) == ("rtt", 2.0, [1.0, 2.0, 6.0], [11, 12, 13])
    assert (setup_time.samples, setup_time.rounds) == ([9.0], [11])
    assert values_of([], ["rtt"]) == []


def test_the_slices_values_replace_the_instruments_and_its_details_stay() -> None:
    slices = rows({"rtt": 1.0, "setup_time": 9.0}, {"rtt": 3.0})
    own = Value(metric="memory_bytes", value=5.0)
    by_round = Value(metric="jitter", value=4.0, samples=[4.0], rounds=[1])
    found = with_values(
        [Value(metric="rtt", value=0.0, detail={"p95_ms": 8.0}), own, by_round], slices, ["rtt", "setup_time"]
    )
    assert [(one.metric, one.value, one.rounds) for one in found] == [
        ("rtt", 2.0, [1, 2]),
        ("memory_bytes", 5.0, []),
        ("jitter", 4.0, [1]),
        ("setup_time", 9.0, [1]),
    ]
    assert found[0].detail == {"p95_ms": 8.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
    return tmp_path / "run"


def stored(folder: Path, *slices: Slice) -> Trial:
    with open_store(folder) as store:
        store.append_slices(slices)
    (found,) = complete_trials(folder, [UNDER_WAY], RUN)
    return found


def test_a_trial_under_way_has_the_values_of_its_slices(folder: Path) -> None:
    found = stored(folder, *rows({"rtt": 1.0, "unknown_to_the_run": 3.0}, {"rtt": 2.0}, first=5))
    (rtt,) = found.measurements
    assert (rtt.metric, rtt.value, rtt.rounds, rtt.unit, rtt.better) == ("rtt", 1.5, [5, 6], "ms", "lower")
    assert (found.status, found.measuring_s) == ("ok", 1.0)
    assert found.warnings == ["the run ended while this was measured: 2 slices"]
    assert last_round([found]) == 6


@pytest.mark.parametrize(
    "slices", [[], rows({"unknown_to_the_run": 1.0}), rows({})], ids=["none", "no metric", "empty"]
)
def test_a_trial_under_way_without_a_value_is_measured_again(folder: Path, slices: list[Slice]) -> None:
    found = stored(folder, *slices)
    assert (found.status, found.measurements) == ("lab_error", [])
    assert found.reason == "the run ended while this was measured"


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (2, {"values": {"rtt": -1.0}}, "rtt is -1 ms; it cannot be less than zero"),
        (3, {"values": {"rtt": 1e308}}, "rtt is 1e+308 in size; what is measured is 0, or from 1e-100 to 1e+100"),
        (1, {"values": {"unknown_to_the_run": -1e308}}, "unknown_to_the_run is 1e+308 in size; what"),
        (2, {"duration_s": 1e308}, "duration_s is beyond 1e+300 in size; what"),
        (2, {"at_s": 1e101}, "at_s is 1e+101 in size; what"),
        (2, {"values": {"cpu_s@10000000": -0.1}}, "cpu_s@10000000 is -0.1 s; it cannot be less than zero"),
        (1, {"values": {"gw1_cpu_s@1e9": -2.0}}, "gw1_cpu_s@1e9 is -2 s; it cannot be less than zero"),
    ],
)
def test_a_slice_that_cannot_be_is_named_with_its_line(
    folder: Path, number: int, change: dict[str, object], said: str
) -> None:
    slices = rows(*[{"rtt": 1.0}] * 12)
    slices[number - 1] = slices[number - 1].model_copy(update=change)
    with pytest.raises(UsageError, match=rf"slices\.jsonl, line {number}: {re.escape(said)}"):
        stored(folder, *slices)


def test_a_loss_and_what_no_metric_is_may_be_below_zero(folder: Path) -> None:
    found = stored(folder, *rows({"rtt": 1.0, "unknown_to_the_run": -3.0}))
    assert found.status == "ok"


def test_other_trials_stay_as_they_are(folder: Path) -> None:
    whole = make_trial("none", IDLE, 1, {"rtt": 1.0})
    assert complete_trials(folder, [whole], RUN) == [whole]
    stored(folder, *rows({"rtt": 1.0}))
    assert complete_trials(folder, [whole, UNDER_WAY], RUN)[0] == whole
    assert last_round([whole]) == 0


def test_who_writes_the_folder_sees_no_trial_that_is_under_way(folder: Path) -> None:
    with open_store(folder) as store:
        store.append(UNDER_WAY)
        assert store.trials == []
        store.append(UNDER_WAY.model_copy(update={"status": "ok"}))
        assert [one.status for one in store.trials] == ["ok"]


def test_other_programs_share_is_that_of_the_time_in_which_rungs_were_measured() -> None:
    found = [
        {at_rate(FOREIGN, 1e7): 0.3, at_rate("seconds", 1e7): 0.15},
        {at_rate(FOREIGN, 1e7): -0.01, at_rate("seconds", 1e7): 0.15, at_rate("seconds", 3e7): 0.15},
    ]
    assert foreign_ratio(curve_of(rows(*found)), 2) == pytest.approx(0.29 / 0.3 / 2, abs=1e-4)
    assert foreign_ratio(curve_of(rows({at_rate("seconds", 1e7): 0.15})), 2) is None
    assert foreign_ratio(curve_of(rows({at_rate(FOREIGN, 1e7): -0.02, at_rate("seconds", 1e7): 0.15})), 2) == 0
