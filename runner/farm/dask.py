"""Carries jobs to machines and their answers back with Dask distributed, which is loaded here and nowhere else.

What the coordinator sends to a worker is a pickle, as Dask has it: workers run what the coordinator says. What comes
back is msgpack; see `_unpickle_nothing`.
"""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import os
import pickle
import queue
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from runner.data.errors import CannotRunHere, LabError, UsageError
from runner.data.extras import pip_install
from runner.data.files import open_file
from runner.data.foreign import caught
from runner.data.own_program import own_python
from runner.farm import block
from runner.farm.coordinator import JobResult, SchedulerLost

CONNECT_S = 20
FETCH_S = 60  # an answer that has been announced may take
MOST_MESSAGE = block.MOST_PACKED + (1 << 20)  # bytes; Python's objects for the worst take some 60 times as much
EVERYWHERE_S = 30  # all workers may take for something short
BACK_S = 600  # a scheduler that was lost may take to come back
MOST_LOCAL = 64
LOOPBACK = "127.0.0.1"
LOCAL_S = 60  # the scheduler of local:N may take to start
PACKAGES = ("distributed", "bokeh", "cryptography")  # the last for the certificate of local:N


class DaskWorkers:
    """The workers of a Dask scheduler, which are `runner.farm.coordinator.Workers`."""

    def __init__(self, address: str, security: Any = None) -> None:
        """Connect to the scheduler; ``security``: a ``distributed.Security`` in the place of that of Dask's
        configuration. Raises CannotRunHere where there is none, where there is no certificate for TLS, and where Dask
        is not installed."""
        self.address = address
        self._answers: queue.SimpleQueue[JobResult] = queue.SimpleQueue()
        try:
            self._security = security or _import_distributed().Security()
            own = self._security.get_connection_args("client")
            if address.startswith("tls:") and own["ssl_context"] is None:
                raise CannotRunHere(
                    f"--farm {address} needs a certificate, and Dask's configuration here names none. How to make one, "
                    "and where it goes: docs/farm.md"
                )
            self._connect()
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            raise CannotRunHere(f"no Dask scheduler answers at {address}: {error}") from None

    def _connect(self) -> None:
        logging.disable(logging.CRITICAL)  # what Dask says of a lost scheduler is a traceback
        _unpickle_nothing()
        _bound_messages()
        self._client = _import_distributed().Client(
            self.address,
            timeout=CONNECT_S,
            set_as_default=False,
            security=self._security,
            deserializers=["msgpack", "error"],
        )
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
        future = self._client.submit(answer_of, work, *args, workers=[address], resources=needs, pure=False)
        future.add_done_callback(self._fetch)
        return future

    def _fetch(self, future: Any) -> None:
        """Fetch an answer beside all others: the coordinator stores a block while the next one arrives, and no machine
        waits for another one's answer (Dask has one thread for what is done)."""
        threading.Thread(target=lambda: self._answers.put(_answer(future)), daemon=True).start()

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
            with suppress(OSError, TimeoutError, ValueError):
                self._connect()
                return
            gc.collect()  # a client that did not connect closes now: in the next one's thread it would lock that out
            time.sleep(1)
        raise LabError(f"the scheduler at {self.address} did not come back within {BACK_S} s")

    def everywhere(self, work: Callable[..., Any], *args: Any) -> None:
        """Let every connected worker do this, and ignore whether it succeeds. Waits for up to EVERYWHERE_S seconds."""
        with suppress(SchedulerLost):
            jobs = {self.start(address, work, *args, lab=False) for address in self.addresses()}
            until = time.monotonic() + EVERYWHERE_S
            while jobs and time.monotonic() < until:
                jobs -= {answer.job for answer in self.answers(1.0)}


