"""The instrument iperf3: a client on host1, a server on host2."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from runner.data.errors import CannotRunHere, CommandError, InstrumentError, MeasurementError
from runner.lab.node import PATIENCE, Node, wait_until
from runner.lab.node.probing import was_killed
from runner.lab.shape.site import TCP_PORTS
from runner.lab.shape.site_to_site import Lab

IPERF_PORT = str(TCP_PORTS[0])
NEEDED = (3, 2)  # --connect-timeout
THREADS_SINCE = (3, 16)  # before, all parallel streams share one thread
FREE_WITHIN_S = 5.0  # of the test before, after whose end here the server has something left to do
# What the client says while the server has that to do: it is at the test before, or opens its port anew.
NOT_YET = re.compile(r"the server is busy|unable to connect to server.*Connection (reset by peer|refused)")
TALK_RTTS = 12  # that its two ends talk before and after a test
OVERHEAD_S = 0.1  # what a one-second iperf3 costs beyond its second: process, connection, exchange of results


def iperf3(lab: Lab, address: str, duration_s: int, *options: str) -> dict[str, Any]:
    """The JSON of one iperf3 test from host1. Raises MeasurementError with iperf3's own words.

    ``duration_s`` is whole: iperf3 takes ``-t 0.5`` as 0, which means for ever. With ``--bytes`` among the options it
    is only how long the test may take.
    """
    argv = ["iperf3", "--client", address, "--port", IPERF_PORT, "--json", "--connect-timeout", "3000", *options]
    argv += [] if "--bytes" in options else ["--time", str(duration_s)]
    end = time.monotonic() + FREE_WITHIN_S * PATIENCE
    try:
        within_s = 2 * duration_s + 4 + TALK_RTTS * lab.rtt_s
        while NOT_YET.search((done := lab.host1.run(*argv, check=False, timeout=within_s)).stdout):
            if time.monotonic() > end:
                break
            time.sleep(0.1)
    except CommandError as late:
        restart_server(lab)
        raise MeasurementError(f"iperf3 hung: {late}") from late
    if was_killed(done.code):
        raise InstrumentError(f"iperf3 was killed on {lab.host1.name}")
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise MeasurementError(f"iperf3 printed no JSON: {(done.stdout + done.stderr).strip()[-300:]}") from None
    if error := report.get("error"):
        if not listens(lab):
            restart_server(lab)
            raise InstrumentError(f"the iperf3 server on {lab.host2.name} had died: {error}")
        raise MeasurementError(f"iperf3: {error}")
    if "--udp" in options and "sum_sent" not in report["end"]:
        have = report.get("start", {}).get("version", "this iperf3")
        raise InstrumentError(f"{have} on {lab.host1.name} does not report what it sent over UDP; 3.11 or newer does")
    return report


def congestion_in_use(lab: Lab) -> str:
    """The congestion control of the connection that carries most to the iperf3 server just now, by ss(8); "" where
    there is none."""
    connections = lab.host1.run("ss", "-HtniO", f"dport = :{IPERF_PORT}").stdout.splitlines()
    busiest = max(connections, key=lambda line: int((re.search(r"bytes_sent:(\d+)", line) or "00")[1]), default="")
    found = re.search(r"(\S+)(?: wscale:\S+)? rto:", busiest)
    return found[1] if found else ""


def version_of(output: str) -> tuple[int, int]:
    """The version in what iperf3 says of itself: ``iperf 3.18 (cJSON 1.7.15)`` is (3, 18)."""
    match = re.match(r"iperf (\d+)\.(\d+)", output)
    if match is None:
        raise MeasurementError(f"this is not a version of iperf3: {output[:80]!r}")
    return int(match[1]), int(match[2])


def check_version(node: Node, needed: tuple[int, int] = NEEDED) -> str:
    """The version of a node's iperf3 as text. Raises CannotRunHere where it is older than ``needed``."""
    output = node.run("iperf3", "--version").stdout
    version = version_of(output)
    have, need = (".".join(map(str, number)) for number in (version, needed))
    if version < needed:
        raise CannotRunHere(f"iperf3 {have} on {node.name} is too old. vpneval needs {need} or newer there")
    return have


def restart_server(lab: Lab) -> None:
    """After a hung test the server may still wait for it: give the next test a new one, which listens.

    Raises TimeoutError where the old one does not go, or the new one does not come."""
    lab.host2.run("pkill", "-KILL", "iperf3", check=False)
    wait_until(lambda: not listens(lab), "the end of the hung iperf3 server")  # it holds the port until it is gone
    lab.host2.spawn("iperf3", "--server", "--port", IPERF_PORT, log="iperf3-server")
    wait_until(lambda: listens(lab), "a new iperf3 server listening")


def listens(lab: Lab) -> bool:
    """Is there an iperf3 server on the far host?"""
    return bool(lab.host2.run("ss", "-Hltn", f"sport = :{IPERF_PORT}").stdout)
