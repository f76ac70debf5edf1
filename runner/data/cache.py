"""Where lab images are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.files import is_folder, is_there


def cache_dir() -> Path:
    """Where images live: ``VPNEVAL_CACHE``, else /var/cache/vpneval (root) or ~/.cache/vpneval.

    Raises UsageError where that variable names something else than a folder.
    """
    if configured := os.environ.get("VPNEVAL_CACHE"):
        if is_there(Path(configured)) and not is_folder(Path(configured)):
            raise UsageError(f"VPNEVAL_CACHE is {configured}, which is not a folder. Set it to a folder, or unset it")
        return Path(configured)
    return Path("/var/cache/vpneval") if os.geteuid() == 0 else Path.home() / ".cache" / "vpneval"
