"""A dialogue with a probe on a node: start it, wait until it is ready, ask it, read its answer."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from runner.data.errors import CommandError, InstrumentError, MeasurementError
from runner.lab import probes
from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.commands import MOST_BYTES, TOO_MUCH, Dialogue, SaidTooMuch, first_line, last_words, readable

READY_WITHIN_S = 30.0
LAST_WORDS_S = 5.0


class ProbeSaidError(MeasurementError):
    """A probe works, and says that what it was asked to do did not."""


@contextmanager
def probe(node: LabNode, name: str, *argv: str, ready: str) -> Iterator[Dialogue]:
    """Run a probe on ``node`` beside the block, which begins when the probe has said ``ready``. The probe ends with the
    block.

    Raises MeasurementError with the probe's own words where it cannot start.
    """
    node.write(f"{probes.FOLDER}/{name}.py", probes.source(name), mode=0o644)
    running = node.talk("python3", "-IS", f"{probes.FOLDER}/{name}.py", *argv)
    try:
        assert running.stdout is not None
        if (said := first_line(running.stdout.fileno(), READY_WITHIN_S * PATIENCE)) is None:
            raise MeasurementError(
                f"the probe {name} was not ready on {node.name} within {READY_WITHIN_S * PATIENCE:g} s"
            )
        if said != ready:
            last_lines: list[str] = []
            with suppress(subprocess.TimeoutExpired, SaidTooMuch):
                last_lines = last_words(running, "", LAST_WORDS_S)[1].strip().splitlines()[-1:]
            raise died(running)(f"the probe {name} does not work on {node.name}: {''.join(last_lines)}")
        yield running
    finally:
        if running.poll() is None:
            node.end(running)  # so that its ports and interfaces are free for the next
        running.wait()


def died(running: Dialogue) -> type[MeasurementError]:
    """The class of the error for a probe that does not answer any more, by its exit code: see ``failed``."""
    try:
        return failed(running.wait(1))
    except subprocess.TimeoutExpired:
        return MeasurementError


def failed(code: int) -> type[MeasurementError]:
    """The class of the error for an instrument with this exit code: InstrumentError where a signal ended it, which says
    nothing of a VPN."""
    return InstrumentError if was_killed(code) else MeasurementError


def was_killed(code: int | None) -> bool:
    """Is this the exit code of a process that a signal ended, as Popen reports it, or as a shell or ssh(1) does?"""
    return code is not None and (code < 0 or code in (128 + signal.SIGKILL, 128 + signal.SIGTERM))


def own_fault(error: Exception, gateways: Sequence[str]) -> bool:
    """Is it about a command of ours, on a node that is no gateway, and a signal ended that command?"""
    return isinstance(error, CommandError) and was_killed(error.code) and error.node not in gateways


def asked(
    running: Dialogue,
    name: str,
    question: dict[str, Any],
    timeout_s: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Ask a running probe one question, a line each way, and return its answer; ``meanwhile`` is called while it is at
    work. Raises MeasurementError where it does not answer, and ProbeSaidError, with its own words, where its answer is
    an error."""
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        running.stdin.write(json.dumps(question) + "\n")
        running.stdin.flush()
        meanwhile()
        line = running.stdout.readline(MOST_BYTES) if readable([running.stdout], timeout_s) else "null"
        response = json.loads(line)
    except (OSError, ValueError, RecursionError):
        raise died(running)(f"the probe {name} died") from None
    if not response:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s")
    if not isinstance(response, dict):
        raise InstrumentError(f"the probe {name} answers {line[:80]!r}, which is no answer")
    if "error" in response:
        raise ProbeSaidError(f"the probe {name}: {response['error']}")
    return response


def answer(running: Dialogue, name: str, last: str = "end", timeout_s: float = 10.0) -> dict[str, Any]:
    """Send a probe the ``last`` line, which says that the test is over, and return its result.

    Raises MeasurementError where it does not answer.
    """
    try:
        output, error = last_words(running, last + "\n", timeout_s)
    except subprocess.TimeoutExpired as late:
        raise MeasurementError(f"the probe {name} did not answer within {timeout_s:g} s") from late
    except SaidTooMuch as endless:
        raise InstrumentError(f"the probe {name}: {TOO_MUCH}") from endless
    try:
        result: dict[str, Any] = dict(json.loads(output))
    except (ValueError, TypeError, RecursionError):
        raise died(running)(f"the probe {name} died: {error.strip()[-300:]}") from None
    return result
