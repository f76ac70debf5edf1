"""The paced sender of a transfer: it sleeps between its pieces, and holds the rate also where the other end pauses."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from runner.lab.probes import visit

SECONDS = 0.25


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        yield near, far


@pytest.mark.parametrize("rate_bps", [10e6, 100e6, 1e9, 3e9])
def test_it_sleeps_between_its_pieces_at_any_rate(monkeypatch: pytest.MonkeyPatch, rate_bps: float) -> None:
    now, sent, slept = [100.0], list[int](), list[float]()

    def look() -> float:
        now[0] += 5e-6  # what a turn of the loop takes
        return now[0]

    def send(view: memoryview) -> int:
        now[0] += len(view) / 20e9  # 160 Gbit/s
        sent.append(len(view))
        return len(view)

    def sleep(seconds: float) -> None:
        assert seconds > 0
        slept.append(seconds)
        now[0] += seconds + 50e-6

    streams = visit.Streams([])
    near, far = socket.socketpair()
    with near, far:
        streams.connections, streams.sent = [_Sending(near, send)], [0]  # type: ignore[list-item]
        monkeypatch.setattr(visit, "time", SimpleNamespace(sleep=sleep, monotonic=look))
        streams.pump(bytes(visit.BLOCK), rate_bps, lambda: now[0] < 100 + SECONDS)
    assert sum(sent) * 8 / SECONDS == pytest.approx(rate_bps, rel=0.03)
    assert sum(slept) > 0.5 * SECONDS, "it spins"
    assert len(sent) < 3 * max(1.0, SECONDS / visit.PACE_S) + 2 * sum(sent) / visit.BLOCK, "the pieces are small"


class _Sending:
    """A connection whose ``send`` is another one."""

    def __init__(self, connection: socket.socket, send: object) -> None:
        self.fileno, self.send = connection.fileno, send


def test_what_a_stall_held_back_follows(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    for one in ends:  # so that little waits in the kernel
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    rate_bps, stop, came = 100e6, threading.Event(), [0]

    def receive() -> None:
        began, stalled = time.monotonic(), False
        while not stop.is_set():
            if not stalled and time.monotonic() > began + 0.1:
                stalled = True
                stop.wait(0.1)
            came[0] += len(far.recv(2**17))

    reader = threading.Thread(target=receive)
    reader.start()
    streams, end = visit.Streams([near]), time.monotonic() + 0.5
    streams.pump(bytes(visit.BLOCK), rate_bps, lambda: time.monotonic() < end)
    stop.set()
    near.close()
    reader.join()
    assert streams.sent[0] * 8 / 0.5 == pytest.approx(rate_bps, rel=0.1)
