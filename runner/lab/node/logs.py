"""A trial's log folder: it gets the daemons' output without their keys, and a failure quotes its last lines.

What is read of a running daemon's log is read from memory, and the file is a copy: whether a tunnel is up never depends
on the disk of the results.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from runner.data.errors import UsageError
from runner.data.files import open_file, open_to_read
from runner.lab.redaction import KNOWN

CHUNK = 65536
PIPE_BYTES = 1 << 20  # what a daemon may say while the runner is busy; pipe(7) allows as much to any user
MOST_BYTES = 32 << 20  # of a log; what is longer is cut down to its first and its last KEPT_BYTES
KEPT_BYTES = 8 << 20
END_BYTES = 1 << 16  # of a log, in which its last lines are
REST_S = 0.02  # so that a daemon that says much in small pieces costs little; who reads its log asks first


def tail(folder: Path, lines: int = 4) -> str:
    """The last lines of the gateways' and the routers' daemon logs, for the reason of a failure."""
    settle()
    excerpts = []
    for path in sorted([*folder.glob("gw*.log"), *folder.glob("r[0-9]*.log")]):
        last = [line for line in _read(path, END_BYTES).splitlines() if line.strip()][-lines:]
        if last:
            excerpts.append(f"{path.name}: " + " / ".join(line.strip()[:200] for line in last))
    return "\n" + "\n".join(excerpts) if excerpts else ""


def log_text(path: Path) -> str:
    """The log so far; empty where there is none."""
    settle()
    return _read(path, 0)


def _read(path: Path, end: int) -> str:
    """The log, or its last ``end`` bytes: from memory where its command or its node is still there, else the file."""
    if (text := _texts.get(path)) is not None:
        return bytes(text.data[-end:]).decode(errors="replace")
    if not path.exists():
        return ""
    with open_to_read(path) as file:
        file.seek(-min(path.stat().st_size, end) if end else 0, os.SEEK_END if end else os.SEEK_SET)
        return file.read().decode(errors="replace")


class _Text:
    """What a log has, in memory."""

    def __init__(self, path: Path) -> None:
        self.data, self.left_out = bytearray(path.read_bytes()), 0


_texts: WeakValueDictionary[Path, _Text] = WeakValueDictionary()  # of the logs that a command or its node still has


class LogFile:
    """A log without secrets, in whatever pieces they come. Of a very long log the two ends are kept."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises OSError, and UsageError where it is a link."""
        self.path, self._rest = path, b""
        open_file(path, "ab").close()
        self._text = _texts.setdefault(path, _Text(path))

    def write(self, data: bytes) -> None:
        """Append ``data``. An end that may be the beginning of a secret is kept back until more data follow."""
        clean, self._rest = KNOWN.cut(self._rest + data, more=True)
        self._append(clean)

    def flush(self) -> None:
        """Append what was kept back: nothing follows."""
        clean, self._rest = KNOWN.cut(self._rest, more=False)[0], b""
        self._append(clean)

    def _append(self, clean: bytes) -> None:
        text = self._text
        text.data += clean
        shortened = len(text.data) > MOST_BYTES
        if shortened:
            text.left_out += len(text.data) - 2 * KEPT_BYTES
            notice = f"{text.left_out} bytes are left out here: of a long log its two ends are kept"
            text.data[KEPT_BYTES:-KEPT_BYTES] = f"\n… {notice} …\n".encode()
        # A full disk, which the main thread meets too, must not stop the daemon.
        with suppress(OSError, UsageError):
            if clean:
                with open_file(self.path, "wb" if shortened else "ab") as file:
                    file.write(text.data if shortened else clean)


class LogPipe:
    """The pipe from a background command to its log. Give the command ``entry``, then ``follow``."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and UsageError where the log is a link."""
        self._log, self._lock, self._over = LogFile(path), threading.Lock(), False
        self._exit, self.entry = os.pipe()
        os.set_blocking(self._exit, False)
        with suppress(OSError):  # an ordinary user has a limit for all pipes together
            fcntl.fcntl(self._exit, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def follow(self) -> None:
        """Log the output of the command, which has been started, until it and everything that it started have ended."""
        os.close(self.entry)
        _pipes.add(self)
        threading.Thread(target=self._follow, daemon=True).start()

    def settle(self) -> None:
        """Log the output that is in the pipe now."""
        with self._lock, suppress(BlockingIOError):
            for _ in range(2 * PIPE_BYTES // CHUNK):  # who talks faster than this is not waited for
                if self._over:
                    return
                if data := os.read(self._exit, CHUNK):
                    self._log.write(data)
                else:
                    self._log.flush()
                    self._over = True

    def _follow(self) -> None:
        ready = select.poll()
        ready.register(self._exit, select.POLLIN)
        while not self._over:
            ready.poll()
            self.settle()
            time.sleep(REST_S)
        _pipes.discard(self)
        os.close(self._exit)


_pipes: set[LogPipe] = set()  # those that are open


def settle() -> None:
    """Log the output that is in any pipe now."""
    for pipe in list(_pipes):
        pipe.settle()
