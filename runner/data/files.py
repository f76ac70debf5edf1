"""The files of a run folder are opened here: a symbolic link among them is refused, and its target left alone."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any

from runner.data.errors import UsageError


def no_link(path: Path) -> Path:
    """The same path. Raises UsageError where it is a symbolic link, dangling or not."""
    if path.is_symlink():
        raise UsageError(
            f"{path} is a symbolic link to {os.readlink(path)}. The files of a run folder are not written through "
            "links: remove it, or choose another --out"
        )
    return path


def open_file(path: Path, mode: str, buffering: int = -1) -> IO[Any]:
    """As ``path.open``, for writing. Raises UsageError where ``path`` is a link or no file, and OSError."""
    return open(path, mode, buffering, opener=_open)


def write_text(path: Path, text: str) -> None:
    """As ``path.write_text``. Raises as ``open_file`` does."""
    with open_file(path, "w") as file:
        file.write(text)


def _open(name: str, flags: int) -> int:
    path = Path(name)
    try:
        # Without waiting for somebody to read a FIFO; and what is no file is not emptied.
        opened = os.open(name, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            no_link(path)
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise UsageError(f"{path} is no file; remove it, or choose another --out") from None
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise UsageError(f"{path} is no file; remove it, or choose another --out")
    if flags & os.O_TRUNC:
        os.truncate(opened, 0)
    return opened
