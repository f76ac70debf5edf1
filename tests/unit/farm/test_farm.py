"""A run on many machines, on paper: every block is in the run folder once, whatever breaks."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.data.store import BLOCK_NOTE, Store, load_run, open_store
from runner.data.trials import Machine
from runner.design.blocks import Table
from runner.farm import coordinator
from runner.farm.block import BlockError
from runner.farm.coordinator import Coordinator
from runner.farm.keep import Keeper
from runner.farm.machine import differences, most_frequent
from runner.report.machines import lacking
from runner.sweep.settings import Outcome
from tests.bench.made_up_farm import MACHINE, VPNS, Fake, PaperWorkers, block_of, packed, run_of
from tests.unit.whole_report import build


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
    monkeypatch.setattr(coordinator, "SLACK_S", 0.0)


def spread(folder: Path, workers: PaperWorkers, count: int, **options: Any) -> tuple[str, list[str], Coordinator]:
    """A whole run by these workers; returns why it ended before, what was said, and the coordinator."""
    said: list[str] = []
    with open_store(folder) as store:
        keeper = keeper_of(store, count)
        done = {trial.repetition for trial in store.trials}
        made = Coordinator(
            workers,
            "key",
            ["trixie"],
            {},
            [number for number in range(1, count + 1) if number not in done],
            options.pop("timeout_s", 60.0),
            options.pop("admit", lambda name, machine, images: keeper.join(name, machine)),
            keeper.keep,
            said.append,
            patience_s=1.0,  # a busy machine may let a thread wait
            **options,
        )
        return made.spread(), said, made


def keeper_of(store: Store, blocks: int = 3) -> Keeper:
    keeper = Keeper(store, Outcome())
    path = store.folder / "run.json"
    keeper.begin(load_run(store.folder)[0] if path.exists() else run_of(blocks))
    return keeper


def whole(folder: Path, blocks: int) -> None:
    """Every trial of every block is there, once, and so is every slice."""
    _, trials = load_run(folder)
    lines = (folder / "trials.jsonl").read_text().splitlines()
    expected = {trial.id for number in range(1, blocks + 1) for trial in block_of(number)[0]}
    assert {trial.id for trial in trials} == expected
    assert len(lines) == len(expected)
    rows = [json.loads(row) for row in (folder / "slices.jsonl").read_text().splitlines()]
    assert len(rows) == len({(row["trial"], row["number"]) for row in rows}) == 8 * len(expected)
    assert not (folder / BLOCK_NOTE).exists()


def farm(*names: str) -> dict[str, Fake]:
    return {f"tcp://{name}": Fake(name) for name in names}


def test_three_machines(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2", "m3"))
    stopped, _, _ = spread(tmp_path / "run", workers, 9)
    assert stopped == ""
    whole(tmp_path / "run", 9)
    run, trials = load_run(tmp_path / "run")
    assert set(run.machines) == {"m1", "m2", "m3"}
    by_block = {(trial.repetition, trial.machine) for trial in trials}
    assert len(by_block) == 9  # a block belongs to one machine
    assert sorted(number for one in workers.machines.values() for number in one.measured) == list(range(1, 10))
    assert set(workers.stored) < set(range(1, 10))  # the machines heard what they need not keep


def test_logs_are_apart(tmp_path: Path) -> None:
    spread(tmp_path / "run", PaperWorkers(farm("m1", "m2")), 2)
    for trial in load_run(tmp_path / "run")[1]:
        assert trial.log.startswith(f"logs/{trial.machine}-block-{trial.repetition}/")
        assert (tmp_path / "run" / trial.log / "commands.log").read_text() == "[gw1] ip link add\n"


def test_a_machine_that_breaks_twice_is_left_out(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2"))
    workers.machines["tcp://m2"].says = lambda block: "the lab is broken"
    stopped, said, made = spread(tmp_path / "run", workers, 8)
    assert stopped == ""
    whole(tmp_path / "run", 8)
    assert made.left_out == {"m2": "broke 2 times, the last time: the lab is broken"}
    assert "m2 is left out from now on: it broke 2 times" in said
    assert {trial.machine for trial in load_run(tmp_path / "run")[1]} == {"m1"}


def test_a_machine_that_breaks_once_goes_on(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2"))
    errors = ["once", "", "", "", "", "", "", ""]
    workers.machines["tcp://m2"].says = lambda block: errors.pop(0)
    stopped, _, made = spread(tmp_path / "run", workers, 8)
    assert (stopped, made.left_out) == ("", {})
    whole(tmp_path / "run", 8)
    assert workers.machines["tcp://m2"].measured


def test_a_worker_that_goes(tmp_path: Path) -> None:
    def go(workers: PaperWorkers) -> None:
        del workers.machines["tcp://m2"]

    workers = PaperWorkers(farm("m1", "m2", "m3"), {5: go})
    workers.machines["tcp://m2"].silent = True
    stopped, said, _ = spread(tmp_path / "run", workers, 6)
    assert stopped == ""
    whole(tmp_path / "run", 6)
    assert any("on m2: its worker died or did not answer" in text for text in said)


def test_a_worker_that_hangs(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2"))
    workers.machines["tcp://m2"].silent = True
    stopped, said, made = spread(tmp_path / "run", workers, 5, timeout_s=0.05)
    assert stopped == ""
    whole(tmp_path / "run", 5)
    assert any("on m2: no answer within" in text for text in said)
    assert set(made.left_out) <= {"m2"}


def test_a_scheduler_that_goes_is_nobodys_fault(tmp_path: Path) -> None:
    def lose(workers: PaperWorkers) -> None:
        workers.lost = True

    workers = PaperWorkers(farm("m1", "m2"), {4: lose, 7: lose})
    stopped, _, made = spread(tmp_path / "run", workers, 6)
    assert (stopped, workers.reconnects, made.left_out) == ("", 2, {})
    whole(tmp_path / "run", 6)


def test_a_block_that_breaks_everywhere(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2", "m3", "m4"))
    for one in workers.machines.values():
        one.says = lambda block: "no such cipher" if block == 2 else ""
    stopped, _, _ = spread(tmp_path / "run", workers, 4)
    assert stopped.startswith("block 2 was given up: it broke on 3 machines")
    assert {trial.repetition for trial in load_run(tmp_path / "run")[1]} == {1, 3, 4}


@pytest.mark.parametrize("machines", [2, 3, 4])
def test_a_block_that_breaks_is_tried_on_other_machines_first(tmp_path: Path, machines: int) -> None:
    """Nobody gets it twice while there is a machine that has not tried it, or another block to measure."""
    workers = PaperWorkers(farm(*[f"m{number}" for number in range(1, machines + 1)]))
    tried: list[str] = []
    for one in workers.machines.values():
        one.says = lambda block, name=one.name: (tried.append(name) or "poison") if block == 2 else ""  # type: ignore[misc,func-returns-value]
    stopped, said, made = spread(tmp_path / "run", workers, 8)
    assert {trial.repetition for trial in load_run(tmp_path / "run")[1]} == {1, 3, 4, 5, 6, 7, 8}
    assert len(tried) == 3
    if machines > 2:
        assert len(set(tried)) == 3
        assert stopped.startswith("block 2 was given up: it broke on 3 machines, the last time on ")
        assert made.left_out == {}
    else:
        assert set(tried[:2]) == {"m1", "m2"}
        assert stopped.startswith("block 2 was given up: it broke 3 times on m1 and m2, the last time on ")
        assert [text.split()[1] for text in said if "came to nothing" in text or "is stored" in text][-1] == "2"


def test_one_machine_alone_tries_a_block_again(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1"))
    errors = ["once"]
    workers.machines["tcp://m1"].says = lambda block: errors.pop() if errors else ""
    assert spread(tmp_path / "run", workers, 3)[0] == ""
    whole(tmp_path / "run", 3)


def test_kinds_that_share_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Block 2 breaks on the only machine of its kind, whose share nobody else may measure."""
    workers = PaperWorkers(farm("m1", "m2"))
    workers.machines["tcp://m2"].machine = MACHINE.model_copy(update={"kernel": "6.1.0"})
    errors = ["once"]
    workers.machines["tcp://m1"].says = lambda block: errors.pop() if errors else ""
    assert spread(tmp_path / "run", workers, 6, shared=Counter())[0] == ""
    whole(tmp_path / "run", 6)


