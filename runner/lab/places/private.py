"""A folder of this run's own for sockets and logs of its connections. The next run removes the folder of a killed
run."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from runner.data.errors import CannotRunHere
from runner.data.files import hold_lock

PREFIX = "vpneval-lab-"
YOUNG_S = 60.0  # a folder that was made just now may not be locked yet

# OpenSSH has room for 90 bytes of a socket's path, 30 of which are ours, and reads blanks, quotes and % in it itself.
PLAIN = re.compile(r"/[A-Za-z0-9_./+-]{0,59}")


def plain_folder(*folders: str) -> Path:
    """The first of ``folders`` that can hold the sockets. Raises CannotRunHere where none can."""
    for folder in folders:
        if PLAIN.fullmatch(folder) and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    raise CannotRunHere(
        f"none of {', '.join(folders)} can hold ssh's sockets: a folder that can be written to, with a path of at most "
        "60 letters, digits and . _ + -; set TMPDIR to one"
    )


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder of mode 0700, removed when the block ends. Folders of dead runners, which hold no lock, are removed
    first."""
    base = plain_folder(gettempdir(), "/tmp", "/dev/shm", "/run")
    for left in base.glob(f"{PREFIX}*"):
        with suppress(OSError, CannotRunHere):  # another runner's, in use, or just gone
            _remove_abandoned(left)
    with TemporaryDirectory(prefix=PREFIX, dir=base) as name:
        held = os.open(name, os.O_RDONLY)  # the lock ends with this process, however it ends
        try:
            hold_lock(held, name)  # another runner may be looking at it just now
            yield Path(name)
        finally:
            os.close(held)


def _remove_abandoned(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(descriptor)
        # Only what is old is locked: its runner, if it lives, has had the time to take the lock.
        old = about.st_uid == os.geteuid() and time.time() - about.st_mtime > YOUNG_S
        if old and hold_lock(descriptor, folder, wait=False):
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)
