"""Lines that no run writes: a trial that had ended has another one, and rounds are there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import metrics
from runner.cli.reading import report_of
from runner.data.irregular import MOST_TOLD, load_told
from runner.data.store import Store, open_store
from runner.data.trials import Invocation, Measurement, Run, Slice, Status, Trial

COMPLETE = Invocation(command_line=["vpneval"], started_at="2026-01-01T00:00:00+00:00", outcome="complete")
RUN = Run(
    vpneval_version="0",
    run_id="test",
    created_at="2026-01-01T00:00:00+00:00",
    profile="quick",
    seed=1,
    repetitions=3,
)


def trial(name: str, rounds: list[int], status: Status = "ok", **other: Any) -> Trial:
    found = [Measurement(metric="rtt", value=1, samples=[1.0] * len(rounds), rounds=rounds, unit="ms", better="lower")]
    measurements = found if status == "ok" else []
    started = "2026-01-01T00:00:00.000+00:00"
    fields = {"vpn": "openvpn", "params": {"measure": "idle"}, "repetition": 1, "started_at": started} | other
    return Trial(id=name, status=status, measurements=measurements, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
    return tmp_path / "run"


def told(folder: Path, *trials: Trial) -> list[str]:
    store = Store(folder)
    for each in trials:
        store.append(each)
    return load_told(folder)[2]


def test_a_whole_run_has_nothing_to_be_told(folder: Path) -> None:
    measured_again = trial("c", [], "failed"), trial("c", [], "interrupted"), trial("c", [5, 6])
    plain = trial("d", [1, 2], vpn="none"), trial("e", [3, 4], vpn="none", position="last")
    Store(folder).append_slices([Slice(trial="a", number=1, round=1, instance=1, at_s=0, duration_s=1, values={})])
    assert told(folder, trial("a", [1, 2]), trial("b", [3, 4], repetition=2), *measured_again, *plain) == []


@pytest.mark.parametrize("before", ["ok", "unsupported"])
@pytest.mark.parametrize("after", ["ok", "failed", "interrupted", "unsupported"])
def test_a_line_after_the_end_of_its_trial(folder: Path, before: Status, after: Status) -> None:
    first = told(folder, trial("a", [1], before), trial("a", [2], after))
    assert f"trials.jsonl, line 2: the trial a had ended before ({before}), and has another line" in " ".join(first)


def test_rounds_that_are_there_twice(folder: Path) -> None:
    sentences = told(folder, trial("a", [1, 2, 2]), trial("b", [2, 3], repetition=2))
    assert "the trial a has a round twice" in " ".join(sentences)
    assert "the trial b has rounds that a has, too" in " ".join(sentences)


def test_of_many_some_are_named(folder: Path) -> None:
    lines = told(folder, *[trial("a", [1])] * 9)
    named = [line for line in lines if "had ended before" in line]
    assert len(named) == MOST_TOLD
    assert any(line.startswith("5 more lines of that kind") for line in lines)


def test_a_report_says_it(folder: Path) -> None:
    Store(folder).save_run(RUN.model_copy(update={"metrics": {"rtt": metrics()["rtt"]}}))
    lines = told(folder, trial("a", [1, 1]))
    assert report_of([folder], "").caveats[: len(lines)] == lines


def test_a_copy_under_another_name_counts_once(folder: Path) -> None:
    store = Store(folder)
    one = trial("a", []).model_copy(update={"duration_s": 2.5})
    for each in (one, one.model_copy(update={"id": "b", "repetition": 2}), trial("c", [], repetition=3)):
        store.append(each)
    _, trials, sentences = load_told(folder)
    assert [each.id for each in trials] == ["a", "c"]
    assert "the trial b is a once more" in " ".join(sentences)


def test_what_slices_tell_of_lines_that_are_missing_or_cut(folder: Path) -> None:
    Store(folder).save_run(RUN.model_copy(update={"invocations": [COMPLETE]}))
    names = ("openvpn-0-r1", "openvpn-0-r2", "openvpn-0-r3")
    rows = [
        Slice(trial=name, number=number, round=number, instance=1, at_s=0, duration_s=1, values={"rtt": 1})
        for name in names
        for number in (1, 2)
    ]
    Store(folder).append_slices(rows)
    sentences = told(folder, trial(names[0], [1, 2]), trial(names[1], [4], repetition=2))
    assert f"trial {names[1]} counts as failed: its line has 1 of its 2 rounds" in " ".join(sentences)
    assert f"the line of the trial {names[2]} is missing" in " ".join(sentences)
    found = {each.id: each for each in load_told(folder)[1]}
    assert [found[name].status for name in names] == ["ok", "failed", "failed"]
    assert [found[name].repetition for name in names] == [1, 2, 3]


def test_a_run_that_was_killed_between_a_slice_and_its_trial_was_not_edited(folder: Path) -> None:
    Store(folder).append_slices([Slice(trial="openvpn-0-r2", number=1, round=1, instance=1, at_s=0, duration_s=1)])
    assert told(folder, trial("openvpn-0-r1", [])) == []