def answer_of(work: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What a worker sends back, made of what msgpack has: the ``result`` of its work, or the ``error`` in words."""
    error = ""

    def note_error(raised: BaseException) -> None:
        nonlocal error
        error = str(raised) or "it raised without a word"

    with caught(note_error):
        return {"result": work(*args)}
    return {"error": error}


class NotReadError(Exception):
    """Stands where a worker or a scheduler sent a pickle, as Dask sends its own errors."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__("Dask or the worker says why in a pickle, and vpneval reads none")


def _unpickle_nothing() -> None:
    """From now on Dask unpickles nothing in this process: a pickle is a program, and a worker may lie.

    ``deserializers`` hold for the answer to a question alone; errors, events and whatever is marked as a pickle in a
    message are unpickled in any case (distributed/protocol/core.py, client.py). So they get no unpickler.
    """
    pickled: Any = import_module("distributed.protocol.pickle")
    pickled.pickle = SimpleNamespace(**{**vars(pickle), "loads": NotReadError})
    serialized = import_module("distributed.protocol.serialize")
    for name, (dumps, _, _) in list(serialized.families.items()):
        if name not in ("msgpack", "error"):
            serialized.register_serialization_family(name, dumps, NotReadError)
    for reader in (import_module(f"distributed.{name}") for name in ("core", "client")):
        setattr(reader, "clean_exception", lambda *_, **__: (NotReadError, NotReadError(), None))  # noqa: B010
    _import_distributed().Client._default_event_handlers = {}  # they print and warn what a worker says


class MessageTooLongError(OSError):
    """A worker or a scheduler sends, or says that it sends, more than MOST_MESSAGE bytes."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(f"it has {n_bytes} bytes; at most {MOST_MESSAGE} are read")


@cache
def _bound_messages() -> None:
    """From now on Dask reads no message in this process that is longer than MOST_MESSAGE, and none that is compressed,
    which may become a thousand times as long: Dask itself makes room for what the other end says that it sends."""
    tcp, compression = (import_module(f"distributed.{name}") for name in ("comm.tcp", "protocol.compression"))
    make_room, split = tcp.host_array, tcp.unpack_frames

    def room(n_bytes: int) -> Any:
        return make_room(_check_size(n_bytes))

    def frames_of(message: Any, **how: Any) -> Any:
        try:
            found = split(message, **how)
        except (struct.error, AssertionError):
            raise OSError("it is no message of Dask's") from None
        _check_size(len(message) + sum(found[1]))  # with what is still to come
        return found

    def refuse(_: object) -> Any:
        raise OSError("it is compressed, and nobody asked for that")

    vars(tcp).update(host_array=room, unpack_frames=frames_of)
    import_module("dask").config.set({"distributed.comm.compression": None})
    for name, known in list(compression.compressions.items()):
        if known.name:
            compression.compressions[name] = known._replace(decompress=refuse)


def _check_size(n_bytes: int) -> int:
    if n_bytes > MOST_MESSAGE:
        raise MessageTooLongError(n_bytes)
    return n_bytes


def _answer(future: Any) -> JobResult:
    answer = JobResult(future, lost=True)

    def did_not_come(error: BaseException) -> None:
        nonlocal answer
        if not _is_loss(error):
            answer = JobResult(future, error=f"its answer did not come: {str(error).partition(chr(10))[0]}")

    with caught(did_not_come):
        if future.status == "error":
            answer = JobResult(future, error=str(future.exception(timeout=CONNECT_S)) or "it raised without a word")
        elif future.status == "finished":
            answer = _result(future, future.result(timeout=FETCH_S))
    return answer


def _result(future: object, answer: object) -> JobResult:
    match answer:
        case {"result": result}:
            return JobResult(future, result=result)
        case {"error": str(why)}:
            return JobResult(future, error=why)
    return JobResult(future, error=f"its answer is {answer!r:.80}, which no vpneval says")


def _is_loss(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"CancelledError", "FutureCancelledError", "CommClosedError"})


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        got = pip_install(*PACKAGES)
        raise CannotRunHere(f"--farm needs Dask distributed: {got}, and the same on the farm's machines") from None
    return distributed


@contextmanager
def connect_farm(farm: str, say: Callable[[str], None] = lambda text: None) -> Iterator[DaskWorkers]:
    """The workers of ``farm``: ``tls://host:port``, ``tcp://host:port``, or ``local:N``, which starts N of them on this
    machine and says where they can be watched.

    Raises CannotRunHere.
    """
    _import_distributed()
    with ExitStack() as stack:
        local = farm.startswith("local:")
        address, security = (
            stack.enter_context(_local(int(farm.removeprefix("local:")), say)) if local else (farm, None)
        )
        workers = DaskWorkers(address, security)
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
def _local(count: int, say: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    """A scheduler and ``count`` workers on this machine, each with its share of the cores; yields the address, and the
    ``distributed.Security`` without which nobody reaches them: whoever does can run programs as root here."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vpneval-farm-")))  # for its owner alone
        security, tls = _certificate(folder)
        known = folder / "scheduler.json"
        argv = ["--port", "0", "--scheduler-file", str(known), *tls]
        scheduler = _process("scheduler", argv, folder)
        stack.callback(_stop, scheduler)
        found = _when_ready(scheduler, known, folder / "scheduler.log")
        lacks = "" if find_spec("bokeh") else f" (it needs the package bokeh: {pip_install('bokeh')})"
        say(f"The dashboard of Dask is at http://{LOOPBACK}:{found['services']['dashboard']}/status{lacks}.")
        cores = sorted(os.sched_getaffinity(0))
        for number in range(count):
            share = cores[number::count] or [cores[number % len(cores)]]
            worker = _worker(found["address"], f"local-{number + 1}", share, folder, tls)
            stack.callback(_stop, worker)
        yield found["address"], security


