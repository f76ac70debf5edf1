"""A run on a farm that is interrupted: one exit code, a folder to go on in, and nothing that stays on the machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL, lines, until
from tests.lab.conftest import descendants, interfaces, mounts, running
from tests.lab.test_farm import certificates

BLOCKS = 2
RUN = ["run", "transport", "--vpn", "openvpn", "--set", "measure=tcp,streams=1,direction=forward"]
RUN += ["--profile", "smallest", "--reps", str(BLOCKS)]
SECONDS = 90  # that a block may take on a machine that is busy with others


@dataclass
class Site:
    """Where a test's runs keep everything: ``spool`` and ``scratch`` are theirs alone."""

    folder: Path
    farm: str
    out: Path
    spool: Path
    scratch: Path
    environment: dict[str, str]
    workers: list[int] = field(default_factory=list)  # PIDs of those that are not the run's own

    def start(self) -> subprocess.Popen[str]:
        """The run, or its continuation."""
        argv = [*VPNEVAL, *RUN, "--farm", self.farm, "--out", str(self.out)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(argv, env=self.environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def measuring(self) -> bool:
        """Is a lab up, and one block stored?"""
        return bool(lines(self.out)) and any(self.spool.rglob("run/logs/*/commands.log"))

    def left(self) -> list[str]:
        """What the machines keep, but for the lock of their lab."""
        return [str(path) for path in self.spool.rglob("*") if path.is_file() and path.name != "lab.lock"]


@contextmanager
def site(folder: Path, farm: str, **environment: str) -> Iterator[Site]:
    own = {name: folder / name for name in ("run", "spool", "scratch")}
    own["scratch"].mkdir()
    own["spool"].mkdir(mode=0o700)
    known = {**os.environ, "VPNEVAL_SPOOL": str(own["spool"]), "TMPDIR": str(own["scratch"]), **environment}
    yield Site(folder, farm, own["run"], own["spool"], own["scratch"], known)


@contextmanager
def over_tls(folder: Path) -> Iterator[Site]:
    """A scheduler on the loopback interface and one worker, with certificates, as on a farm of one machine."""
    certificates(folder)
    with site(folder, "", DASK_CONFIG=str(folder / "dask.yaml"), VPNEVAL_MACHINE="m1") as made:
        known = folder / "scheduler.json"
        started = []
        python = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m"]
        try:
            argv = ["distributed.cli.dask_scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0"]
            argv += ["--scheduler-file", str(known), "--no-dashboard"]
            started.append(spawn([*python, *argv], made))
            wait_until(lambda: known.exists() and known.read_text().endswith("}"), "a scheduler", 60)
            made.farm = json.loads(known.read_text())["address"]
            argv = ["distributed.cli.dask_worker", made.farm, "--nthreads", "2", "--no-nanny", "--no-dashboard"]
            started.append(spawn([*python, *argv, "--local-directory", str(folder)], made))
            made.workers.append(started[-1].pid)
            yield made
        finally:
            for one in reversed(started):
                one.kill()
                one.wait()


def spawn(argv: list[str], made: Site) -> subprocess.Popen[bytes]:
    known = {**made.environment, "TMPDIR": str(made.folder)}
    with (made.folder / "dask.log").open("ab") as log:
        return subprocess.Popen(argv, env=known, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def interrupt(made: Site, end: signal.Signals, beside: set[int]) -> None:
    """A run that is interrupted in its second block; ``beside``: processes whose children are its labs."""
    were = mounts(), interfaces()
    run = made.start()
    until(run, made.measuring, "one block stored, and another under way", SECONDS)
    measured = {json.loads(line)["repetition"] for line in lines(made.out)}
    own = descendants(run.pid) | {pid for other in beside for pid in descendants(other)}
    run.send_signal(end)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said[-3000:]
    assert f"--out {made.out}" in said
    assert "Traceback" not in said
    wait_until(lambda: not running(own), "every process of the run and of its labs gone", 10)
    assert (mounts(), interfaces()) == were
    assert made.left() == []
    assert not [*made.scratch.iterdir()]
    assert load_run(made.out)[0].invocations[-1].outcome == "interrupted"
    assert {json.loads(line)["repetition"] for line in lines(made.out)} == measured


def complete(made: Site) -> None:
    """The same command goes on, and every block is there once."""
    run = made.start()
    _, said = run.communicate(timeout=2 * SECONDS)
    assert run.returncode == 0, said[-3000:]
    trials = load_run(made.out)[1]
    assert {trial.status for trial in trials} == {"ok"}
    assert len(lines(made.out)) == len(trials) == 3 * BLOCKS  # the baseline first and last
    assert {trial.repetition for trial in trials} == set(range(1, BLOCKS + 1))
    assert made.left() == []


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP])
def test_a_farm_on_this_machine_is_interrupted(image: Image, tmp_path: Path, end: signal.Signals) -> None:
    with site(tmp_path, "local:1") as made:
        interrupt(made, end, set())
        complete(made)


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", [signal.SIGTERM])
def test_a_farm_with_a_scheduler_is_interrupted(image: Image, tmp_path: Path, end: signal.Signals) -> None:
    """Its worker stays, and measures nothing more."""
    with over_tls(tmp_path) as made:
        interrupt(made, end, set(made.workers))
        complete(made)
