"""A farm of 200 simulated workers in one process, 10,000 blocks of 100 slices each: ``make bench-farm``.

The scheduler, the workers and their messages are Dask's own; a worker answers with a made-up block instead of measuring
one. Goals: 50 ms of the coordinator's time a block, 1 GB of memory for all of them together, and 60 s for a report over
the 1,000,000 slices.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
from distributed import LocalCluster, get_worker

from runner.data.store import load_run, open_store
from runner.farm.block import pack
from runner.farm.coordinator import Coordinator
from runner.farm.dask import DaskWorkers
from runner.farm.keep import Keeper
from runner.report.forms.html import html_text
from runner.sweep.settings import Outcome
from tests.bench.made_up_farm import MACHINE, VPNS, block_of, files_of, run_of
from tests.unit.whole_report import build

PATTERNS = 50  # of values: to make 1,000,000 of them up anew would take longer than to store them
ROUNDS = 25  # of four cells: 100 slices a block
# What each worker does for its own machine, 200 times in one process, is not what is measured here.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1 hour",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "1 s",
}
EXAMPLE = Path(__file__).parents[2] / "results" / "examples" / "two-cores-quick"
GOAL_BLOCK_S, GOAL_BYTES, GOAL_REPORT_S = 0.05, 1e9, 60.0


def introduce(run: str, images: list[str], again: dict[int, str]) -> dict[str, Any]:
    """What a simulated worker says it is."""
    return {"name": f"m{get_worker().name}", "machine": MACHINE.model_dump(), "images": {}, "has": []}


def play(run: str, number: int, request: Any, timeout_s: float, stored: list[int]) -> bytes:
    """A made-up block; every seventh machine is a little slow with one VPN."""
    files = dict(_template(number % PATTERNS, slow=int(get_worker().name) % 7 == 0))
    for name in ("trials.jsonl", "slices.jsonl"):
        rounds = files[name].replace(b"7654320000", b"%d000" % (number - 1))
        files[name] = rounds.replace(b"7654321", b"%d" % number)
    return pack(files)


@cache
def _template(pattern: int, slow: bool) -> dict[str, bytes]:
    """The files of block 7654321, which is no block of a run."""
    speeds = {**VPNS, **({"openvpn": 0.9 * VPNS["openvpn"]} if slow else {})}
    run = run_of(1).model_copy(update={"lab": _facts()})
    return files_of(run, *block_of(7654321, ROUNDS, speeds, seed=pattern))


@cache
def _facts() -> dict[str, Any]:
    """What a real lab says of its machine, which run.json keeps of each."""
    return load_run(EXAMPLE)[0].lab


def spread(folder: Path, blocks: int, workers: int) -> tuple[float, float, float]:
    """Seconds of the whole, of CPU of the whole process, and of CPU in the coordinator's own thread."""
    here: Any = import_module("tests.bench.farm")  # as the workers know it: of __main__ they would get copies
    with cluster(workers) as address, open_store(folder) as store:
        keeper = Keeper(store, Outcome())
        keeper.begin(run_of(blocks + 1))
        farm = DaskWorkers(address)
        coordinator = Coordinator(
            farm,
            "bench",
            [],
            {},
            list(range(2, blocks + 2)),
            60.0,
            lambda name, machine, images: keeper.join(name, machine),
            keeper.keep,
            lambda text: None,
            introduce=here.introduce,
            play=here.play,
        )
        started, every, own = time.monotonic(), time.process_time(), time.thread_time()
        assert coordinator.spread() == ""
        took = time.monotonic() - started, time.process_time() - every, time.thread_time() - own
        farm.close()
    return took


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a scheduler in a process of its own, with its workers: this one unpickles nothing."""
    argv = [sys.executable, "-c", f"from tests.bench.farm import keep; keep({workers})"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdin
        assert held.stdout
        yield held.stdout.readline().strip()
        held.stdin.close()


def keep(workers: int) -> None:
    """Be the process of ``cluster``, until standard input ends."""
    dask.config.set(QUIET)
    found: Any = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        threads_per_worker=2,
        resources={"lab": 1},
        dashboard_address=None,
        memory_limit=0,
        silence_logs=50,
    )
    with found:
        print(found.scheduler_address, flush=True)
        sys.stdin.read()


def peak_bytes() -> int:
    """Of this process, and of the workers'."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) * 1024


def main() -> int:
    """Print the figures; exit code 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the run folder here; one that is there is only reported")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch) / "run"
        missed = False
        if not (folder / "run.json").exists():
            took_s, every_s, own_s = spread(folder, given.blocks, given.workers)
            print(
                f"{given.blocks} blocks on {given.workers} workers: {took_s:.0f} s, "
                f"{1e3 * took_s / given.blocks:.1f} ms a block; of CPU "
                f"{1e3 * every_s / given.blocks:.1f} ms for all in one process, and of that "
                f"{1e3 * own_s / given.blocks:.1f} ms in the coordinator's own thread; "
                f"peak {peak_bytes() / 1e6:.0f} MB"
            )
            missed |= every_s / given.blocks > GOAL_BLOCK_S or peak_bytes() > GOAL_BYTES
        started = time.monotonic()
        run, trials = load_run(folder)
        loaded_s = time.monotonic() - started
        report = build(run, trials)
        built_s = time.monotonic() - started
        page = html_text(report)
        report_s = time.monotonic() - started
        slices = sum(len(one.samples) for trial in trials for one in trial.measurements)
        print(
            f"report over {slices} slices in {len(trials)} trials: loaded in {loaded_s:.1f} s, ranked after "
            f"{built_s:.1f} s, page of {len(page) / 1e6:.1f} MB after {report_s:.1f} s; "
            f"peak {peak_bytes() / 1e6:.0f} MB"
        )
        missed |= report_s > GOAL_REPORT_S
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
