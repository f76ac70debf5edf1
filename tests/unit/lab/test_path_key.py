"""The far end of the path's probe listens on a machine's own network: it answers nobody but the one who asks for us."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner.lab import probes

PROBE = Path(probes.__file__).parent / "path.py"
KEY = "0123456789abcdef"


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as end:
        end.bind(("127.0.0.1", 0))
        port: int = end.getsockname()[1]
        return port


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """UDP and TCP, answered to those who know KEY."""
    udp, tcp = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
    argv = [sys.executable, "-IS", str(PROBE), "answer", "4", f"udp/{udp}", f"tcp/{tcp}"]
    with subprocess.Popen(argv, stdin=-1, stdout=-1, text=True, bufsize=1) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        assert far.stdout.readline() == "ready\n"
        far.stdin.write(json.dumps({"key": KEY}) + "\n")
        assert json.loads(far.stdout.readline())
        yield udp, tcp
        far.stdin.close()
        assert far.wait(20) == 0


def answered(port: int, text: bytes) -> bytes:
    """What comes back for a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.settimeout(0.5)
        end.sendto(text, ("127.0.0.1", port))
        with suppress(TimeoutError):
            return end.recv(1 << 16)
    return b""


def sent_back(port: int, line: bytes) -> int:
    """The bytes that a TCP connection gets for its first line, until it is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as end:
        end.sendall(line + b"\n")
        total = 0
        with suppress(ConnectionResetError):
            while got := len(end.recv(1 << 16)):
                total += got
        return total


def asks(key: str) -> bytes:
    return json.dumps({"key": key, "send_s": 0.2, "max_bps": 0}).encode()


def test_the_one_who_knows_the_key_is_answered(ports: tuple[int, int]) -> None:
    seen = answered(ports[0], KEY.encode() + b"7" + bytes(400))
    assert json.loads(seen)["number"].startswith("7")
    assert len(seen) == 417, "as long as the question"
    assert sent_back(ports[1], asks(KEY)) > 1 << 16


@pytest.mark.parametrize("text", [b"", b"0", bytes(1400), b"x" * 16, KEY[:15].encode(), KEY.encode()[::-1]])
def test_a_strangers_datagram_is_not_answered(ports: tuple[int, int], text: bytes) -> None:
    assert answered(ports[0], text) == b""
    assert answered(ports[0], KEY.encode()), "it is still there"


@pytest.mark.parametrize(
    "line", [asks("x" * 16), asks(""), b'{"send_s": 9, "max_bps": 0}', b"[1]", b"", b"no JSON", b"x" * 5000]
)
def test_a_stranger_gets_nothing_sent(ports: tuple[int, int], line: bytes) -> None:
    assert sent_back(ports[1], line) == 0
    assert sent_back(ports[1], asks(KEY)) > 0, "it is still there"


def test_the_key_is_in_no_argument(ports: tuple[int, int]) -> None:
    """What asks has it from its standard input, too."""
    argv = [sys.executable, "-IS", str(PROBE), "ask", "127.0.0.1", "0.1", "0", "1500", "576", "0"]
    argv += [f"udp/{ports[0]}", f"tcp/{ports[1]}"]
    done = subprocess.run(argv, input=KEY + "\n", capture_output=True, text=True, timeout=60, check=True)
    said = json.loads(done.stdout)
    assert said["open"] == [f"udp/{ports[0]}", f"tcp/{ports[1]}"]
    assert said["forward_bps"] > 0
    assert said["reverse_bps"] > 0
