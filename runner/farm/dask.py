"""Carries jobs to machines and their answers back with Dask distributed, which is loaded here and nowhere else."""

from __future__ import annotations

import ipaddress
import logging
import os
import queue
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from runner.data.errors import CannotRunHere, LabError, UsageError
from runner.data.extras import pip_install
from runner.data.foreign import caught
from runner.data.own_program import own_python
from runner.farm import block
from runner.farm.coordinator import JobResult, SchedulerLost

CONNECT_S = 20
FETCH_S = 60  # an answer that has been announced may take
EVERYWHERE_S = 30  # all workers may take for something short
BACK_S = 600  # a scheduler that was lost may take to come back
MOST_LOCAL = 64
LOOPBACK = "127.0.0.1"  # whoever reaches one of these processes can run programs as root here


class DaskWorkers:
    """The workers of a Dask scheduler, which are `runner.farm.coordinator.Workers`."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler. Raises CannotRunHere where there is none, where there is no certificate for TLS,
        and where Dask is not installed."""
        self.address = address
        self._answers: queue.SimpleQueue[JobResult] = queue.SimpleQueue()
        try:
            own = _distributed().Security().get_connection_args("client")
            if address.startswith("tls:") and own["ssl_context"] is None:
                raise CannotRunHere(
                    f"--farm {address} needs a certificate, and Dask's configuration here names none. How to make one, "
                    "and where it goes: docs/farm.md"
                )
            self._connect()
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotRunHere(f"no Dask scheduler answers at {address}: {error}") from None

    def _connect(self) -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says of a lost scheduler is a traceback
        client = _distributed().Client
        self._client = client(self.address, timeout=CONNECT_S, set_as_default=False)
        self._scheduler = self._identity()["id"]

    def close(self) -> None:
        """Disconnect; nobody waits for any job any more."""
        self._client.close(timeout=5)

    def addresses(self) -> set[str]:
        """The workers that have a lab. Raises SchedulerLost."""
        if self._client.status != "running":
            raise SchedulerLost
        try:
            info = self._identity()
        except (OSError, TimeoutError, RuntimeError) as error:
            raise SchedulerLost from error
        if info.get("id") != self._scheduler:
            raise SchedulerLost
        return {address for address, worker in info["workers"].items() if worker["resources"].get("lab")}

    def _identity(self) -> dict[str, Any]:
        """The scheduler's identity. `Client.scheduler_info` sometimes returns another call's answer, which has no
        workers."""
        identity: dict[str, Any] = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        return identity

    def start(self, address: str, work: Callable[..., Any], *args: Any, lab: bool) -> object:
        """Give a worker a job, and return its future. Raises SchedulerLost."""
        if self._client.status != "running":
            raise SchedulerLost
        needs = {"lab": 1} if lab else None
        future = self._client.submit(work, *args, workers=[address], resources=needs, pure=False)
        future.add_done_callback(self._fetch)
        return future

    def _fetch(self, future: Any) -> None:
        """Fetch an answer in Dask's own thread, so that the coordinator stores a block while the next one arrives."""
        self._answers.put(_answer(future))

    def answers(self, within_s: float) -> list[JobResult]:
        """The answers that have come. Where there is none, wait for one for up to ``within_s`` seconds."""
        results = []
        try:
            results.append(self._answers.get(timeout=within_s))
            while True:
                results.append(self._answers.get_nowait())
        except queue.Empty:
            return results

    def cancel(self, job: object) -> None:
        """Cancel this job: nobody waits for it any more."""
        future: Any = job
        if self._client.status == "running":
            future.cancel()

    def reconnect(self) -> None:
        """Wait for the scheduler to come back. Raises LabError where it does not."""
        until = time.monotonic() + BACK_S
        self._client.close(timeout=5)
        while time.monotonic() < until:
            try:
                self._connect()
            except (OSError, TimeoutError, ValueError):
                time.sleep(1)
            else:
                return
        raise LabError(f"the scheduler at {self.address} did not come back within {BACK_S} s")

    def everywhere(self, work: Callable[..., Any], *args: Any) -> None:
        """Let every connected worker do this, and ignore whether it succeeds. Waits for up to EVERYWHERE_S seconds."""
        with suppress(SchedulerLost):
            jobs = {self.start(address, work, *args, lab=False) for address in self.addresses()}
            until = time.monotonic() + EVERYWHERE_S
            while jobs and time.monotonic() < until:
                jobs -= {answer.job for answer in self.answers(1.0)}


