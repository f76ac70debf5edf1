"""Start a guest kernel, run one command in it, carry signals in and output and exit code out; then nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from runner.data.errors import CannotRunHere, LabError
from runner.data.files import write_text
from runner.data.guest import GUEST
from runner.data.streams import standard_error, standard_output
from runner.lab.kernels.guest import HEADER, Channel
from runner.lab.node import ENVIRONMENT
from runner.lab.node.lines import readable
from runner.lab.readings.calibration import HOST, calibration

Say = Callable[[str], None]  # tells the user what happens
AGENT = str(Path(__file__).with_name("guest.py"))
# What a command's behaviour and look may depend on; the guest's command gets these of the user's environment.
PASSED_ON = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONPATH", "VPNEVAL_CACHE")
READY = HEADER.pack(b"H", 0)  # the first word of a guest's agent
PANIC = "Kernel panic"  # what any Linux kernel says when it gives up
TRACE_S = 0.3  # in which its call trace is on the console, too
ENDS_WITHIN_S = 15.0  # from an interruption to the end of the guest's command, times its patience


@dataclass(frozen=True)
class Attempt:
    """One way to start a guest. ``patience`` multiplies every deadline inside it; ``cached`` folders of the machine's
    are mounted again with a cache, where the guest's root has none. ``panics``: what the console says at a panic whose
    cause is known -> the cause in words."""

    kind: str
    argv: Sequence[str]
    boots_within_s: float
    patience: float
    environment: Mapping[str, str] = field(default_factory=dict)
    cached: Sequence[Path] = ()
    panics: Mapping[str, str] = field(default_factory=dict)


class DoesNotStart(CannotRunHere):
    """The guest kernel does not start, though everything it needs is there. The text has the cause, or the console's
    end."""


class Kernel(Protocol):
    """A guest kernel: its name on the command line, its modules' folder (that which holds a folder per version)."""

    name: str

    @property
    def modules(self) -> Path:
        """The folder that holds a folder of modules for each kernel version."""

    def describe(self) -> str:
        """What there is, in a few words. Raises CannotRunHere with what is missing and how to get it."""

    def missing_packages(self) -> list[str]:
        """The Debian packages that it needs and this machine lacks."""

    def prepare(self, say: Say) -> None:
        """Fetch what is missing, telling ``say``. Raises CannotRunHere as ``describe`` does, or if it fails."""

    def attempts(self, fd: int, folders: Sequence[Path]) -> Generator[Attempt, None, None]:
        """The ways to start it, in order. The channel is the socket ``fd``; only ``folders`` are writable."""


@dataclass
class Guest:
    """A guest that is starting or running. Its own text begins at the byte ``begins`` of the ``console``."""

    process: subprocess.Popen[bytes]
    socket: socket.socket
    console: IO[bytes]
    begins: int

    def console_text(self) -> str:
        """The console's text: the messages of the guest's kernel, and of the program that the kernel is or runs in."""
        return _text(self.console, self.begins)

    def has_panicked(self) -> bool:
        """Has its kernel given up? The process may run on: as PID 1 of its namespace it survives its own SIGABRT."""
        return PANIC in self.console_text()

    def last_words(self) -> str:
        """For a message: the text from a panic's reason on, which stands before the call trace; without a panic, its
        end."""
        text = self.console_text()
        last = text[text.index(PANIC) :][:4000] if PANIC in text else text[-1500:]
        return last.strip() or "it says nothing"


def _text(console: IO[bytes], begins: int = 0) -> str:
    """The text of the console from the byte ``begins`` on. The guest's writing position is not moved."""
    data = os.pread(console.fileno(), os.fstat(console.fileno()).st_size, begins)
    lines = data.decode(errors="replace").splitlines()
    return "".join(line.rstrip() + "\n" for line in lines if line.strip())


def getting(packages: Sequence[str]) -> list[str]:
    """The commands that get these Debian packages, and the folder on which a guest mounts its modules."""
    commands = [f"apt-get install {' '.join(packages)}"] if packages else []
    return commands if Path("/lib/modules").is_dir() else [*commands, "mkdir /lib/modules"]


