"""Commands that the agent of a node on this machine runs (``runner/lab/probes/agent.py``). Their pipes are the
runner's."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import IO, Any, TypeVar

CHUNK = 65536
KILLED = -9  # the exit code of a command that went with its node

End = TypeVar("End", bound=int | IO[str] | socket.socket)


def readable(ends: Iterable[End], within_s: float | None) -> list[End]:
    """Those of ``ends`` that can be read, or are at their end; none after ``within_s`` seconds. It uses poll(2):
    select(2) takes only descriptors below 1,024, and whoever starts this program may have left it more open files."""
    by_number = {end if isinstance(end, int) else end.fileno(): end for end in ends}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(None if within_s is None else max(0, 1e3 * within_s))]


class Command:
    """A command, as ``subprocess.Popen`` has it: ``returncode`` is None while it runs and negative after a signal, the
    streams that are pipes are open text files."""

    def __init__(self, argv: Sequence[str], number: int, status: int) -> None:
        """``number``: the agent's name for it. ``status``: the pipe that its exit code comes through."""
        self.args, self.number = argv, number
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._status, self._lock = status, threading.Lock()
        self._said = {"stdout": bytearray(), "stderr": bytearray()}

    def poll(self) -> int | None:
        """The command's exit code, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The command's exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        if self.returncode is None:
            end = None if timeout is None else time.monotonic() + timeout
            if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            try:
                if self.returncode is None:
                    self._await([self._status], end)
                    self.returncode = int(os.read(self._status, CHUNK) or KILLED)
                    os.close(self._status)
            finally:
                self._lock.release()
        return self.returncode

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write ``input`` to the command and close its standard input, read both outputs to their end, and wait for its
        end.

        Raises subprocess.TimeoutExpired after ``timeout`` seconds. The next call also returns the output that came
        before.
        """
        end = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None and not self.stdin.closed:
            with suppress(BrokenPipeError):
                self.stdin.write(input or "")
                self.stdin.flush()
            with suppress(BrokenPipeError):
                self.stdin.close()
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        left = {stream.fileno(): name for name, stream in streams.items() if stream is not None and not stream.closed}
        while left:
            for fd in self._await([*left], end):
                if data := os.read(fd, CHUNK):
                    self._said[left[fd]] += data
                else:
                    del left[fd]
        self.wait(None if end is None else max(0, end - time.monotonic()))
        self.close()
        stdout, stderr = (data.decode(errors="replace").replace("\r\n", "\n") for data in self._said.values())
        return stdout, stderr

    def close(self) -> None:
        """Close its streams."""
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _await(self, fds: Sequence[int], end: float | None) -> list[int]:
        """Those of ``fds`` that can be read, or are at their end. Raises subprocess.TimeoutExpired."""
        if not (ready := readable(fds, None if end is None else end - time.monotonic())):
            raise subprocess.TimeoutExpired(self.args, 0)
        return ready


Dialogue = Command | subprocess.Popen[str]  # a probe whose standard streams are the runner's


class AgentLine:
    """The runner's end of the line to an agent. Every call is thread-safe."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._numbers = end, count(1)

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int, stderr: int, **request: Any
    ) -> Command:
        """Ask the agent for a command with copies of these descriptors: ``argv``, or what the ``request`` says. Where
        the node has ended, the command fails with a message on ``stderr``."""
        exits, status = os.pipe()
        command = Command(argv, next(self._numbers), exits)
        try:
            self._ask(
                [stdin, stdout, stderr, status],
                id=command.number,
                **(request or {"argv": argv, "env": dict(environment)}),
            )
        except OSError as gone:
            os.write(stderr, f"the node does not answer: {gone.strerror}\n".encode())
            os.write(status, b"1")
        finally:
            os.close(status)
        return command

    def kill(self, command: Command, within_s: float) -> None:
        """End a command with its process group by SIGKILL, and wait until all of it has gone: a daemon holds its ports
        and locks until then, which is some milliseconds later."""
        gone, tell = os.pipe()
        try:
            with suppress(OSError):
                self._ask([tell], id=command.number, kill=True)
            os.close(tell)
            poll = select.poll()
            poll.register(gone, select.POLLIN)
            poll.poll(1e3 * within_s)
        finally:
            os.close(gone)

    def close(self) -> None:
        """Close the line: the agent ends, and the node with it."""
        self._socket.close()

    def _ask(self, ends: list[int], **request: Any) -> None:
        socket.send_fds(self._socket, [json.dumps(request).encode()], ends)


def file_of(text: str) -> int:
    """A descriptor to read ``text`` from, in memory alone."""
    file = os.memfd_create("input")
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
