"""Which guest kernel this process runs in, as the one that started it says."""

from __future__ import annotations

import os

GUEST = "VPNEVAL_GUEST"  # set inside a guest: which kind it is


def guest_name() -> str:
    """The guest in which this process runs: ``uml``, ``qemu-kvm``, ``qemu-tcg``, or "" on the machine itself."""
    return os.environ.get(GUEST, "")
