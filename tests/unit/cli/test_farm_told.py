"""What a farm's run folder says of machines without blocks, and what a call does with a folder that is there."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import digest_of
from runner.data.asked import AskedFarm
from runner.data.errors import CannotRunHere, UsageError
from runner.data.store import load_run, read_run
from runner.farm import block, coordinator, machine
from runner.stages import farm
from runner.sweep.plan import blocks
from runner.sweep.request import Request
from runner.sweep.settings import Outcome
from tests.bench.made_up_farm import MACHINE, Fake, PaperWorkers, packed
from tests.unit.asking import FARM, request
from tests.unit.synthetic import make_trial


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)


@dataclass
class Told(PaperWorkers):
    """Workers that can also be told something all at once."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def everywhere(self, work: Callable[..., Any], *args: Any) -> None:
        """Nothing here has a spool."""
        self.told.append((work, *args[1:]))  # without the key of the run


def called(
    monkeypatch: pytest.MonkeyPatch, workers: Told, asked: Request, equal: str = "kernel,image,versions"
) -> tuple[Path, Outcome]:
    """`vpneval run --farm` with these workers."""

    @contextmanager
    def connected(*_: Any) -> Iterator[Told]:
        yield workers

    monkeypatch.setattr(farm, "connect_farm", connected)
    told = asked.asked.with_changes(farm=AskedFarm(address="tls://lab1:8786", equal=equal))
    assert told.out
    return told.out, farm.play(replace(asked, asked=told), told.out, lambda text: None)


def of_two(out: Path, repetitions: int) -> Request:
    """A run of openvpn and plain IP in one cell each."""
    return request(
        "transport",
        vpns="openvpn",
        profile="smallest",
        levels="measure=tcp,streams=1,direction=forward",
        out=out,
        farm=FARM,
        repetitions=repetitions,
    )


def measuring(asked: Request, name: str, digest: str = "0123") -> Told:
    """A machine with this lab image that measures what is asked for."""
    assert asked.asked.out
    folder = asked.asked.out

    def answer(number: int) -> bytes:
        planned = blocks(asked.cells, asked.repetitions, asked.asked.seed, set(), set(), asked.profile).block(number)
        trials = [
            make_trial(one.cell.vpn, one.cell.params, one.repetition, {"tcp_throughput": 1e9}).model_copy(
                update={"id": one.id, "position": one.position}
            )
            for tunnel in planned.tunnels
            for one in tunnel.trials
        ]
        return packed(read_run(folder / "run.json"), trials, [])

    images = {"trixie": {"digest": digest, "packages": {"openvpn": f"of {digest}"}}}
    own = MACHINE.model_copy(update={"image": f"trixie {digest}"})
    return Told({f"tcp://{name}": Fake(name, machine=own, images=images, answers=answer)})


def test_run_json_forgets_who_was_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = of_two(tmp_path / "run", 2)
    workers = measuring(asked, "m1")
    workers.machines["tcp://again"] = replace(workers.machines["tcp://m1"])
    told: list[dict[str, str]] = []

    def gone(old: PaperWorkers) -> None:
        told.append(read_run(tmp_path / "run" / "run.json").invocations[0].left_out)
        del old.machines["tcp://again"]

    workers.events[3] = gone
    folder, outcome = called(monkeypatch, workers, asked)
    assert outcome.stopped == ""
    assert told == [{"tcp://m1": "the machine m1 has another worker already, and one lab at a time"}]
    assert read_run(folder / "run.json").invocations[0].left_out == {}


def test_a_plugin_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = of_two(tmp_path / "run", 1)
    assert called(monkeypatch, measuring(first, "m1"), first)[1].stopped == ""
    changed = {"openvpn": "changed"}
    monkeypatch.setattr("runner.catalogue.digest_of", lambda vpn: changed.get(vpn.name) or digest_of(vpn))
    more = of_two(tmp_path / "run", 2)
    with pytest.raises(UsageError, match="has trials of another plugin called openvpn"):
        called(monkeypatch, measuring(more, "m1"), more)
    run, trials = load_run(tmp_path / "run")
    assert run.vpns["openvpn"].digest != "changed"
    assert {trial.repetition for trial in trials} == {1}


