"""A farm's blocks by Dask itself, on workers that make up what they measure: the scheduler is restarted meanwhile."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import get_worker

from runner.data.store import load_run, open_store
from runner.farm.coordinator import Coordinator
from runner.farm.dask import DaskWorkers
from tests.bench.made_up_farm import MACHINE, block_of, packed, run_of
from tests.unit.farm.test_farm import keeper_of, whole

pytestmark = pytest.mark.smoke
BLOCKS = 8
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    own = {"processes": False, "threads_per_worker": 2, "resources": {"lab": 1}, "dashboard_address": None}
    with LocalCluster(n_workers=2, scheduler_port=int(sys.argv[1]), host="127.0.0.1", silence_logs=50, **own):
        print("ready", flush=True)
        sys.stdin.read()
"""


def introduce(run: str, images: list[str], again: dict[int, str]) -> dict[str, Any]:
    """What such a worker says it is."""
    return {"name": f"m{get_worker().name}", "machine": MACHINE.model_dump(), "images": {}, "has": []}


def play(run: str, number: int, request: Any, timeout_s: float, stored: list[int]) -> bytes:
    """A block, which takes its time."""
    time.sleep(0.2)
    return packed(run_of(1), *block_of(number))


@contextmanager
def cluster(port: int) -> Iterator[subprocess.Popen[str]]:
    """A scheduler and two workers."""
    argv = [sys.executable, "-c", CLUSTER, str(port)]
    found = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert found.stdout
        assert found.stdout.readline() == "ready\n"
        yield found
    finally:
        found.kill()
        found.communicate()


@pytest.fixture
def port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        number: int = any_port.getsockname()[1]
        return number


@pytest.mark.timeout(180)
def test_the_scheduler_is_restarted(tmp_path: Path, port: int) -> None:
    """What was being measured is lost and measured again; no machine is to blame, and every block is there once."""
    said: list[str] = []
    done = threading.Event()

    def restarted() -> None:
        with cluster(port):
            done.wait()

    again = threading.Thread(target=restarted)
    try:
        with cluster(port) as first, open_store(tmp_path / "run") as store:
            keeper = keeper_of(store, BLOCKS)

            def keep(number: int, name: str, answer: object) -> None:
                keeper.keep(number, name, answer)
                if len(keeper.kept) == 3:
                    first.kill()
                    again.start()

            workers = DaskWorkers(f"tcp://127.0.0.1:{port}")
            coordinator = Coordinator(
                workers,
                "key",
                [],
                {},
                list(range(1, BLOCKS + 1)),
                60.0,
                lambda name, machine, images: keeper.join(name, machine),
                keep,
                said.append,
                introduce=introduce,
                play=play,
            )
            assert coordinator.spread() == ""
            workers.close()
    finally:
        done.set()
        if again.ident:
            again.join()
    assert coordinator.left_out == {}
    assert "The scheduler does not answer. vpneval waits for it; what is finished stays on the machines." in said
    whole(tmp_path / "run", BLOCKS)
    run, trials = load_run(tmp_path / "run")
    assert {trial.machine for trial in trials} <= set(run.machines) == {"m0", "m1"}
