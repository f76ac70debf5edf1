"""Where lab images are kept on this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.files import at_home, is_folder, is_there


def cache_dir() -> Path:
    """Where images live: ``VPNEVAL_CACHE``, else /var/cache/vpneval (root) or ~/.cache/vpneval.

    Raises UsageError where that variable names something else than a folder.
    """
    if configured := os.environ.get("VPNEVAL_CACHE"):
        configured = str(at_home(Path(configured)))
        if is_there(Path(configured)) and not is_folder(Path(configured)):
            raise UsageError(f"VPNEVAL_CACHE is {configured}, which is not a folder. Set it to a folder, or unset it")
        return Path(configured).absolute()
    return Path("/var/cache/vpneval") if os.geteuid() == 0 else users_cache()


def own_folder(folder: Path) -> Path:
    """This folder of the cache for its owner alone, made where it is missing: images have setuid programs, and whoever
    may open a lock may hold it. Raises OSError where it cannot be made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:  # of an older vpneval
        with suppress(OSError):  # a cache that is shared read-only
            folder.chmod(0o700)
    return folder


def users_cache() -> Path:
    """The folder of an ordinary user's images. Raises CannotRunHere where the user has no home."""
    return at_home(Path("~/.cache/vpneval"))
