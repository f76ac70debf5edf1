"""A farm that lies: a worker and a scheduler send pickles that would write a file. Those who trust them run these, the
coordinator does not; and on this machine nobody else reaches ``local:N``."""

import asyncio
import gc
import os
import pickle
import socket
import ssl
import struct
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest
from distributed import Client, Security, get_worker
from distributed.protocol.compression import decompress
from distributed.protocol.serialize import serialize

from runner.data.errors import CannotRunHere
from runner.farm import dask as farm
from runner.farm.coordinator import JobResult
from runner.farm.dask import MOST_MESSAGE, DaskWorkers, connect_farm
from runner.lab.node import wait_until

pytestmark = pytest.mark.smoke

# The scheduler itself lies: what it was asked to fetch from a worker is a pickle of its own.
LIAR = """
from distributed import Scheduler
from distributed.protocol.serialize import ToPickle
from tests.lab.test_farm_lies import Evil

async def gather(self, keys, serializers=None):
    return {"status": "OK", "data": {key: ToPickle(Evil(PLACE)) for key in keys}}

async def dask_setup(scheduler):
    scheduler.handlers["gather"] = gather.__get__(scheduler)
"""


class Evil(Exception):
    """Whoever unpickles it leaves a file with its process number."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (leave, (self.place,))


def leave(place: str) -> str:
    """Write down who ran this."""
    Path(place, str(os.getpid())).touch()
    return "a program of the worker's"


def raises(place: str) -> None:
    """Its exception is a pickle that runs."""
    raise Evil(place)


def returns(place: str) -> Evil:
    """Its answer is one."""
    return Evil(place)


def warns(place: str) -> str:
    """Dask's clients unpickle a warning, and print what a worker has to say."""
    evil = pickle.dumps(Evil(place))
    get_worker().log_event("warn", {"message": evil, "category": evil})
    get_worker().log_event("print", {"args": ["\x1b[2Jowned"]})
    return "told"


def endless(place: str) -> bytes:
    """It has more than any block."""
    return bytes(3 * MOST_MESSAGE)


def in_pieces(place: str) -> list[bytes]:
    """So it has, and none of its pieces is long."""
    return [bytes(1 << 20) for _ in range(3 * MOST_MESSAGE >> 20)]


def stalls(place: str) -> str:
    """It announces an answer, and never gives it."""

    async def get_data(*_: object, **__: object) -> None:
        await asyncio.sleep(1000)

    get_worker().handlers["get_data"] = get_data
    return "soon"


def honest(place: str) -> dict[str, Any]:
    """What a good worker says."""
    return {"name": "m1", "bytes": place.encode(), "numbers": [1, 2]}


def ask(workers: DaskWorkers, work: Any, place: Path, *, bare: bool) -> JobResult:
    """The answer of a worker to this; ``bare``: as a worker gives it that keeps to no form."""
    (address, *_) = sorted(workers.addresses())
    if bare:
        workers._client.submit(work, str(place), workers=[address], pure=False).add_done_callback(workers._fetch)
    else:
        workers.start(address, work, str(place), lab=True)
    (answer,) = workers.answers(30)
    return answer


def speaks_to_anybody(address: str) -> bool:
    """Does it say anything to one that takes any certificate, and has none?"""
    host, _, port = address.removeprefix("tls://").partition(":")
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, int(port)), 10) as line, anybody.wrap_socket(line) as spoken:
            return bool(spoken.recv(1))  # in TLS 1.3 the server refuses after the client's handshake
    except OSError:
        return False


def refuses(address: str, error: type[Exception], words: str, **options: Any) -> None:
    """Dask's own client does not get in, and is closed before another one begins, which it would lock out."""
    with pytest.raises(error, match=words):
        Client(address, asynchronous=False, timeout=2, set_as_default=False, **options)  # type: ignore[no-untyped-call]
    gc.collect()


def ran(place: Path) -> set[int]:
    """The processes that ran the worker's program."""
    return {int(path.name) for path in place.iterdir()}


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskWorkers]:
    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with connect_farm("local:1") as made:
        wait_until(lambda: bool(made.addresses()), "the worker comes", 60)
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ran").mkdir()
    return tmp_path / "ran"


