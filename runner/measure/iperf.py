"""The instrument iperf3: a client on host1, a server on host2."""

from __future__ import annotations

import json
import time
from typing import Any

from runner.errors import CommandError, MeasurementError
from runner.lab import Lab
from runner.plugin import TCP_PORTS

IPERF_PORT = str(TCP_PORTS[0])
OVERHEAD_S = 0.1  # what a one-second iperf3 costs beyond its second: process, connection, exchange of results


def iperf3(lab: Lab, address: str, duration_s: int, *options: str) -> dict[str, Any]:
    """Run one iperf3 test from host1 and return its JSON. Raises MeasurementError with iperf3's own words.

    ``duration_s`` is whole: iperf3 takes ``-t 0.5`` as 0, which means for ever.
    """
    argv = ["iperf3", "--client", address, "--port", IPERF_PORT, "--time", str(duration_s), "--json"]
    argv += ["--connect-timeout", "3000", *options]
    try:
        done = lab.host1.run(*argv, check=False, timeout=duration_s + 4)
        if "the server is busy" in done.stdout:  # the test before ended here, and not there yet
            time.sleep(0.5)
            done = lab.host1.run(*argv, check=False, timeout=duration_s + 4)
    except CommandError as late:
        restart_server(lab)
        raise MeasurementError(f"iperf3 hung: {late}") from late
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise MeasurementError(f"iperf3 said no JSON: {(done.stdout + done.stderr).strip()[-300:]}") from None
    if error := report.get("error"):
        raise MeasurementError(f"iperf3: {error}")
    return report


def restart_server(lab: Lab) -> None:
    """After a hung test the server may still wait for it: give the next test a new one."""
    lab.host2.run("pkill", "-KILL", "iperf3", check=False)
    lab.host2.spawn("iperf3", "--server", "--port", IPERF_PORT, log="iperf3-server")
