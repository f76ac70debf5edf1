"""What the kernel grants a socket: iperf3 asks for the same buffer both ways."""

import socket
from typing import Any

import pytest

from runner.instruments.traffic.udp import GRANTED


@pytest.mark.parametrize(("rmem_max", "wmem_max", "granted"), [(2**24, 212992, 212992), (9000, 2**24, 9000)])
def test_the_smaller_of_both_limits_counts(
    rmem_max: int, wmem_max: int, granted: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {socket.SO_RCVBUF: rmem_max, socket.SO_SNDBUF: wmem_max}

    class Socket:
        def __init__(self, *_: Any) -> None:
            self.has: dict[int, int] = {}

        def setsockopt(self, _: int, buffer: int, wanted: int) -> None:
            self.has[buffer] = 2 * min(wanted, limits[buffer])  # socket(7)

        def getsockopt(self, _: int, buffer: int) -> int:
            return self.has[buffer]

    monkeypatch.setattr("socket.socket", Socket)
    monkeypatch.setattr("sys.argv", ["-c", str(2**21)])
    exec(GRANTED, {})  # noqa: S102
    assert capsys.readouterr().out == f"{granted}\n"
