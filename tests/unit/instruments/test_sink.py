"""The program that reads a socket with a small buffer, with datagrams on the loopback."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runner.lab import probes

LENGTH = 1000


@contextmanager
def sink(buffer_bytes: int) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The probe with such a buffer, and its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-IS", "-c", probes.source("sink"), str(buffer_bytes)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert hear(running) == "ready"
        yield running, port
        running.stdin.close()
        assert running.wait(5) == 0


def tell(running: "subprocess.Popen[str]", line: str) -> None:
    assert running.stdin is not None
    running.stdin.write(line + "\n")
    running.stdin.flush()


def hear(running: "subprocess.Popen[str]") -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def burst(port: int, datagrams: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for _ in range(datagrams):
            sending.sendto(bytes(LENGTH), ("127.0.0.1", port))


@pytest.mark.parametrize(("buffer_bytes", "drops"), [(4096, True), (2**20, False)])
def test_what_was_read_and_what_the_socket_dropped_are_told_apart(buffer_bytes: int, drops: bool) -> None:
    datagrams = 50
    with sink(buffer_bytes) as (running, port):
        tell(running, f"begin {port}")
        assert hear(running) == "counting"
        # It waits for its next turn to read while it is stopped, as a program does that gets no CPU.
        running.send_signal(19)
        burst(port, datagrams)
        running.send_signal(18)
        tell(running, f"end {datagrams} 0")
        counts = json.loads(hear(running))
    assert counts["received"] + counts["dropped"] == datagrams
    assert (counts["dropped"] > 0) == drops


def test_a_lost_tail_ends_a_trial_and_what_comes_later_belongs_to_none() -> None:
    with sink(2**20) as (running, port):
        for _ in range(2):
            tell(running, f"begin {port}")
            assert hear(running) == "counting"
            burst(port, 3)
            tell(running, "end 5 0")
            assert json.loads(hear(running)) == {"received": 3, "dropped": 0}
            burst(port, 7)