def run_in(
    kernel: Kernel,
    argv: Sequence[str],
    *,
    folders: Sequence[Path] = (),
    console_log: Path | None = None,
    say: Say = lambda text: None,
) -> int:
    """Run ``argv`` under ``kernel`` in the current folder, and return its exit code.

    Of the machine's files only ``folders`` can be written to. The command's output goes to the runner's standard output
    and standard error; each is a terminal in the guest if it is one here. The kernel's own messages go to
    ``console_log`` alone. SIGINT and SIGTERM interrupt the command, a second one ends the guest. Raises DoesNotStart if
    the kernel does not start, LabError if it ends before the command has.
    """
    ours, theirs = socket.socketpair()
    refusals: list[str] = []
    panicked: set[str] = set()
    attempts = kernel.attempts(theirs.fileno(), folders)
    with ours, theirs, closing(attempts), tempfile.TemporaryFile() as console:
        for attempt in attempts:
            if attempt.kind in panicked:  # it would again
                continue
            begins = os.fstat(console.fileno()).st_size
            guest = Guest(_start(attempt, theirs, console), ours, console, begins)
            try:
                if why := _not_ready(guest, attempt.boots_within_s):
                    if guest.has_panicked():
                        panicked.add(attempt.kind)
                        _raise_known(guest, attempt)
                    refusals.append(f"{attempt.kind}: {why}: {guest.last_words()}")
                    say(f"{attempt.kind} does not start here: {why}")
                    continue
                theirs.close()
                return _converse(guest, attempt, kernel, argv, folders)
            finally:
                _end(guest)
                if console_log is not None:
                    with suppress(OSError):  # a full disk has been told of already, by what was measured
                        write_text(console_log, _text(console))
    raise DoesNotStart(f"the guest kernel {kernel.name} does not start on this machine. " + "\n".join(refusals))


def _start(attempt: Attempt, channel: socket.socket, console: IO[bytes]) -> subprocess.Popen[bytes]:
    # A PID namespace of its own: a guest has processes that would outlive it, and here they go with it. And a tmpfs
    # for its memory and temporary files, which goes with its mount namespace; that of a container is small, too.
    holder = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
    own_tmpfs = ("sh", "-c", 'mount -t tmpfs -o size=3g tmpfs /dev/shm && exec "$@"', "sh")
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *holder, *own_tmpfs, *attempt.argv],
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
        pass_fds=[channel.fileno()],
        env={**ENVIRONMENT, "TMPDIR": "/dev/shm", **attempt.environment},
        start_new_session=True,
    )


def _not_ready(guest: Guest, within_s: float) -> str:
    """Wait for the agent's first word. Returns the reason where it does not come, else ""."""
    started, word = time.monotonic(), b""
    while (waited_s := time.monotonic() - started) < within_s:
        if guest.has_panicked():
            time.sleep(TRACE_S)
            return f"its kernel panicked after {waited_s:.1f} s"
        if guest.process.poll() is not None:
            return f"it ended after {waited_s:.0f} s with exit code {guest.process.returncode}"
        if readable([guest.socket], 0.05):
            heard = os.read(guest.socket.fileno(), len(READY) - len(word))
            word += heard
            if word == READY or not heard or not READY.startswith(word):
                return "" if word == READY else f"its first word was {word!r}"
    return f"not ready within {within_s:g} s (this machine's load: {os.getloadavg()[0]:.1f})"


def _raise_known(guest: Guest, attempt: Attempt) -> None:
    """Raise DoesNotStart with the cause of the guest's panic where it is known."""
    text = guest.console_text()
    for shown, cause in attempt.panics.items():
        if shown in text:
            raise DoesNotStart(f"the guest kernel {attempt.kind} does not start on this machine: {cause}")


def _end(guest: Guest) -> None:
    with suppress(ProcessLookupError):
        os.killpg(guest.process.pid, signal.SIGKILL)  # unshare, and by --kill-child everything of the guest
    guest.process.wait()