def _certificate(folder: Path) -> tuple[Any, list[str]]:
    """A certificate of this call's own with its key in ``folder``: for a client, and as options of Dask's programs."""
    try:
        security = _import_distributed().Security.temporary()
    except ImportError:
        raise CannotRunHere(f"--farm local:N needs the package cryptography: {pip_install('cryptography')}") from None
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    for path, text in ((certificate, security.tls_client_cert), (key, security.tls_client_key)):
        with open_file(path, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    return security, ["--tls-ca-file", str(certificate), "--tls-cert", str(certificate), "--tls-key", str(key)]


def _when_ready(scheduler: subprocess.Popen[bytes], known: Path, log: Path) -> dict[str, Any]:
    """What the scheduler writes of itself into the file ``known``. Raises CannotRunHere."""
    until = time.monotonic() + LOCAL_S
    while scheduler.poll() is None and time.monotonic() < until:
        with suppress(OSError, ValueError):  # not yet, or not all of it
            found: dict[str, Any] = json.loads(known.read_text())
            return found
        time.sleep(0.05)
    raise CannotRunHere(f"the scheduler of --farm local:N did not start: {log.read_text(errors='replace')[-500:]}")


def _worker(address: str, name: str, cores: list[int], folder: Path, tls: list[str]) -> subprocess.Popen[bytes]:
    spool = block.spool() / name
    spool.mkdir(exist_ok=True, mode=0o700)
    argv = [address, "--name", name, "--resources", "lab=1", "--nthreads", "2", "--no-nanny", "--no-dashboard"]
    argv += ["--local-directory", str(folder), *tls]
    own = {"VPNEVAL_MACHINE": name, "VPNEVAL_SPOOL": str(spool)}
    return _process("worker", argv, folder, ("taskset", "--cpu-list", ",".join(map(str, cores))), own)


def _process(
    what: str, more: list[str], folder: Path, before: tuple[str, ...] = (), own: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """One of Dask's own programs. It serves its state even without a dashboard."""
    argv = ["setpriv", "--pdeathsig", "TERM", *before, *own_python(f"distributed.cli.dask_{what}")]
    argv += [*more, "--host", LOOPBACK, "--protocol", "tls", "--dashboard-address", f"{LOOPBACK}:0"]
    own = {"DASK_TEMPORARY_DIRECTORY": str(folder), **(own or {})}
    with (folder / f"{own.get('VPNEVAL_MACHINE', what)}.log").open("w") as log:
        # In a session of its own: Ctrl-C is for the coordinator, which ends its workers when their labs are down.
        return subprocess.Popen(
            argv, env=os.environ | own, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
