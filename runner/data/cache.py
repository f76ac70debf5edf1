"""Where lab images are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Where images live: ``VPNEVAL_CACHE``, else /var/cache/vpneval (root) or ~/.cache/vpneval."""
    if configured := os.environ.get("VPNEVAL_CACHE"):
        return Path(configured)
    return Path("/var/cache/vpneval") if os.geteuid() == 0 else Path.home() / ".cache" / "vpneval"
