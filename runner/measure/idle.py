"""The idle tunnel: round-trip time, and the set-up time that was taken when it came up."""

from __future__ import annotations

import json
import statistics
import time

from runner import probes
from runner.errors import MeasurementError
from runner.lab import Lab
from runner.measure.result import Measured, measurement
from runner.proof import ANSWER_PORT


def idle(lab: Lab, address: str, duration_s: float, setup_s: float) -> Measured:
    """Round-trip time on the idle tunnel, and the set-up time that was taken when the tunnel came up."""
    started = time.monotonic()
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "rtt", address, str(ANSWER_PORT), str(duration_s))
    asked = lab.host1.run(*ask, timeout=duration_s + 15, check=False)
    if asked.code != 0:
        raise MeasurementError(f"the exchange broke off: {asked.stderr.strip().splitlines()[-1:]}")
    times = json.loads(asked.stdout)
    if not times:
        raise MeasurementError("no exchange was finished in the time")
    return Measured(
        [measurement("rtt", statistics.median(times), times), measurement("setup_time", setup_s)],
        time.monotonic() - started,
    )
