"""A machine that lets ssh in and says no more, or takes the connection and says nothing: told meanwhile, and named."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runner.data.errors import CannotRunHere, LabError
from runner.lab.places import connection
from runner.lab.places.connection import Connection
from runner.lab.places.inventory import HostMachine

# In the place of ssh(1): the master makes its socket, and a session behaves as the case says.
SSH = """#!/bin/bash
for word; do
    case $word in
        ControlPath=*) socket=${word#ControlPath=} ;;
        -N) python3 -IS -c "import socket, sys, time
socket.socket(socket.AF_UNIX).bind(sys.argv[1]); time.sleep(60)" "$socket"; exit ;;
    esac
done
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="slow-", dir="/tmp") as name:  # short enough for a socket, which pytest's is not
        yield Path(name)


@contextmanager
def connected(folder: Path, monkeypatch: pytest.MonkeyPatch, port: int | None = None) -> Iterator[list[str]]:
    for name, seconds in (("ANSWERS_WITHIN_S", 2.0), ("READY_WITHIN_S", 4.0), ("TOLD_AFTER_S", 0.5)):
        monkeypatch.setattr(connection, name, seconds)
    said: list[str] = []
    machine = HostMachine(address="127.0.0.1", port=port, lan="eth0", options={"StrictHostKeyChecking": "no"})
    reached = Connection("gw1", machine, folder, said.append)
    began = time.monotonic()
    try:
        reached.wait_ready()
        yield said
    except (CannotRunHere, LabError) as error:
        said.append(str(error))
        yield said
    finally:
        reached.close()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("session", "says"),
    [
        ("sleep 60", "has let ssh in, and a command there says nothing within 2 s"),
        ("printf her; sleep 60", "has let ssh in, and a command there says nothing within 2 s"),
        ("cat /dev/zero", "has let ssh in, and a command there says nothing within 2 s"),
        ("exit 1", "do not answer there"),
        ("while :; do echo here; sleep 0.1; done", "did not answer within"),
    ],
)
def test_a_machine_that_lets_ssh_in_and_says_no_more(
    session: str, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ssh").write_text(f"{SSH}exec 2> /dev/null\n{session}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    with connected(folder, monkeypatch) as said:
        assert says in said[-1]
        assert said[-1].startswith("gw1")
        assert session == "exit 1" or said[0].startswith("gw1 (127.0.0.1) does not answer yet")


def test_a_port_that_takes_connections_and_says_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: [server.accept() for _ in range(2)], daemon=True).start()
        with connected(folder, monkeypatch, server.getsockname()[1]) as said:
            assert said[0].startswith("gw1 (127.0.0.1) does not answer yet")
            assert "gw1 cannot be reached" in said[-1]
