"""The probe that waits for the first payload, on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from runner.lab import probes

SILENT_S = 3.0
ASKED_AT_MOST = 100 + 120  # every 10 ms for a second, then every hundredth of the time: 100 ln 3 = 110 more


def test_the_first_payload_is_asked_for_less_and_less_often_and_found() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        server.settimeout(10)
        argv = [
            sys.executable,
            "-IS",
            "-c",
            probes.source("ask"),
            "first",
            "127.0.0.1",
            f"{server.getsockname()[1]}",
            "60",
        ]
        asking = subprocess.Popen(argv)
        waiting = [server.accept()[0]]
        until = time.monotonic() + SILENT_S
        while (left_s := until - time.monotonic()) > 0:
            server.settimeout(left_s)
            try:
                waiting.append(server.accept()[0])
            except TimeoutError:
                break
        assert 1 < len(waiting) <= ASKED_AT_MOST
        assert asking.poll() is None
        for one in waiting:
            assert one.recv(1) in (b"\x55", b"")
            one.send(b"\xaa")
            one.close()
        assert asking.wait(10) == 0
