"""What one core could encrypt at a tunnel's levels, by OpenSSL's speed on the run's machine."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.levels import AEAD
from runner.data.trials import Run


def crypto_limit(run: Run, params: Mapping[str, str]) -> float | None:
    """How much payload one core can encrypt with these tunnel levels, bit/s, if it did nothing else.

    OpenSSL's speed on this machine, for a CBC cipher with its HMAC's time added. None where nothing is encrypted,
    or it was not measured: an unknown cipher, or gateways with another software than the run's image.
    """
    speeds = run.lab.get("openssl_bps", {})
    cipher, integrity = params.get("cipher", "none"), params.get("integrity", "none")
    needed = [cipher] if cipher in AEAD else [cipher, integrity]
    if cipher in ("none", "null") or any(level not in speeds for level in needed):
        return None
    if params.get("image", run.image.get("name")) != run.image.get("name"):
        return None
    return float(1 / sum(1 / speeds[level] for level in needed))
