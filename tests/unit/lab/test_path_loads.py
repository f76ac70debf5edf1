"""The rate of datagrams, where answers are lost on their way back, and where an answer is none."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from runner.lab import probes
from runner.lab.probes import path as path_probe

PROBE = Path(probes.__file__).parent / "path.py"
RATE_BPS = 4e6
ANSWER_BYTES = 400  # at most: the rest is of a load


@contextmanager
def path_back(port: int, keeps: Callable[[int, int], bool]) -> Iterator[int]:
    """A port that leads to ``port`` of the far end; back come the datagrams that ``keeps`` names by how many came
    before, as short or as long ones, and by their length."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
    ):
        asking = list[Any]()
        for end in (near, far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        near.bind(("127.0.0.1", 0))
        far.connect(("127.0.0.1", port))

        def there() -> None:
            with suppress(OSError):
                while True:
                    text, sender = near.recvfrom(1 << 16)
                    asking[:] = [sender]
                    with suppress(ConnectionRefusedError):
                        far.send(text)

        def back() -> None:
            came = {False: 0, True: 0}
            with suppress(OSError):
                while text := far.recv(1 << 16):
                    long = len(text) > ANSWER_BYTES
                    if keeps(came[long], len(text)):
                        near.sendto(text, asking[0])
                    came[long] += 1

        threads = [threading.Thread(target=way, daemon=True) for way in (there, back)]
        for thread in threads:
            thread.start()
        try:
            yield near.getsockname()[1]
        finally:
            for end in (near, far):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(5)


@pytest.mark.parametrize(
    "keeps",
    [
        lambda before, length: before % 100 != 0,
        lambda before, length: length > ANSWER_BYTES or before % 3 == 2,
    ],
    ids=["1 % of all", "two of three answers"],
)
def test_a_lost_answer_makes_no_rate_lower(keeps: Callable[[int, int], bool]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-IS", str(PROBE)]
    with subprocess.Popen([*argv, "answer", "4", f"udp/{port}"], stdin=-1, stdout=-1, text=True, bufsize=1) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        assert far.stdout.readline() == "ready\n"
        far.stdin.write(json.dumps({"key": "0123456789abcdef"}) + "\n")
        assert json.loads(far.stdout.readline())
        with path_back(port, keeps) as through:
            ask = [*argv, "ask", "127.0.0.1", "0.1", str(RATE_BPS), "1500", "576", "0", f"udp/{through}"]
            done = subprocess.run(ask, input="0123456789abcdef\n", capture_output=True, text=True, timeout=100)
        far.stdin.close()
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["forward_bps"] == pytest.approx(RATE_BPS, rel=0.1)
    assert said["reverse_bps"] == pytest.approx(RATE_BPS, rel=0.1)


def test_a_load_is_counted_by_its_number() -> None:
    last = path_probe.Load()
    for number, place, length in ((7, 0, 1000), (7, 1, 1000), (6, 9, 9000), (7, 3, 1000)):
        last.note(number, place, length)
    assert [count for _, count in last.came] == [1000, 2000, 3000], "one of an earlier load came late"
    assert last.loss_ratio == 0.25, "one of four did not come"
    last.note(8, 0, 10)
    assert [count for _, count in last.came] == [10]


@pytest.mark.parametrize("held_up", [False, True])
def test_what_a_path_loses_is_no_burst_of_a_sender_that_was_held_up(held_up: bool) -> None:
    last, rng = path_probe.Load(), random.Random(1)
    for place in range(1000):
        if rng.random() >= 0.01 and not (held_up and 400 <= place < 500):
            last.note(1, place, 1000)
    assert last.loss_ratio == pytest.approx(0.01, abs=0.006)
    assert len(last.came) / 1000 == pytest.approx(0.89 if held_up else 0.99, abs=0.01), "the positive control"


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{}", b"7", b'{"from": 3}', b"\xff", b"[" * 60000, b'{"from": ["a", 1e999]}']
)
def test_what_is_no_answer_says_nothing(text: bytes) -> None:
    assert path_probe.seen_there(text) == {}