def test_who_gets_no_blocks_is_noted(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2", "m3") | {"tcp://twin": Fake("m1")})
    workers.machines["tcp://m2"].says = lambda block: "the lab is broken"
    noted: dict[str, str] = {}

    def admit(name: str, machine: Machine, images: Any) -> str:
        return "its kernel is old" if name == "m3" else ""

    assert spread(tmp_path / "run", workers, 8, admit=admit, note=noted.__setitem__)[0] == ""
    assert noted == {
        "m2": "broke 2 times, the last time: the lab is broken",
        "m3": "its kernel is old",
        "tcp://twin": "the machine m1 has another worker already, and one lab at a time",
    }


def test_nobody_is_left(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1"))
    workers.machines["tcp://m1"].says = lambda block: "no lab"
    stopped, _, _ = spread(tmp_path / "run", workers, 3)
    assert stopped == "no machine is left (m1: broke 2 times, the last time: no lab)"
    assert spread(tmp_path / "other", PaperWorkers({}), 3)[0] == "no worker came within 1 s"


def test_what_a_machine_has_is_not_measured_again(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2"))
    workers.machines["tcp://m2"].has = [1, 2, 3]
    assert spread(tmp_path / "run", workers, 6)[0] == ""
    whole(tmp_path / "run", 6)
    assert {trial.machine for trial in load_run(tmp_path / "run")[1] if trial.repetition <= 3} == {"m2"}
    assert not {1, 2, 3} & set(workers.machines["tcp://m1"].measured)


def test_one_lab_a_machine(tmp_path: Path) -> None:
    workers = PaperWorkers({"tcp://a": Fake("m1"), "tcp://b": Fake("m1")})
    _, said, _ = spread(tmp_path / "run", workers, 4)
    whole(tmp_path / "run", 4)
    assert "tcp://b gets no blocks: the machine m1 has another worker already, and one lab at a time" in said


@pytest.mark.parametrize("others", [["m2"], []])
def test_a_machine_that_comes_back_before_its_old_worker_is_forgotten(tmp_path: Path, others: list[str]) -> None:
    """After a power cut, say: the scheduler knows the old worker until its time is over."""

    def forget(workers: PaperWorkers) -> None:
        del workers.machines["tcp://m1"]

    workers = PaperWorkers(farm("m1", *others) | {"tcp://m1-new": Fake("m1")}, {6: forget})
    noted: dict[str, str] = {}
    stopped, said, made = spread(tmp_path / "run", workers, 12, note=noted.__setitem__)
    assert (stopped, made.left_out, noted) == ("", {}, {"tcp://m1-new": ""})
    whole(tmp_path / "run", 12)
    assert any(text.startswith("tcp://m1-new gets no blocks") for text in said)
    assert workers.machines["tcp://m1-new"].measured


def test_a_machine_that_is_left_out_is_named_once_though_it_has_two_workers(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2") | {"tcp://m1-new": Fake("m1")})
    for address in ("tcp://m1", "tcp://m1-new"):
        workers.machines[address].says = lambda block: "the lab is broken"
    noted: dict[str, str] = {}
    assert spread(tmp_path / "run", workers, 6, note=noted.__setitem__)[0] == ""
    whole(tmp_path / "run", 6)
    assert {name: why for name, why in noted.items() if why} == {
        "m1": "broke 2 times, the last time: the lab is broken"
    }


def test_a_second_worker_is_asked_again_after_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    """Then its machine has no other any more; of the two, the first to answer is taken."""

    def lose(workers: PaperWorkers) -> None:
        workers.lost = True
        del workers.machines["tcp://a"]

    workers = PaperWorkers({"tcp://a": Fake("m1"), "tcp://b": Fake("m1")}, {5: lose})
    noted: dict[str, str] = {}
    assert spread(tmp_path / "run", workers, 4, note=noted.__setitem__)[0] == ""
    whole(tmp_path / "run", 4)
    assert noted == {"tcp://b": ""}
    assert workers.machines["tcp://b"].measured


@pytest.mark.parametrize("killed_in", ["append_slices", "_append", "unlink"])
def test_a_killed_coordinator_leaves_whole_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    class Killed(BaseException):
        pass

    folder, calls = tmp_path / "run", 0
    workers = PaperWorkers(farm("m1", "m2"))
    owner: Any = Path if killed_in == "unlink" else Store
    real: Callable[..., Any] = getattr(owner, killed_in)

    def kill(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal calls
        if killed_in == "unlink" and self.name != BLOCK_NOTE:
            return real(self, *args, **options)
        calls += 1
        if calls == 5:
            raise Killed
        return real(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, killed_in, kill)
        with pytest.raises(Killed):
            spread(folder, workers, 6)
    assert (folder / BLOCK_NOTE).exists()
    assert spread(folder, PaperWorkers(farm("m3")), 6)[0] == ""  # on another set of machines
    whole(folder, 6)


def test_half_a_block_is_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    spread(folder, PaperWorkers(farm("m1")), 2)
    sizes = {name: (folder / name).stat().st_size for name in ("slices.jsonl", "trials.jsonl")}
    (folder / BLOCK_NOTE).write_text(json.dumps(sizes))
    for name in sizes:
        with (folder / name).open("a") as file:
            file.write('{"half": "a li')
    with open_store(folder):
        assert {name: (folder / name).stat().st_size for name in sizes} == sizes
    (folder / BLOCK_NOTE).write_text('{"slices.j')  # killed while it was written: nothing had been added
    with open_store(folder):
        assert {name: (folder / name).stat().st_size for name in sizes} == sizes
    whole(folder, 2)


def test_the_same_answer_twice(tmp_path: Path) -> None:
    trials, slices = block_of(1)
    answer = packed(run_of(1), trials, slices)
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        keeper.keep(1, "m1", answer)
        keeper.keep(1, "m2", answer)
    whole(tmp_path / "run", 1)


def test_a_full_disk_leaves_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        keeper.keep(1, "m1", packed(run_of(1), *block_of(1)))

        def full(self: Store, name: str, lines: bytes) -> None:
            raise OSError(28, os.strerror(28))

        with monkeypatch.context() as patch:
            patch.setattr(Store, "_append", full)
            with pytest.raises(OSError, match="No space"):
                keeper.keep(2, "m1", packed(run_of(1), *block_of(2)))
    whole(tmp_path / "run", 1)


def test_an_unsupported_cell_has_one_line(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        for number in (1, 2):
            trials, slices = block_of(number)
            first = block_of(1)[0][1]
            no = first.model_copy(update={"status": "unsupported", "measurements": [], "reason": "no TUN"})
            rest = [trial for trial in trials if trial.vpn != no.vpn]
            mine = [one for one in slices if not one.trial.startswith(no.vpn)]
            keeper.keep(number, "m1", packed(run_of(1), [no, *rest], mine))
    statuses = [(trial.vpn, trial.status) for trial in load_run(tmp_path / "run")[1] if trial.vpn == no.vpn]
    assert statuses == [(no.vpn, "unsupported")]


def test_what_one_machine_cannot_measure_leaves_what_another_has_measured(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        keeper.keep(1, "m1", packed(run_of(1), *block_of(1)))
        trials, slices = block_of(2)
        no = block_of(1)[0][1].model_copy(update={"status": "unsupported", "measurements": [], "reason": "no TUN"})
        mine = [one for one in slices if not one.trial.startswith(no.vpn)]
        keeper.keep(2, "m2", packed(run_of(1), [no, *(one for one in trials if one.vpn != no.vpn)], mine))
    found = [(trial.repetition, trial.status) for trial in load_run(tmp_path / "run")[1] if trial.vpn == no.vpn]
    assert found == [(1, "ok")]


@pytest.mark.parametrize("first", ["m1", "m2"])
def test_what_one_machine_cannot_measure_is_written_down(tmp_path: Path, first: str) -> None:
    """Whichever comes first: the machine that can, or the one that cannot."""
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        for name in ("m1", "m2"):
            keeper.join(name, MACHINE)
        for number, name in enumerate([first, *({"m1", "m2"} - {first}), "m2"], 1):
            trials, slices = block_of(number)
            if name == "m2":
                told = {"status": "unsupported", "measurements": [], "reason": "no TUN"}
                no = block_of(1)[0][1].model_copy(update=told)
                trials = [no, *(one for one in trials if one.vpn != no.vpn)]
                slices = [one for one in slices if not one.trial.startswith(no.vpn)]
            keeper.keep(number, name, packed(run_of(1), trials, slices))
    run, trials = load_run(tmp_path / "run")
    assert {name: one.lacks for name, one in run.machines.items()} == {"m1": {}, "m2": {no.cell: "no TUN"}}
    assert [(one.machine, one.vpn, one.why) for one in lacking(run, trials)] == [("m2", no.vpn, "no TUN")]
    assert not lacking(run, [trial for trial in trials if trial.cell != no.cell])  # nobody has measured it
    tables = [one for one in build(run, trials).sections["machines-differ"] if isinstance(one, Table)]
    rows = [one.rows for one in tables if one.title == "What single machines could not measure"]
    assert rows == [[["m2", no.vpn, "no TUN"]]]


def test_a_search_of_one_block_counts_for_it_alone(tmp_path: Path) -> None:
    trials, slices = block_of(1)
    detail = {"pooled": True, "interval_bps": [1.0, 2.0]}
    pooled = trials[0].measurements[0].model_copy(update={"detail": detail, "samples": [], "rounds": []})
    trials[0] = trials[0].model_copy(update={"measurements": [pooled]})
    with open_store(tmp_path / "run") as store:
        keeper_of(store).keep(1, "m1", packed(run_of(1), trials, slices))
    (found,) = next(trial for trial in load_run(tmp_path / "run")[1] if trial.id == trials[0].id).measurements
    assert found.pooled_error is None
    assert pooled.pooled_error is not None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"no tar", "cannot be unpacked"),
        (packed(run_of(1), [], [], {"../run.json": b""}), "which is no file of a run"),
        (packed(run_of(1), [], [], {"logs/../../x": b""}), "which is no file of a run"),
        (packed(run_of(1), [], [], {".lock": b""}), "which is no file of a run"),
        (packed(run_of(1), block_of(2)[0], []), "trials of another block"),
        (packed(run_of(1), [], [], {"trials.jsonl": b'{"id": 1}\n'}), "is not that of this vpneval"),
    ],
)
def test_answers_that_are_refused(tmp_path: Path, answer: bytes, why: str) -> None:
    with open_store(tmp_path / "run") as store, pytest.raises(BlockError, match=why):
        keeper_of(store).keep(1, "m1", answer)
    assert not (tmp_path / "run" / "trials.jsonl").exists()
    assert not (tmp_path / "x").exists()


def test_another_plugin_of_the_same_name(tmp_path: Path) -> None:
    run = run_of(1)
    other = run.model_copy(
        update={"vpns": run.vpns | {"openvpn": run.vpns["openvpn"].model_copy(update={"digest": "1"})}}
    )
    with open_store(tmp_path / "run") as store, pytest.raises(BlockError, match="plugin openvpn is another file"):
        keeper_of(store).keep(1, "m1", packed(other, *block_of(1)))


def test_a_machine_that_differs_is_refused(tmp_path: Path) -> None:
    workers = PaperWorkers(farm("m1", "m2", "m3"))
    workers.machines["tcp://m1"].machine = MACHINE.model_copy(update={"kernel": "6.1.0"})
    chosen: list[Machine] = []
    stopped, said, _ = spread(
        tmp_path / "run",
        workers,
        4,
        choose=lambda machines: chosen.append(most_frequent(machines, ["kernel"])),
        admit=lambda name, machine, images: differences(machine, chosen[0], ["kernel"]),
    )
    assert stopped == ""
    assert "m1 is refused: its kernel is 6.1.0, and the run's is 6.18.0" in said
    assert {trial.machine for trial in load_run(tmp_path / "run")[1]} == {"m2", "m3"}


def test_what_each_machine_says_of_itself_is_kept(tmp_path: Path) -> None:
    """The facts of its first block, under its name; the first machine's are also the run's."""
    facts: dict[str, dict[str, Any]] = {
        name: {"kind": "netns", "links": [], "governor": name} for name in ("m1", "m2", "later")
    }
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        for number, (machine, told) in enumerate([("m1", "m1"), ("m2", "m2"), ("m1", "later")], 1):
            keeper.join(machine, MACHINE)
            own = run_of(1).model_copy(update={"lab": facts[told]})
            keeper.keep(number, machine, packed(own, *block_of(number)))
    run, _ = load_run(tmp_path / "run")
    assert {name: one.lab for name, one in run.machines.items()} == {"m1": facts["m1"], "m2": facts["m2"]}
    assert run.lab == facts["m1"]


@pytest.mark.parametrize("speeds", ["fast", {"aes-128-gcm": -1.0}])
def test_facts_of_a_machine_are_checked(speeds: Any) -> None:
    with pytest.raises(ValueError, match="openssl_bps"):
        Machine.model_validate(MACHINE.model_dump() | {"lab": {"openssl_bps": speeds}})


def test_a_machine_that_became_another(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        keeper = keeper_of(store)
        assert keeper.join("m1", MACHINE) == ""
        assert keeper.join("m1", MACHINE) == ""
        assert "m1 was Made-up CPU" in keeper.join("m1", MACHINE.model_copy(update={"cpu": "Another CPU"}))


def test_the_made_up_blocks_have_all_vpns() -> None:
    assert {trial.vpn for trial in block_of(1)[0]} == set(VPNS)
