"""After an overload: does the tunnel carry anything, and has it emptied its queues?"""

from __future__ import annotations

import math

from runner.tunnel.bring_up import Bench

PATIENT = 3  # times a second
ECHO_EVERY_S, ECHO_FOR_S = 0.05, 2.0


def broke_down(bench: Bench, patient: int = PATIENT) -> bool:
    """Does the tunnel carry nothing any more? One that only empties its queues gets ``patient`` seconds."""
    return not any(bench.carries_payload() for _ in range(patient))


def await_empty_queues(bench: Bench, address: str = "", for_s: float = ECHO_FOR_S) -> bool:
    """Wait until the tunnel's queues are empty, which an echo and its answer show; at most ``for_s`` seconds and a
    round trip, in whole seconds, as ping(8) wants them. Returns whether it was answered."""
    for_s = math.ceil(for_s + bench.lab.rtt_s)
    echo = ("ping", "-n", "-q", "-c", "1", "-i", str(ECHO_EVERY_S), "-w", str(for_s), address or bench.address)
    return bench.lab.host1.run(*echo, check=False, timeout=for_s + 10).code == 0
