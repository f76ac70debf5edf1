"""Commands that the agent of a node on this machine runs (``runner/lab/probes/agent.py``). Their pipes are the
runner's."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import IO, Any

from runner.data.errors import CannotRunHere
from runner.lab import machine
from runner.lab.node.lines import CHUNK, MOST_ANSWER, Lines, put, readable

KILLED = -9  # the exit code of a command that went with its node, or was killed
MOST_BYTES = 64 << 20  # that a command may say; an endless one must not fill this machine's memory
TOO_MUCH = f"it said more than {MOST_BYTES >> 20} MiB, and was ended"
TAKES_WITHIN_S = 30.0  # a line that is said to a probe


class SaidTooMuch(Exception):
    """A command has said more than MOST_BYTES."""


def collect(said: Mapping[int, bytearray], end: float | None, argv: Any) -> None:
    """Read the descriptors of ``said`` to their ends. Raises subprocess.TimeoutExpired at the time ``end``, and
    SaidTooMuch."""
    left = [*said]
    while left:
        if not (ready := readable(left, None if end is None else end - time.monotonic())):
            raise subprocess.TimeoutExpired(argv, 0)
        for fd in ready:
            if data := os.read(fd, CHUNK):
                said[fd].extend(data)
            else:
                left.remove(fd)
        if sum(map(len, said.values())) > MOST_BYTES:
            raise SaidTooMuch


def outputs(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[bytes, bytes]:
    """What a process of this machine says on its two pipes until it ends. Raises subprocess.TimeoutExpired and
    SaidTooMuch; the process is killed then."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    end = time.monotonic() + timeout_s
    try:
        collect(said, end, process.args)
        process.wait(max(0.0, end - time.monotonic()))
    finally:
        if process.poll() is None:
            process.kill()
    out, err = map(bytes, said.values())
    return out, err


def run_to_end(argv: Sequence[str], timeout_s: float, text: str = "") -> tuple[int, str, str]:
    """The exit code and the two outputs of a command of this machine, which reads a short ``text``. Raises as
    ``outputs`` does."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as stdin:  # it may have ended
            stdin.write(text.encode())
        out, err = outputs(process, timeout_s)
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


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
                    code = os.read(self._status, CHUNK)
                    self.returncode = int(code) if re.fullmatch(rb"-?[0-9]{1,9}", code) else KILLED
                    os.close(self._status)
            finally:
                self._lock.release()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their end, and wait for the command's end.

        Raises subprocess.TimeoutExpired after ``timeout`` seconds, and SaidTooMuch. The next call also returns the
        output that came before.
        """
        end = None if timeout is None else time.monotonic() + timeout
        streams = ((self.stdout, self._said["stdout"]), (self.stderr, self._said["stderr"]))
        collect({stream.fileno(): said for stream, said in streams if stream and not stream.closed}, end, self.args)
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


class Dialogue:
    """A program on the node ``where``, whose standard streams are pipes of the runner's, spoken to line by line.

    ``end`` of a node ends it. It is read here alone: a stream's own buffer would have what ``hear`` waits for.
    """

    def __init__(self, process: Command | subprocess.Popen[str], where: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process: Any = process  # each kind of node ends its own kind
        self.where = where
        self._stdin, self._stderr = process.stdin, process.stderr
        self._lines = Lines(process.stdout.fileno(), f"a program on {where}", MOST_ANSWER)

    def fileno(self) -> int:
        """The pipe of what it says, for ``readable``."""
        return self._lines.fileno()

    def tell(self, line: str) -> None:
        """Say a line to it. Raises OSError where it is gone, or has not taken it within TAKES_WITHIN_S, and ValueError
        where its input is closed."""
        put(self._stdin.fileno(), f"{line}\n".encode(), TAKES_WITHIN_S)

    def hear(self, within_s: float) -> str:
        """The next line that it says. Raises UnheardError."""
        return self._lines.next(within_s).decode(errors="replace").strip()

    def tell_no_more(self) -> None:
        """Close its standard input."""
        with suppress(OSError):
            self._stdin.close()

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        code: int | None = self.process.poll()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        code: int = self.process.wait(timeout)
        return code

    def last_words(self, last: str, within_s: float) -> tuple[str, str]:
        """Write ``last`` to it, close its input, and read both of its outputs to their ends. Raises
        subprocess.TimeoutExpired and SaidTooMuch."""
        end = time.monotonic() + within_s
        with suppress(OSError, ValueError):
            put(self._stdin.fileno(), last.encode(), within_s)
        self.tell_no_more()
        said = {self.fileno(): self._lines.behind, self._stderr.fileno(): bytearray()}
        collect(said, end, self.process.args)
        with suppress(subprocess.TimeoutExpired):
            self.wait(max(0.0, end - time.monotonic()))
        out, err = (text.decode(errors="replace") for text in said.values())
        return out, err


def last_words(running: Dialogue, last: str, timeout_s: float) -> tuple[str, str]:
    """As ``Dialogue.last_words``."""
    return running.last_words(last, timeout_s)


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


def _file_in_memory(refused: OSError) -> int:
    """A file without a name on the tmpfs /dev/shm, where a profile of seccomp has ``refused`` memfd_create(2)."""
    try:
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotRunHere(
            f"this machine allows no file in memory (memfd_create: {refused.strerror}; /dev/shm: {error.strerror}), "
            f"and keys must not be on a disk. Start vpneval {machine.CONTAINER}"
        ) from None


def file_of(text: str) -> int:
    """A descriptor to read ``text`` from, in memory alone. Raises CannotRunHere where this machine allows none."""
    try:
        file = os.memfd_create("input")
    except OSError as refused:
        file = _file_in_memory(refused)
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
