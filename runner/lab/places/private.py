"""A folder of this run's own for sockets and logs of its connections; a run that was killed leaves it to the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

PREFIX = "vpneval-lab-"
YOUNG_S = 60.0  # a folder that was made just now may not be locked yet


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder of mode 0700 that goes at the end; those of dead runners, which hold no lock on theirs, go first."""
    for left in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another runner's, in use, or just gone
            _remove_abandoned(left)
    with TemporaryDirectory(prefix=PREFIX) as name:
        held = os.open(name, os.O_RDONLY)  # the lock ends with this process, however it ends
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(name)
        finally:
            os.close(held)


def _remove_abandoned(folder: Path) -> None:
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        about = os.fstat(found)
        if about.st_uid == os.geteuid() and time.time() - about.st_mtime > YOUNG_S:
            shutil.rmtree(folder)
    finally:
        os.close(found)