def test_a_run_goes_on_with_another_image_where_images_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repetitions, name, digest in ((1, "m1", "0123"), (2, "m2", "4567")):
        asked = of_two(tmp_path / "run", repetitions)
        _, outcome = called(monkeypatch, measuring(asked, name, digest), asked, "versions")
        assert outcome.stopped == ""
    run, trials = load_run(tmp_path / "run")
    assert {trial.machine for trial in trials} == {"m1", "m2"}
    assert {name: one.image for name, one in run.machines.items()} == {"m1": "trixie 0123", "m2": "trixie 4567"}
    assert (run.image["digest"], run.image["packages"]) == ("0123", {"openvpn": "of 0123"})
    packages = json.loads((tmp_path / "run" / "packages.json").read_text())
    assert packages == {"trixie": {"digest": "0123", "packages": {"openvpn": "of 0123"}}}


def test_a_run_does_not_go_on_with_another_image_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = of_two(tmp_path / "run", 1)
    called(monkeypatch, measuring(first, "m1"), first)
    monkeypatch.setattr(farm, "Coordinator", partial(coordinator.Coordinator, patience_s=1.0))
    more = of_two(tmp_path / "run", 2)
    with pytest.raises(CannotRunHere, match="its image is trixie 4567, and the run's is trixie 0123"):
        called(monkeypatch, measuring(more, "m2", "4567"), more)


def test_run_json_says_which_machines_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = {"trixie": {"digest": "0123", "packages": {}}}
    names = ("m1", "m2", "m3")
    workers = Told({f"tcp://{name}": Fake(name, says=lambda block: "no lab", images=images) for name in names})
    workers.machines["tcp://m1"].machine = MACHINE.model_copy(update={"kernel": "6.1.0"})

    asked = request("transport", vpns="openvpn", profile="smallest", out=tmp_path / "run", farm=FARM, repetitions=1)
    folder, outcome = called(monkeypatch, workers, asked, "kernel,image")
    assert outcome.stopped == "block 1 was given up: it broke 3 times on m2 and m3, the last time on m2: no lab"
    (call,) = json.loads((folder / "run.json").read_text())["invocations"]
    assert call["left_out"] == {
        "m1": "its kernel is 6.1.0, and the run's is 6.18.0",
        "m2": "broke 2 times, the last time: no lab",
    }
    assert call["outcome"].startswith("stopped: block 1 was given up")


def test_the_machines_hear_at_every_end_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one of them would give the old answer where a block is to be measured once more."""
    asked = of_two(tmp_path / "run", 3)
    workers = measuring(asked, "m1")
    workers.machines["tcp://m1"].says = lambda number: "no lab" if number == 2 else ""
    monkeypatch.setattr(farm, "Coordinator", partial(coordinator.Coordinator, patience_s=1.0))
    assert called(monkeypatch, workers, asked)[1].stopped.startswith("no machine is left")
    assert workers.told == [(block.drop, [1, 3])]
    workers = measuring(asked, "m1")
    assert called(monkeypatch, workers, asked)[1].stopped == ""
    assert workers.told == [(block.forget,)]


def test_what_is_measured_once_more_is_no_answer_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator was killed before the machine heard that its block is stored."""
    asked = of_two(tmp_path / "run", 2)
    folder, _ = called(monkeypatch, measuring(asked, "m1"), asked)
    trials = (folder / "trials.jsonl").read_text().splitlines()
    began = json.loads(trials[-1])["started_at"]
    lines = [
        line.replace('"status":"ok"', '"status":"lab_error"') if '"repetition":2' in line else line for line in trials
    ]
    lines = [re.sub(',"crc32":"[0-9a-f]{8}"', "", line) for line in lines]  # who edits a line has none
    (folder / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines))
    workers = measuring(asked, "m1")
    called(monkeypatch, workers, asked)
    assert workers.asked[0][2] == {2: began}

    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(machine, "describe", lambda images: (MACHINE, {}))
    (tmp_path / "spool" / "key").mkdir(parents=True)
    for number in (1, 2):
        (tmp_path / "spool" / "key" / f"{number}{block.PACKED}").write_bytes(
            workers.machines["tcp://m1"].answers(number)
        )
    assert block.introduce("key", [], {2: "another time", 1: "another time"})["has"] == [1, 2]
    assert block.introduce("key", [], {2: began})["has"] == [1]


def test_a_block_that_is_stored_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path))
    home = tmp_path / "key"
    home.mkdir()
    for number in (1, 2):
        (home / f"{number}{block.PACKED}").write_bytes(b"")
    block.drop("key", [1])
    assert [path.name for path in home.iterdir()] == [f"2{block.PACKED}"]
    block.drop("key", [2, 3])
    assert not home.exists()
