"""The program that asks the gateway's service, against servers of the loopback."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runner.instruments.traffic.service import NGINX, PROGRAM


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A web server that has this answer for everybody; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def asked(port: int, seconds: str, at_least: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-IS", "-c", PROGRAM, "127.0.0.1", str(port), seconds, at_least)
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_each_exchange_is_timed_and_there_are_enough() -> None:
    with answering(200) as port:
        found = json.loads(asked(port, "0.001", "1").stdout)
        many = json.loads(asked(port, "2", "3").stdout)
    assert len(found["times_ms"]) >= 1
    assert len(many["times_ms"]) >= 3
    for one in (found, many):
        assert all(0 < time_ms <= 1000 * one["seconds"] for time_ms in one["times_ms"])
        assert sum(one["times_ms"]) <= 1000 * one["seconds"], "one after another"


def test_another_answer_is_no_exchange() -> None:
    with answering(503) as port:
        done = asked(port, "0.1", "1")
    assert done.returncode == 1
    assert "the service answered b'HTTP/1.0 503" in done.stderr


@pytest.mark.parametrize("address", ["10.1.0.1"])
def test_the_service_listens_where_the_near_host_asks(address: str) -> None:
    assert f"listen {address}:8080;" in NGINX.format(address=address, port=8080)
