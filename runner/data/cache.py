"""Where lab images are kept on this machine."""

from __future__ import annotations

import os
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


def users_cache() -> Path:
    """The folder of an ordinary user's images. Raises CannotRunHere where the user has no home."""
    return at_home(Path("~/.cache/vpneval"))
