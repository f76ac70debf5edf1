"""Kinds of machines that are compared on purpose have equally many blocks of a farm's run."""

from collections import Counter
from pathlib import Path

from runner.data.store import load_run
from tests.bench.made_up_farm import MACHINE, PaperWorkers
from tests.unit.farm.test_farm import farm, impatient, spread, whole

__all__ = ["impatient"]  # a fixture of every test here


def by_kernel(folder: Path) -> Counter[str]:
    """How many blocks of each kernel a run has."""
    run, trials = load_run(folder)
    machine_of = {trial.repetition: trial.machine for trial in trials}
    return Counter(run.machines[name].kernel for name in machine_of.values())


def kernels(**of: str) -> PaperWorkers:
    machines = farm(*of)
    for one in machines.values():
        one.machine = MACHINE.model_copy(update={"kernel": of[one.name]})
    return PaperWorkers(machines)


def test_kinds_of_machines_share_the_blocks(tmp_path: Path) -> None:
    """Four machines of one kernel and one of each of two others: each kernel has a third."""
    workers = kernels(m1="old", m2="old", m3="old", m4="old", m5="new", m6="newer")
    assert spread(tmp_path / "run", workers, 18, shared=Counter())[0] == ""
    whole(tmp_path / "run", 18)
    assert by_kernel(tmp_path / "run") == {"old": 6, "new": 6, "newer": 6}


def test_kinds_of_machines_do_not_share_where_nobody_asked(tmp_path: Path) -> None:
    assert spread(tmp_path / "run", kernels(m1="old", m2="old", m3="old", m4="old", m5="new"), 20)[0] == ""
    assert by_kernel(tmp_path / "run")["old"] > 12


def test_kinds_that_share_when_a_run_is_continued(tmp_path: Path) -> None:
    """The first call had one kernel alone."""
    assert spread(tmp_path / "run", kernels(m1="old"), 4, shared=Counter())[0] == ""
    workers, before = kernels(m1="old", m2="new"), Counter({kind_with("old"): 4})
    assert spread(tmp_path / "run", workers, 10, shared=before)[0] == ""
    assert by_kernel(tmp_path / "run") == {"old": 5, "new": 5}


def kind_with(kernel: str) -> str:
    return MACHINE.model_copy(update={"kernel": kernel}).kind


def test_the_blocks_of_a_kind_that_is_gone_go_to_the_others(tmp_path: Path) -> None:
    workers = kernels(m1="old", m2="new")
    workers.machines["tcp://m2"].says = lambda block: "no lab"
    assert spread(tmp_path / "run", workers, 6, shared=Counter())[0] == ""
    whole(tmp_path / "run", 6)
    assert by_kernel(tmp_path / "run") == {"old": 6}


def test_a_kind_with_its_share_still_gives_what_it_has(tmp_path: Path) -> None:
    workers = kernels(m1="old", m2="new")
    workers.machines["tcp://m1"].has = [1, 2, 3, 4]
    assert spread(tmp_path / "run", workers, 6, shared=Counter())[0] == ""
    whole(tmp_path / "run", 6)
    assert by_kernel(tmp_path / "run") == {"old": 4, "new": 2}
