"""New TCP connections through the tunnel: how long until each has brought its first byte."""

import json
import time
from collections.abc import Mapping
from statistics import median

from runner.data.errors import MeasurementError
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT

CONNECTIONS = 32  # of one slice
# Runs on host1. The far host answers each byte with its complement.
PROGRAM = """
import json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor

address, port, at_once, connections = sys.argv[1], *map(int, sys.argv[2:])

def connect(_):
    began = time.perf_counter()
    with socket.create_connection((address, port), timeout=5) as connection:
        connection.sendall(b"U")
        if connection.recv(1) != bytes([255 - ord("U")]):
            sys.exit("a connection was closed without an answer")
    return 1000 * (time.perf_counter() - began)

with ThreadPoolExecutor(at_once) as pool:
    print(json.dumps(list(pool.map(connect, range(connections)))))
"""


class Connect(Instrument):
    """New TCP connections, some at once."""

    name = "connect"
    factors = {"at_once": Levels(("1", "8"), range=(1, 32), default="1")}
    metrics = (
        Metric(
            name="connect_time",
            title="Connection time",
            unit="ms",
            better="lower",
            definition="Median time from the call of connect() to the first byte that the far host answered, over new "
            "TCP connections between the hosts, each with a request of one byte.",
            source="RFC 9293 §3.5 (the handshake), then one exchange as for rtt",
        ),
    )

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return profile.duration_s + 0.2

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        began, times_ms, go = time.monotonic(), list[float](), Go.ON
        while go is Go.ON:
            found_ms = connect(bench, asked.params["at_once"])
            times_ms += found_ms
            go = yield {"connections": len(found_ms), "median_ms": median(found_ms)}
            if time.monotonic() - began >= asked.profile.duration_s:
                break
        return Measured([measurement("connect_time", median(times_ms), times_ms)], time.monotonic() - began)


def connect(bench: Bench, at_once: str) -> list[float]:
    """How long each connection of one slice took, ms."""
    program = ("python3", "-IS", "-c", PROGRAM, bench.address, str(ANSWER_PORT), at_once, str(CONNECTIONS))
    done = bench.lab.host1.run(*program, check=False, timeout=30)
    if done.code != 0:
        raise MeasurementError(f"connecting failed: {done.stderr.strip()[-200:]}")
    found_ms: list[float] = json.loads(done.stdout)
    return found_ms