@pytest.mark.timeout(120)
def test_a_worker_that_lies(workers: DaskWorkers, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = ask(workers, honest, place, bare=False)
    assert good.result == {"name": "m1", "bytes": str(place).encode(), "numbers": (1, 2)}
    for work in (returns, raises):
        for bare in (False, True):
            answer = ask(workers, work, place, bare=bare)
            assert (answer.result, answer.lost) == (None, False)
            assert answer.error
            assert "Traceback" not in answer.error
    assert "no vpneval says" in ask(workers, warns, place, bare=True).error
    assert ask(workers, honest, place, bare=False).result == good.result  # behind all of that in the same line
    assert ran(place)  # the worker itself checks what it pickles
    assert os.getpid() not in ran(place)
    assert "owned" not in "".join(capfd.readouterr())


@pytest.mark.timeout(120)
def test_an_answer_that_is_too_long_is_not_read(workers: DaskWorkers, place: Path) -> None:
    before_kb = getrusage(RUSAGE_SELF).ru_maxrss
    for work in (endless, in_pieces):
        for bare in (False, True):
            answer = ask(workers, work, place, bare=bare)
            assert (answer.result, answer.lost) == (None, False)
            assert "at most" in answer.error
    assert ask(workers, honest, place, bare=False).result["name"] == "m1"
    assert getrusage(RUSAGE_SELF).ru_maxrss - before_kb < 2 * MOST_MESSAGE >> 10


@pytest.mark.timeout(120)
def test_an_answer_that_does_not_come_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(farm, "FETCH_S", 20)
    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with connect_farm("local:2") as workers:
        wait_until(lambda: len(workers.addresses()) == 2, "the workers come", 60)
        liar, good = sorted(workers.addresses())
        late = workers.start(liar, stalls, str(place), lab=True)
        assert workers.answers(3) == []
        for _ in range(3):
            workers.start(good, honest, str(place), lab=True)
            (answer,) = workers.answers(10)
            assert answer.result["name"] == "m1"
        (answer,) = workers.answers(40)
        assert (answer.job, answer.result, answer.lost) == (late, None, False)
        assert "did not come" in answer.error


def speaker(says: bytes) -> tuple[str, threading.Thread]:
    """The address of one that takes whoever comes for a client of its own, and says this; and who speaks."""
    listening = socket.create_server(("127.0.0.1", 0))

    def speak() -> None:
        with listening, listening.accept()[0] as line:
            line.sendall(says)
            line.settimeout(10)
            with suppress(OSError):
                while line.recv(1 << 16):
                    pass

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    return f"tcp://127.0.0.1:{listening.getsockname()[1]}", thread


@pytest.mark.parametrize(
    "says",
    {
        "more than there is": struct.pack("<Q", 1 << 62),
        "a number of pieces": struct.pack("<QQ", 8, 1 << 60),
        "pieces to come": struct.pack("<QQQQ", 24, 2, 0, 1 << 50),
    }.items(),
    ids=lambda item: item[0],
)
@pytest.mark.timeout(60)
def test_room_is_not_made_for_what_is_only_said(says: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask makes room for as many bytes as the other end names, before they come."""
    monkeypatch.setattr(farm, "CONNECT_S", 2)
    before_kb = getrusage(RUSAGE_SELF).ru_maxrss
    address, speaking = speaker(says[1])
    with pytest.raises(CannotRunHere, match="no Dask scheduler answers"):
        DaskWorkers(address)
    speaking.join(10)
    assert getrusage(RUSAGE_SELF).ru_maxrss - before_kb < 1 << 16


def test_what_is_compressed_is_not_unpacked() -> None:
    farm._bound_messages()
    header, frames = serialize(bytes(10 << 20))
    small = zlib.compress(b"".join(map(bytes, frames)))
    with pytest.raises(OSError, match="nobody asked"):
        decompress({**header, "compression": ["zlib"]}, [small])


@pytest.mark.timeout(120)
def test_a_scheduler_that_lies(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    lie = tmp_path / "lie.py"
    lie.write_text(LIAR.replace("PLACE", repr(str(place))))
    monkeypatch.setattr(farm, "LOCAL_S", 100)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", str([str(lie)]))
    workers = request.getfixturevalue("workers")
    answer = ask(workers, honest, place, bare=False)
    assert "no vpneval says" in answer.error
    assert os.getpid() not in ran(place)
    pickle.loads(pickle.dumps(Evil(str(place))))  # here it would have run
    assert os.getpid() in ran(place)


@pytest.mark.timeout(120)
def test_another_user_of_the_machine_is_refused(workers: DaskWorkers) -> None:
    """The key is in a folder of root's; without it, or with one's own certificate, nobody speaks to the scheduler."""
    own = Security.temporary()  # type: ignore[no-untyped-call]
    refuses(workers.address, TypeError, "TLS")
    refuses(workers.address.replace("tls:", "tcp:"), OSError, r"Timed out|closed")
    refuses(workers.address, OSError, r"certificate|Timed out", security=own)
    (worker,) = workers.addresses()
    for address in (workers.address, worker):
        assert not speaks_to_anybody(address)
    again = DaskWorkers(workers.address, workers._security)
    assert again.addresses() == {worker}
    again.close()


def test_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    farm._certificate(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "certificate.pem": 0o600,
        "key.pem": 0o600,
    }


def test_without_what_makes_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(CannotRunHere, match="pip install cryptography"):
        farm._certificate(tmp_path)
