"""A worker that says what no worker says: it is left out or its block goes elsewhere, and nothing is written outside
of the run folder."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.data.store import load_run
from runner.farm import block
from runner.farm.block import BlockError, pack, unpack
from tests.bench.made_up_farm import MACHINE, Fake, PaperWorkers, block_of, packed, run_of
from tests.unit.farm.test_farm import farm, impatient, spread, whole

__all__ = ["impatient"]
GOOD = {"name": "m2", "machine": MACHINE.model_dump(), "images": {}, "has": []}
NAMES = ["../../../evil", "/evil", "..", ".", "", "a/b", "a\nb", "a\x1b[2J", "-rf", "$(id)", "a b", "x" * 300, 7, None]
INTRODUCTIONS: list[Any] = [
    None,
    [],
    "m2",
    7,
    {},
    *[GOOD | {"name": name} for name in NAMES],
    *[{key: value for key, value in GOOD.items() if key != lack} for lack in GOOD],
    GOOD | {"machine": None},
    GOOD | {"machine": {**MACHINE.model_dump(), "cores": "many"}},
    GOOD | {"images": {"trixie": "0123"}},
    GOOD | {"images": {"trixie": {"digest": 7, "packages": {}}}},
    GOOD | {"has": ["../1"]},
    GOOD | {"please": "run this"},
]


def introduced(says: Any) -> PaperWorkers:
    """m2 introduces itself with this; m1 is a good machine."""
    return PaperWorkers(farm("m1") | {"tcp://m2": Fake("m2", introduces=lambda *_: says)})


def inside(folder: Path) -> None:
    """Is the run folder all that there is?"""
    assert [path.name for path in folder.iterdir()] == ["run"]


@pytest.mark.parametrize("number", range(len(INTRODUCTIONS)))
def test_a_machine_with_a_strange_introduction_is_left_out(number: int, tmp_path: Path) -> None:
    stopped, said, made = spread(tmp_path / "run", introduced(INTRODUCTIONS[number]), 3)
    assert stopped == ""
    whole(tmp_path / "run", 3)
    inside(tmp_path)
    assert list(made.left_out) == ["tcp://m2"]
    assert any("tcp://m2 is refused: " in line for line in said)


def test_a_good_introduction_is_taken(tmp_path: Path) -> None:
    _, _, made = spread(tmp_path / "run", introduced(GOOD), 3)
    assert not made.left_out
    assert set(load_run(tmp_path / "run")[0].machines) == {"m1", "m2"}


def with_log(log: str) -> bytes:
    trials, slices = block_of(1)
    return packed(run_of(1), [trial.model_copy(update={"log": log}) for trial in trials], slices)


def told(head: Any, content: bytes = b"") -> bytes:
    """An answer that says this of its files."""
    return gzip.compress(json.dumps(head).encode() + b"\n" + content)


ANSWERS: dict[str, Callable[[], Any]] = {
    "no bytes": lambda: "text",
    "nothing": lambda: None,
    "a number": lambda: 7,
    "noise": lambda: b"noise",
    "an empty archive": lambda: gzip.compress(b""),
    "a log above the folder": lambda: with_log("logs/../../evil"),
    "a log elsewhere": lambda: with_log("/evil"),
    "a file above the folder": lambda: pack({"../evil": b"x"}),
    "a log file above the folder": lambda: pack({"logs/../../evil": b"x"}),
    "a file elsewhere": lambda: pack({"/evil": b"x"}),
    "another number of bytes": lambda: told({"run.json": 2, "trials.jsonl": 0}, b"{"),
    "fewer than none": lambda: told({"run.json": 3, "trials.jsonl": -1}, b"{}"),
    "half a byte": lambda: told({"run.json": 1.5, "trials.jsonl": 0.5}, b"{}"),
    "names of many files": lambda: told({f"logs/{number}": 0 for number in range(400_000)}),
    "a list": lambda: told([["run.json", 2], ["trials.jsonl", 0]], b"{}"),
    "half of it": lambda: pack({"run.json": bytes(range(256)) * 99, "trials.jsonl": b""})[:-90],
    "another half": lambda: (whole := pack({"run.json": bytes(range(256)) * 99}))[:200] + b"\xff" * (len(whole) - 200),
    "no JSON": lambda: pack({"run.json": b"x", "trials.jsonl": b""}),
    "nested too deep": lambda: pack({"run.json": b"[" * 100_000, "trials.jsonl": b""}),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_strange_answer_is_another_machines_block(what: str, tmp_path: Path) -> None:
    machines = farm("m1") | {"tcp://m2": Fake("m2", answers=lambda number: ANSWERS[what]())}
    stopped, said, _ = spread(tmp_path / "run", PaperWorkers(machines), 4)
    assert stopped == ""
    whole(tmp_path / "run", 4)
    inside(tmp_path)
    assert any("came to nothing on m2" in line for line in said)
    assert {trial.machine for trial in load_run(tmp_path / "run")[1]} == {"m1"}


def test_a_small_answer_that_unpacks_to_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "MOST_UNPACKED", 1 << 20)
    files = {"run.json": b"{}", "trials.jsonl": b"", "logs/t/a.log": bytes(600_000)}
    assert set(unpack(pack(files))) == set(files)
    with pytest.raises(BlockError, match="more than 1 MiB"):
        unpack(pack({**files, "logs/t/b.log": bytes(600_000)}))