def _size() -> bytes:
    for stream in (standard_error(), standard_output()):
        with suppress(OSError, ValueError):
            size = os.get_terminal_size(stream.fileno())
            return f"{size.lines} {size.columns}".encode()
    return b"24 80"


def _spec(attempt: Attempt, kernel: Kernel, argv: Sequence[str], folders: Sequence[Path]) -> bytes:
    """What the agent needs to know, see runner/lab/kernels/guest.py."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {
        **ENVIRONMENT,
        GUEST: attempt.kind,
        HOST: json.dumps(calibration()["here"]),
        "VPNEVAL_PATIENCE": f"{attempt.patience:g}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": "/run/tmp",
    }
    spec = {
        "argv": list(argv),
        "cwd": os.getcwd(),
        "environment": environment,
        "terminals": [
            name for name, stream in (("stdout", standard_output()), ("stderr", standard_error())) if stream.isatty()
        ],
        "size": _size().decode(),
        "modules": str(kernel.modules),
        "writable": [str(folder) for folder in folders] if attempt.kind == "uml" else [],
        "cached": [str(folder) for folder in attempt.cached],
    }
    return json.dumps(spec).encode()


def _converse(
    guest: Guest,
    attempt: Attempt,
    kernel: Kernel,
    argv: Sequence[str],
    folders: Sequence[Path],
) -> int:
    channel = Channel(guest.socket.fileno())
    with _caught_signals() as wake:
        try:
            channel.send(b"S", _spec(attempt, kernel, argv, folders))
            return _exit_code(guest, channel, wake, ENDS_WITHIN_S * attempt.patience)
        except ValueError as odd:
            raise LabError(f"the guest kernel {kernel.name} does not say what a guest says: {odd}") from None
        except (EOFError, ConnectionError):
            raise LabError(
                f"the guest kernel {kernel.name} ended before the command did: {guest.last_words()}"
            ) from None


@contextmanager
def _caught_signals() -> Iterator[int]:
    """In the block, SIGINT, SIGTERM and SIGWINCH only write their number into a pipe. Yields the pipe's end to read
    from."""
    wake, waking = os.pipe()
    os.set_blocking(waking, False)
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH)
    previous = {number: signal.signal(number, lambda *_: None) for number in caught}
    previous_fd = signal.set_wakeup_fd(waking)
    try:
        yield wake
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(wake)
        os.close(waking)


def _exit_code(guest: Guest, channel: Channel, wake: int, ends_within_s: float) -> int:
    """Carry signals in and output out until the command has ended.

    Raises EOFError where the guest's kernel panics, KeyboardInterrupt at the second interruption, and where the command
    outlives the first by ``ends_within_s``.
    """
    interrupted_at = None
    while True:
        came = readable([channel.fd, wake], 0.5)
        if not came and guest.has_panicked():
            raise EOFError
        if wake in came:
            interrupted_at = _carry_in(channel, os.read(wake, 100), interrupted_at)
        if interrupted_at and time.monotonic() - interrupted_at > ends_within_s:
            raise KeyboardInterrupt
        if channel.fd in came:
            code = _carry_out(channel)
            if code is not None:
                return code


def _carry_in(channel: Channel, numbers: bytes, interrupted_at: float | None) -> float | None:
    """Send these signals to the guest. Returns when the command was first interrupted; None: not yet. Raises
    KeyboardInterrupt at the second interruption."""
    for number in numbers:
        if number == signal.SIGWINCH:
            channel.send(b"W", _size())
        elif interrupted_at is None:
            interrupted_at = time.monotonic()
            channel.send(b"K", str(int(signal.SIGINT)).encode())
        else:
            raise KeyboardInterrupt
    return interrupted_at


def _carry_out(channel: Channel) -> int | None:
    """Write what the command has written. Returns its exit code once it has ended, else None."""
    sinks = {b"O": standard_output().buffer, b"E": standard_error().buffer}
    for kind, payload in channel.read_frames():
        if kind == b"X":
            return int(payload)
        if kind not in sinks:
            raise ValueError(f"it says {kind!r}")
        sinks[kind].write(payload)
        sinks[kind].flush()
    return None