def _answer(future: Any) -> JobResult:
    answer = JobResult(future, lost=True)

    def did_not_come(error: BaseException) -> None:
        nonlocal answer
        if not _is_loss(error):
            answer = JobResult(future, error=f"its answer did not come: {error}")

    with caught(did_not_come):
        if future.status == "error":
            answer = JobResult(future, error=str(future.exception(timeout=CONNECT_S)) or "it raised without a word")
        elif future.status == "finished":
            answer = JobResult(future, result=future.result(timeout=FETCH_S))
    return answer


def _is_loss(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"CancelledError", "FutureCancelledError", "CommClosedError"})


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        got = pip_install("distributed", "bokeh")
        raise CannotRunHere(f"--farm needs Dask distributed: {got}, and the same on the farm's machines") from None
    return distributed


@contextmanager
def connected(farm: str, say: Callable[[str], None] = lambda text: None) -> Iterator[DaskWorkers]:
    """The workers of ``farm``: ``tls://host:port``, ``tcp://host:port``, or ``local:N``, which starts N of them on this
    machine and says where they can be watched.

    Raises CannotRunHere.
    """
    _distributed()
    with ExitStack() as stack:
        local = farm.startswith("local:")
        address = stack.enter_context(_local(int(farm.removeprefix("local:")), say)) if local else farm
        workers = DaskWorkers(address)
        stack.callback(workers.close)
        yield workers


def check_farm(farm: str, insecure: bool) -> None:
    """Raise UsageError for a malformed farm, and for a scheduler that takes orders from anybody in the network."""
    if farm.startswith("local:"):
        count = farm.removeprefix("local:")
        if not count.isdecimal() or not 1 <= int(count) <= MOST_LOCAL:
            raise UsageError(f"--farm local:N needs a number of workers from 1 to {MOST_LOCAL}, not {count!r:.40}")
        return
    try:
        parts = urlsplit(farm)
        whole = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        whole = False
    if not whole:
        raise UsageError(f"--farm must be tls://host:8786, tcp://host:8786 or local:N, not {farm!r:.60}")
    if parts.scheme == "tcp" and not insecure and not _is_loopback(parts.hostname or ""):
        raise UsageError(
            f"--farm {farm} is not encrypted: whoever reaches that scheduler can run programs as root on its workers. "
            "Use tls:// (docs/farm.md), or, in a network that you trust, add --farm-insecure"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _local(count: int, say: Callable[[str], None]) -> Iterator[str]:
    """A scheduler and ``count`` workers on this machine, each with its share of the cores; yields the address."""
    distributed = _distributed()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vpneval-farm-")))
        here = {"host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0"}
        lacks = "" if find_spec("bokeh") else f" (it needs the package bokeh: {pip_install('bokeh')})"
        own = {"local_directory": str(folder)}
        cluster = stack.enter_context(
            distributed.LocalCluster(n_workers=0, silence_logs=50, scheduler_kwargs=own, **here)
        )
        say(f"The dashboard of Dask is at {cluster.dashboard_link}{lacks}.")
        cores = sorted(os.sched_getaffinity(0))
        for number in range(count):
            share = cores[number::count] or [cores[number % len(cores)]]
            worker = _worker(cluster.scheduler_address, f"local-{number + 1}", share, folder)
            stack.callback(_stop, worker)
        yield cluster.scheduler_address


def _worker(address: str, name: str, cores: list[int], folder: Path) -> subprocess.Popen[bytes]:
    argv = ["setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", ",".join(map(str, cores))]
    argv += [
        *own_python("distributed.cli.dask_worker"),
        address,
        "--name",
        name,
        "--resources",
        "lab=1",
        "--nthreads",
        "2",
    ]
    argv += ["--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
    argv += ["--host", LOOPBACK, "--dashboard-address", f"{LOOPBACK}:0"]  # it serves its state even without a dashboard
    spool = block.spool() / name
    spool.mkdir(exist_ok=True, mode=0o700)
    environment = {**os.environ, "VPNEVAL_MACHINE": name, "VPNEVAL_SPOOL": str(spool)}
    with (folder / f"{name}.log").open("w") as log:
        # In a session of its own: Ctrl-C is for the coordinator, which ends its workers when their labs are down.
        return subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(20)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
