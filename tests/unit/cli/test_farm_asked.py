"""What is asked of a farm: where its scheduler is, what its machines must be like, and which blocks are missing."""

import importlib
import re
from pathlib import Path
from typing import Any

import dask
import pytest

from runner.data.errors import CannotRunHere, UsageError
from runner.data.store import open_store
from runner.farm.dask import DaskWorkers, check_farm
from runner.farm.machine import differences, most_frequent, parse_equal
from runner.stages.farm import missing
from runner.sweep.plan import blocks
from runner.sweep.request import Request
from tests.bench.made_up_farm import MACHINE, run_of
from tests.unit.asking import FARM, request
from tests.unit.synthetic import make_trial


@pytest.mark.parametrize(
    "name", ["tcp://127.0.0.1:8786", "tcp://localhost:8786", "tls://lab7:8786", "local:3", "tcp://[::1]:1"]
)
def test_farms(name: str) -> None:
    check_farm(name, insecure=False)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tcp://10.0.0.1:8786", "is not encrypted"),
        ("tcp://lab7:8786", "is not encrypted"),
        ("local:0", "from 1 to 64"),
        ("local:many", "from 1 to 64"),
        ("lab7", "must be tls://"),
        ("http://lab7:8786", "must be tls://"),
        ("tls://lab7", "must be tls://"),
        ("tls://lab7:port", "must be tls://"),
        ("", "must be tls://"),
    ],
)
def test_what_is_no_farm(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_farm(name, insecure=False)


def test_a_network_that_is_trusted() -> None:
    check_farm("tcp://lab7:8786", insecure=True)


def test_tls_without_a_certificate() -> None:
    importlib.import_module("distributed")  # which sets its defaults
    none = {"distributed.comm.tls.ca-file": None}
    with dask.config.set(none), pytest.raises(CannotRunHere, match="needs a certificate"):
        DaskWorkers("tls://127.0.0.1:1")


def test_what_must_be_equal() -> None:
    assert parse_equal("cpu, kernel") == ["cpu", "kernel"]
    with pytest.raises(UsageError, match="--farm-equal 'colour'"):
        parse_equal("cpu,colour")


def test_most_machines_say_what_all_must_be_like() -> None:
    other = MACHINE.model_copy(update={"kernel": "6.1.0", "cpu": "Another CPU"})
    reference = most_frequent([other, MACHINE, MACHINE], ["kernel", "image", "versions"])
    assert reference == MACHINE
    assert differences(other, reference, ["kernel", "image"]) == "its kernel is 6.1.0, and the run's is 6.18.0"
    assert differences(other, reference, ["image"]) == ""


def test_an_image_of_another_day_comes_with_its_cure() -> None:
    other = MACHINE.model_copy(update={"image": "trixie 4567"})
    said = differences(other, MACHINE, ["kernel", "image"])
    assert said.startswith("its image is trixie 4567, and the run's is trixie 0123 (images built on different")
    heading = re.search(r"docs/farm.md, '(.+)', says how to copy one", said)
    assert heading
    assert f"\n## {heading[1]}\n" in (Path(__file__).parents[3] / "docs" / "farm.md").read_text()


def asked_of(folder: Path, **options: Any) -> Request:
    chosen = {"vpns": "openvpn", "levels": "measure=tcp,streams=1,direction=forward", "profile": "smallest"}
    return request("transport", **chosen, out=folder, farm=FARM, **options)


def fill(folder: Path, asked: Request, statuses: dict[tuple[int, str], str]) -> None:
    """Every trial of its blocks, as it was planned, ``ok`` but for those of a repetition and a VPN in ``statuses``."""
    plan = blocks(asked.cells, asked.repetitions, asked.asked.seed, set(), set(), asked.profile)
    with open_store(folder) as store:
        store.save_run(run_of(asked.repetitions))
        for block in plan:
            for planned in (trial for tunnel in block.tunnels for trial in tunnel.trials):
                status: Any = statuses.get((planned.repetition, planned.cell.vpn), "ok")
                if status != "absent":
                    made = make_trial(planned.cell.vpn, planned.cell.params, planned.repetition, status=status)
                    store.append(made.model_copy(update={"id": planned.id, "position": planned.position}))


@pytest.mark.parametrize(
    ("statuses", "retry", "left"),
    [
        ({}, False, []),
        ({(2, "openvpn"): "absent"}, False, [2]),
        ({(2, "openvpn"): "lab_error"}, False, [2]),
        ({(2, "openvpn"): "failed"}, False, []),
        ({(2, "openvpn"): "failed"}, True, [2]),
        ({(3, "openvpn"): "absent", (3, "none"): "absent"}, False, [3]),
    ],
)
def test_a_block_that_lacks_a_trial_is_measured_again(
    tmp_path: Path, statuses: dict[tuple[int, str], str], retry: bool, left: list[int]
) -> None:
    asked = asked_of(tmp_path / "run", repetitions=3, retry_failed=retry)
    fill(tmp_path / "run", asked, statuses)
    with open_store(tmp_path / "run") as store:
        assert missing(asked, store) == left
        assert missing(asked_of(tmp_path / "run", repetitions=5, retry_failed=retry), store) == [*left, 4, 5]


def test_a_farm_has_more_repetitions_than_a_machine(tmp_path: Path) -> None:
    assert asked_of(tmp_path, repetitions=10_000).repetitions == 10_000
    with pytest.raises(UsageError, match="--reps must be from 1 to 1000, not"):
        request("transport", repetitions=10_000)
