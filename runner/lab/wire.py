"""What is on the WAN: packets and bytes as a cable would carry them, and probes that count them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError
from runner.lab import probes
from runner.lab.commands import readable
from runner.lab.iproute import root_discipline
from runner.lab.namespaces import Dialogue, NamespaceNode
from runner.lab.site_to_site import Lab

ETHERNET_BYTES = 14  # the frame's header; a queueing discipline counts it, and the frame check sequence not
QUEUE_PACKETS = "10000"


@dataclass(frozen=True)
class Outer:
    """Packets and bytes of IP that went over the WAN one way; Ethernet headers are not in it."""

    packets: int
    ip_bytes: int

    def __sub__(self, before: Outer) -> Outer:
        return Outer(self.packets - before.packets, self.ip_bytes - before.ip_bytes)


def outer(lab: Lab, direction: str = "forward") -> Outer:
    """What has gone over the WAN so far: ``forward`` from the first gateway to the last, or ``reverse``.

    Counted by the queueing discipline of the port that it leaves the WAN node by (without a WAN node: the gateway's
    port). An interface's own counters take a segment that offloading has not cut yet for one packet; a queueing
    discipline counts what it will be cut into, each with its headers (tc(8), kernel: qdisc_pkt_len_init). A port
    without a queue gets a plain one for that, which an idle port passes by.
    """
    node, port = leaving(lab, direction)
    kind, packets, sent_bytes = _root(node, port)
    if kind == "noqueue":
        node.run("tc", "qdisc", "add", "dev", port, "root", "pfifo", "limit", QUEUE_PACKETS)
        node.defer("tc", "qdisc", "del", "dev", port, "root")
        _, packets, sent_bytes = _root(node, port)
    return Outer(packets, sent_bytes - ETHERNET_BYTES * packets)


def leaving(lab: Lab, direction: str) -> tuple[NamespaceNode, str]:
    """The node and port by which packets of that direction leave the WAN."""
    here, there = (lab.sites[0], lab.sites[-1]) if direction == "forward" else (lab.sites[-1], lab.sites[0])
    return (lab.wan, there.name) if lab.has_wan else (lab.gateway(here), here.wan_interface)


def _root(node: NamespaceNode, port: str) -> tuple[str, int, int]:
    shown = node.run("tc", "-statistics", "qdisc", "show", "dev", port).stdout
    if (found := root_discipline(shown)) is None:
        raise MeasurementError(f"{node.name} shows no queueing discipline on {port}: {shown.strip()[:200]}")
    return found


def interface(node: NamespaceNode, port: str) -> str:
    """The kernel's own name of a port of the lab, which on a real machine may have another."""
    return node.run("ip", "-o", "link", "show", "dev", port).stdout.split(":")[1].strip().partition("@")[0]


@contextmanager
def probe(node: NamespaceNode, name: str, *argv: str, ready: str) -> Iterator[Dialogue]:
    """A probe that runs on ``node`` beside what the block does, and has said ``ready``. Ended with the block.

    Raises MeasurementError with its own words where it cannot start.
    """
    node.write(f"{probes.FOLDER}/{name}.py", probes.source(name), mode=0o644)
    running = node.talk("python3", "-IS", f"{probes.FOLDER}/{name}.py", *argv)
    try:
        assert running.stdout is not None
        if running.stdout.readline().strip() != ready:
            said = running.communicate(timeout=5)[1].strip().splitlines()[-1:]
            raise died(running)(f"the probe {name} does not work on {node.name}: {''.join(said)}")
        yield running
    finally:
        if running.poll() is None:
            node.end(running)  # so that its ports and interfaces are free for the next
        running.wait()


def died(running: Dialogue) -> type[MeasurementError]:
    """The error for a probe that says nothing any more, as ``failed`` has it."""
    try:
        return failed(running.wait(1))
    except subprocess.TimeoutExpired:
        return MeasurementError


def failed(code: int) -> type[MeasurementError]:
    """The error for an instrument that ended with this code; where a signal ended it, it says nothing of a VPN."""
    return InstrumentError if was_killed(code) else MeasurementError


def was_killed(code: int | None) -> bool:
    """Is it the exit code of what a signal ended, as Popen has it, or a shell or ssh(1) that ran it?"""
    return code is not None and (code < 0 or code in (128 + signal.SIGKILL, 128 + signal.SIGTERM))


def asked(running: Dialogue, name: str, question: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """One question to a probe that goes on, a line each way. Raises MeasurementError where it does not answer, or says
    what went wrong, in its own words."""
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        running.stdin.write(json.dumps(question) + "\n")
        running.stdin.flush()
        said = running.stdout.readline() if readable([running.stdout], timeout_s) else "null"
        found: dict[str, Any] = json.loads(said)
    except (OSError, ValueError):
        raise died(running)(f"the probe {name} died") from None
    if not found:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s")
    if "error" in found:
        raise MeasurementError(f"the probe {name}: {found['error']}")
    return found


def answer(running: Dialogue, name: str, last: str = "end", timeout_s: float = 10.0) -> dict[str, Any]:
    """Tell a probe by a ``last`` line that the test is over; what it has found.

    Raises MeasurementError where it says nothing.
    """
    try:
        said, error = running.communicate(last + "\n", timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s") from late
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError:
        raise died(running)(f"the probe {name} died: {error.strip()[-300:]}") from None
    return found
