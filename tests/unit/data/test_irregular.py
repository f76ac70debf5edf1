"""Lines that no run writes: a trial that had ended has another one, and rounds are there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import metrics
from runner.cli.reading import report_of
from runner.data.irregular import MOST_TOLD, load_told
from runner.data.store import Store, open_store
from runner.data.trials import Measurement, Run, Slice, Status, Trial

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
    assert "the trial a has rounds of rtt twice" in " ".join(sentences)
    assert "the trial b has rounds of rtt that a has, too" in " ".join(sentences)


def test_of_many_some_are_named(folder: Path) -> None:
    lines = told(folder, *[trial("a", [1])] * 9)
    named = [line for line in lines if "had ended before" in line]
    assert len(named) == MOST_TOLD
    assert any(line.startswith("5 more lines of that kind") for line in lines)


def test_a_report_says_it(folder: Path) -> None:
    Store(folder).save_run(RUN.model_copy(update={"metrics": {"rtt": metrics()["rtt"]}}))
    lines = told(folder, trial("a", [1, 1]))
    assert report_of([folder], "").caveats[: len(lines)] == lines
