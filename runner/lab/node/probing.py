"""A probe on a node: it is started, says that it is ready, is asked, and says what it has found."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError
from runner.lab import probes
from runner.lab.node import LabNode
from runner.lab.node.commands import Dialogue, readable


@contextmanager
def probe(node: LabNode, name: str, *argv: str, ready: str) -> Iterator[Dialogue]:
    """A probe that runs on ``node`` beside what the block does, and has said ``ready``. Ended with the block.

    Raises MeasurementError with its own words where it cannot start.
    """
    node.write(f"{probes.FOLDER}/{name}.py", probes.source(name), mode=0o644)
    running = node.talk("python3", "-IS", f"{probes.FOLDER}/{name}.py", *argv)
    try:
        assert running.stdout is not None
        if running.stdout.readline().strip() != ready:
            last_lines = running.communicate(timeout=5)[1].strip().splitlines()[-1:]
            raise died(running)(f"the probe {name} does not work on {node.name}: {''.join(last_lines)}")
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
        line = running.stdout.readline() if readable([running.stdout], timeout_s) else "null"
        response: dict[str, Any] = json.loads(line)
    except (OSError, ValueError):
        raise died(running)(f"the probe {name} died") from None
    if not response:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s")
    if "error" in response:
        raise MeasurementError(f"the probe {name}: {response['error']}")
    return response


def answer(running: Dialogue, name: str, last: str = "end", timeout_s: float = 10.0) -> dict[str, Any]:
    """Tell a probe by a ``last`` line that the test is over; what it has found.

    Raises MeasurementError where it says nothing.
    """
    try:
        output, error = running.communicate(last + "\n", timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s") from late
    try:
        result: dict[str, Any] = json.loads(output)
    except ValueError:
        raise died(running)(f"the probe {name} died: {error.strip()[-300:]}") from None
    return result
